//! Who may do what on the embedded API, asked as a ServiceAccount would: with a token over TLS, and by impersonation.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use http::Request;
use k8s_openapi::api::{authentication::v1::TokenRequest, core::v1::ServiceAccount};
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use localkube::{ApiServer, ListenOptions, Options};
use serde_json::{Value, json};

/// The code and the answer, in the name of `user` (empty: of the administrator).
async fn ask(client: &Client, user: &str, method: &str, path: &str, body: Value) -> (u16, Value) {
    let mut request = Request::builder().method(method).uri(path);
    if !user.is_empty() {
        request = request.header("Impersonate-User", user);
    }
    let content = if method == "PATCH" { "application/apply-patch+yaml" } else { "application/json" };
    let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(&body).unwrap() };
    let request = request.header("Content-Type", content).body(body.into()).unwrap();
    let response = client.send(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes();
    (parts.status.as_u16(), serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn can_i(client: &Client, user: &str, verb: &str, resource: &str) -> Value {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let attributes =
        json!({"namespace": "default", "verb": verb, "resource": resource, "subresource": subresource});
    let review = json!({"spec": {"resourceAttributes": attributes}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let (code, answer) = ask(client, user, "POST", path, review).await;
    assert_eq!(code, 201, "{answer}");
    answer["status"].clone()
}

const READER: &str = "system:serviceaccount:default:reader";
const PODS: &str = "/api/v1/namespaces/default/pods";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";

fn role(name: &str, rules: Value) -> Value {
    json!({"metadata": {"name": name}, "rules": rules})
}

fn binding(kind: &str, role: &str) -> Value {
    json!({
        "metadata": {"name": format!("reader-{role}")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}],
    })
}

#[tokio::test]
async fn an_account_may_do_what_a_binding_grants_and_nothing_else() {
    let client = ApiServer::open(Options::default()).await.unwrap().client("default");
    let (code, refused) = ask(&client, READER, "GET", PODS, Value::Null).await;
    assert_eq!(code, 403);
    assert_eq!(
        refused["message"],
        format!(
            "pods is forbidden: User {READER:?} cannot list resource \"pods\" in API group \"\" in the namespace \"default\""
        )
    );
    assert_eq!(can_i(&client, READER, "list", "pods").await, json!({"allowed": false}));
    // everybody may look around
    assert_eq!(ask(&client, READER, "GET", "/apis", Value::Null).await.0, 200);
    assert_eq!(ask(&client, READER, "GET", "/metrics", Value::Null).await.0, 403);

    let rules = json!([{"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]}]);
    assert_eq!(ask(&client, "", "POST", ROLES, role("pods", rules)).await.0, 201);
    assert_eq!(ask(&client, "", "POST", BINDINGS, binding("Role", "pods")).await.0, 201);
    assert_eq!(ask(&client, READER, "GET", PODS, Value::Null).await.0, 200);
    assert_eq!(ask(&client, READER, "GET", "/api/v1/pods", Value::Null).await.0, 403);
    assert_eq!(ask(&client, READER, "GET", "/api/v1/namespaces/default/secrets", Value::Null).await.0, 403);
    assert_eq!(ask(&client, READER, "DELETE", PODS, Value::Null).await.0, 403);
    let reason = "RBAC: allowed by RoleBinding \"reader-pods/default\" of Role \"pods\" to ServiceAccount \"reader/default\"";
    assert_eq!(can_i(&client, READER, "get", "pods/log").await, json!({"allowed": true, "reason": reason}));
    assert_eq!(can_i(&client, READER, "create", "pods").await, json!({"allowed": false}));
    assert_eq!(can_i(&client, "", "create", "pods").await["allowed"], true);
}

/// A WebSocket begins with a GET, which must not be a way around the right to create.
#[tokio::test]
async fn to_get_is_not_enough_for_a_session_with_a_pod() {
    let client = ApiServer::open(Options::default()).await.unwrap().client("default");
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(ask(&client, "", "POST", PODS, pod).await.0, 201);
    let sessions = ["exec", "attach", "portforward"];
    let resources = sessions.map(|session| format!("pods/{session}"));
    for (verb, code) in [("get", 403), ("create", 400)] {
        let rules = json!([{"apiGroups": [""], "resources": resources, "verbs": [verb]}]);
        assert_eq!(ask(&client, "", "POST", ROLES, role(verb, rules)).await.0, 201);
        assert_eq!(ask(&client, "", "POST", BINDINGS, binding("Role", verb)).await.0, 201);
        for session in sessions {
            let path = format!("{PODS}/p/{session}?command=true&stdout=true");
            let (answered, why) = ask(&client, READER, "GET", &path, Value::Null).await;
            assert_eq!(answered, code, "{why}");
            let said = match code {
                403 => format!("cannot create resource \"pods/{session}\""),
                _ => "pod p does not have a host assigned".to_owned(),
            };
            assert!(why["message"].as_str().unwrap().contains(&said), "{why}");
        }
    }
}

#[tokio::test]
async fn the_roles_of_every_cluster_are_there() {
    let client = ApiServer::open(Options::default()).await.unwrap().client("default");
    assert_eq!(ask(&client, "", "POST", BINDINGS, binding("ClusterRole", "view")).await.0, 201);
    assert_eq!(can_i(&client, READER, "list", "configmaps").await["allowed"], true);
    assert_eq!(can_i(&client, READER, "list", "secrets").await["allowed"], false);
    assert_eq!(ask(&client, "", "POST", BINDINGS, binding("ClusterRole", "admin")).await.0, 201);
    for (verb, resource) in [("list", "secrets"), ("create", "pods/exec"), ("list", "configmaps")] {
        assert_eq!(can_i(&client, READER, verb, resource).await["allowed"], true, "{verb} {resource}");
    }
    // aggregated: whoever labels a role adds to it
    let mut more = role("more", json!([{"apiGroups": [""], "resources": ["widgets"], "verbs": ["get"]}]));
    more["metadata"]["labels"] = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    let cluster_roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    assert_eq!(ask(&client, "", "POST", cluster_roles, more).await.0, 201);
    assert_eq!(can_i(&client, READER, "get", "widgets").await["allowed"], true);
}

#[tokio::test]
async fn nobody_hands_out_what_he_does_not_have() {
    let client = ApiServer::open(Options::default()).await.unwrap().client("default");
    let rules = json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]},
    ]);
    // without escalate and bind
    let mut rules = rules;
    rules[0]["verbs"] = json!(["get", "list", "create", "update", "patch"]);
    assert_eq!(ask(&client, "", "POST", ROLES, role("half", rules)).await.0, 201);
    assert_eq!(ask(&client, "", "POST", BINDINGS, binding("Role", "half")).await.0, 201);

    let own = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    assert_eq!(ask(&client, READER, "POST", ROLES, role("own", own)).await.0, 201);
    let more = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    let (code, refused) = ask(&client, READER, "POST", ROLES, role("more", more)).await;
    assert_eq!(code, 403);
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.ends_with(
            "permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}"
        ),
        "{message}"
    );
    let (code, _) = ask(&client, READER, "POST", BINDINGS, binding("ClusterRole", "cluster-admin")).await;
    assert_eq!(code, 403);
    // an apply of what is not there creates it, and needs that right
    let apply =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}, "data": {"a": "b"}});
    let path = "/api/v1/namespaces/default/configmaps/made?fieldManager=test";
    assert_eq!(ask(&client, READER, "PATCH", path, apply).await.0, 403);
}

