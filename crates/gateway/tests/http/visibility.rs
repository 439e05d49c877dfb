use api::slimfaas::{Settings, Subscription, Visibility};
use gateway::{Hooks, Options};
use http_body_util::Full;

use crate::support::*;

fn private(settings: &mut Settings) {
    settings.visibility = Visibility::Private;
}

#[tokio::test]
async fn what_is_private_is_unknown_outside() {
    let rig = Rig::new().await;
    let pod = Pod::echo("pod").await;
    let functions = || [function_with("secret", &[&pod], private), function_with("asleep", &[], private)];
    rig.snapshot(functions(), &["10.1.1.1"]);
    let unknown = text(&rig.get("/function/nobody").await).replace("nobody", "secret");
    for path in ["/function/secret", "/function/secret/x", "/async-function/secret"] {
        let answer = rig.get(path).await;
        assert_eq!((answer.status().as_u16(), text(&answer)), (404, unknown.clone()), "{path}");
    }
    assert_eq!(rig.get("/function/asleep").await.status(), 404);
    assert_eq!(rig.post("/wake-function/asleep", "").await.status(), 404);
    assert_eq!(rig.post("/wake-functions", "").await.status(), 204);
    assert_eq!(rig.activity.of("asleep").last, None, "who may not call cannot wake either");
    // Only the address counts, and nobody can put on another's.
    let forged = rig.request("GET", "/function/secret").header("x-forwarded-for", "10.1.1.1");
    assert_eq!(rig.send(forged.body(Full::default()).unwrap()).await.status(), 404);
    assert_eq!(pod.calls(), 0);
    rig.snapshot(functions(), &["127.0.0.1"]);
    assert_eq!(rig.get("/function/secret").await.status(), 200);
}

#[tokio::test]
async fn a_trusted_proxy_names_the_caller() {
    let options = Options { trusted_proxies: vec!["127.0.0.1/32".parse().unwrap()], ..Options::default() };
    let rig = Rig::with(options, Hooks::default()).await;
    let pod = Pod::echo("pod").await;
    rig.snapshot([function_with("secret", &[&pod], private)], &["10.1.1.1"]);
    for (forwarded, status) in [
        ("10.1.1.1", 200),
        ("6.6.6.6", 404),
        ("10.1.1.1, 6.6.6.6", 404),
        ("6.6.6.6, 10.1.1.1", 200),
        ("10.1.1.10", 404),
    ] {
        let request = rig.request("GET", "/function/secret").header("x-forwarded-for", forwarded);
        assert_eq!(rig.send(request.body(Full::default()).unwrap()).await.status(), status, "{forwarded}");
    }
}

/// However the path is written: what the pod would read counts.
#[tokio::test]
async fn private_paths_cannot_be_disguised() {
    let rig = Rig::new().await;
    let pod = Pod::echo("pod").await;
    rig.functions([function_with("mixed", &[&pod], |settings| {
        settings.path_visibility =
            vec![("/admin/open".into(), Visibility::Public), ("/admin".into(), Visibility::Private)];
    })]);
    for (path, status) in [
        ("/", 200),
        ("/public", 200),
        ("/admin/open/x", 200),
        ("/admin", 404),
        ("/admin/x", 404),
        ("//admin", 404),
        ("/%61dmin", 404),
        ("/%2fadmin", 404),
        ("/%5cadmin", 404),
        ("/ADMIN", 404),
        ("/Admin/x", 404),
        ("/%41dmin", 404),
        ("/admin;x=1", 404),
        ("/;x/admin", 404),
        ("/;%2fadmin", 404),
        ("/%3bx/admin", 404),
        ("/%2561dmin", 404),
        ("/x/%252e%252e/admin", 404),
        ("/admin/OPEN/x", 404),
        ("/public/../admin", 400),
        ("/public/%2e%2e/admin", 400),
        ("/public/..%2fadmin", 400),
        ("/admin/open/..;/x", 400),
        ("/./admin", 400),
    ] {
        let answer =
            rig.raw(format!("GET /function/mixed{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"));
        let answer = answer.await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {answer}");
    }
    assert_eq!(pod.calls(), 3);
    // nor is what is open by its exact name open by another
    rig.functions([function_with("mixed", &[&pod], |settings| {
        settings.visibility = Visibility::Private;
        settings.path_visibility = vec![("/open".into(), Visibility::Public)];
    })]);
    for (path, status) in [("/open", 200), ("/o%70en", 200), ("/Open", 404), ("/%25open", 404), ("/", 404)] {
        assert_eq!(rig.get(&format!("/function/mixed{path}")).await.status(), status, "{path}");
    }
}

#[tokio::test]
async fn private_subscriptions_are_for_trusted_callers() {
    let rig = Rig::new().await;
    let (open, closed) = (Pod::echo("open").await, Pod::echo("closed").await);
    let subscribed = |visibility| {
        move |settings: &mut Settings| {
            settings.subscriptions = vec![Subscription { event: "paid".into(), visibility }];
        }
    };
    let functions = || {
        [
            function_with("open", &[&open], subscribed(Visibility::Public)),
            function_with("closed", &[&closed], subscribed(Visibility::Private)),
        ]
    };
    rig.snapshot(functions(), &[]);
    assert_eq!(rig.post("/publish-event/paid", "").await.status(), 204);
    assert_eq!((open.calls(), closed.calls()), (1, 0));
    rig.snapshot(functions(), &["127.0.0.1"]);
    assert_eq!(rig.post("/publish-event/paid", "").await.status(), 204);
    assert_eq!((open.calls(), closed.calls()), (2, 1));
    rig.snapshot([function_with("closed", &[&closed], subscribed(Visibility::Private))], &[]);
    assert_eq!(rig.post("/publish-event/paid", "").await.status(), 404);
    // nor is an event a way around what is said of paths
    let guarded = function_with("open", &[&open], |settings| {
        subscribed(Visibility::Public)(settings);
        settings.path_visibility = vec![("/admin".into(), Visibility::Private)];
    });
    rig.snapshot([guarded], &[]);
    for (path, status) in [("/admin", 404), ("/%61dmin/x", 404), ("/other", 204)] {
        assert_eq!(rig.post(&format!("/publish-event/paid{path}"), "").await.status(), status, "{path}");
    }
    assert_eq!(open.calls(), 3);
}