#[tokio::test]
async fn a_token_of_an_account_is_no_administrator() {
    let directory = tempfile::tempdir().unwrap();
    let api = ApiServer::open(Options::default()).await.unwrap();
    let addr = ([127, 0, 0, 1], 0).into();
    let listener = api.listen(ListenOptions { addr, data_dir: directory.path().to_owned() }).await.unwrap();
    let accounts: Api<ServiceAccount> = Api::default_namespaced(api.client("default"));
    let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": "reader"}})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let request: TokenRequest = serde_json::from_value(json!({"spec": {"audiences": []}})).unwrap();
    let answer = accounts.create_token_request("reader", &PostParams::default(), &request).await.unwrap();
    let token = answer.status.unwrap().token.unwrap();

    let kubeconfig = std::fs::read_to_string(&listener.kubeconfig_path).unwrap();
    let kubeconfig = kubeconfig.replace(&listener.token, &token);
    let kubeconfig: Kubeconfig = serde_json::from_str(&kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let client = Client::try_from(config).unwrap();
    assert_eq!(ask(&client, "", "GET", "/version", Value::Null).await.0, 200);
    assert_eq!(ask(&client, "", "GET", "/api/v1/secrets", Value::Null).await.0, 403);
    assert_eq!(ask(&client, "admin", "GET", "/api/v1/secrets", Value::Null).await.0, 403);
    assert_eq!(can_i(&client, "", "list", "secrets").await, json!({"allowed": false}));
}

#[tokio::test]
async fn the_namespaces_of_the_cluster_stay() {
    let client = ApiServer::open(Options::default()).await.unwrap().client("default");
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        let (code, refused) =
            ask(&client, "", "DELETE", &format!("/api/v1/namespaces/{name}"), Value::Null).await;
        assert_eq!(code, 403);
        let message = format!("namespaces {name:?} is forbidden: this namespace may not be deleted");
        assert_eq!(refused["message"], message);
    }
}
