//! The Helm chart, as Helm and a real API server see it.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

use anyhow::{Context, Result, ensure};
use cluster::{real::ControlPlane, tools};
use tempfile::TempDir;

/// Of the chart's `ci` directory, besides the defaults.
const CASES: [&str; 4] = ["serve", "single", "namespaced", "everything"];
const PLAIN: [&str; 4] = ["serve", "single", "git-secrets", "buffer-secrets"];

/// What the Prometheus operator brings along, as far as the chart uses it.
const SERVICE_MONITORS: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: servicemonitors.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {kind: ServiceMonitor, plural: servicemonitors, singular: servicemonitor, listKind: ServiceMonitorList}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          required: [spec]
          properties:
            spec:
              type: object
              required: [selector, endpoints]
              properties:
                selector: {type: object, properties: {matchLabels: {type: object, additionalProperties: {type: string}}}}
                endpoints:
                  type: array
                  items:
                    type: object
                    properties:
                      port: {type: string}
                      path: {type: string}
                      interval: {type: string}
                      authorization:
                        type: object
                        properties:
                          credentials: {type: object, required: [key], properties: {name: {type: string}, key: {type: string}}}
"#;

/// A namespace where pods that are not restricted cause a warning, and one that belongs to a team with all rights in it.
const NAMESPACES: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: default, labels: {pod-security.kubernetes.io/warn: restricted}}
---
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: owner, namespace: team}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: owner, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: owner}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: owner}]
"#;

struct Place {
    plane: ControlPlane,
    /// What Helm and kubectl write for themselves.
    home: TempDir,
}

// === impl Place ===

impl Place {
    async fn start() -> Result<Self> {
        Ok(Self { plane: ControlPlane::start(Default::default()).await?, home: TempDir::new()? })
    }

    fn run(&self, program: &Path, arguments: &[&str], input: &str) -> Result<Output> {
        let mut command = Command::new(program);
        command.env("KUBECONFIG", self.plane.kubeconfig()).env("HOME", self.home.path());
        run(command.args(arguments), input)
    }

    fn kubectl(&self, arguments: &[&str], input: &str) -> Result<String> {
        said(self.run(&tools::kubernetes("kubectl")?, arguments, input)?)
    }

    fn helm(&self, arguments: &[&str]) -> Result<String> {
        said(self.run(&tools::helm()?, arguments, "")?)
    }

    /// What would be made, if nothing is unknown and no pod less than restricted.
    fn would_take(&self, manifest: &str) -> Result<String> {
        let dry_run = ["apply", "--server-side", "--dry-run=server", "-o", "name", "-f", "-"];
        let output = self.run(&tools::kubernetes("kubectl")?, &dry_run, manifest)?;
        let warnings = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(!warnings.contains("would violate PodSecurity"), "{warnings}");
        said(output)
    }

    fn has(&self, what: &str) -> Result<bool> {
        Ok(!self
            .kubectl(&["get", what, "--namespace=default", "--ignore-not-found", "-o=name"], "")?
            .is_empty())
    }
}

fn run(command: &mut Command, input: &str) -> Result<Output> {
    use std::io::Write;
    let shown = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("failed to start {shown}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // it may end without reading
        let _ = stdin.write_all(input.as_bytes());
    }
    Ok(child.wait_with_output()?)
}

/// What it printed; what it complained of, if it failed.
fn said(output: Output) -> Result<String> {
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {complaint}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

fn chart() -> String {
    tools::root().join("deploy/chart").display().to_string()
}

fn values(case: &str) -> String {
    format!("--values={}/ci/{case}.yaml", chart())
}

fn rendered(arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(tools::helm()?);
    said(run(command.args(["template", "ballast", &chart(), "--namespace=default"]).args(arguments), "")?)
}

#[test]
fn plain_manifests_are_those_of_the_chart() -> Result<()> {
    for name in PLAIN {
        let mut command = Command::new(tools::root().join("deploy/render"));
        let rendered = said(run(command.arg(name), "")?)?;
        let kept = std::fs::read_to_string(tools::root().join(format!("deploy/{name}.yaml")))?;
        ensure!(kept == rendered, "deploy/{name}.yaml is not what the chart renders: make manifests");
    }
    Ok(())
}

#[test]
fn wrong_values_are_refused_with_their_names() -> Result<()> {
    let rows: &[(&[&str], &[&str])] = &[
        (&["nmae=x"], &["nmae"]),
        (&["controllers.demnad=true"], &["/controllers", "demnad"]),
        (&["gateway.replicas=0"], &["/gateway/replicas"]),
        (&["gateway.resources.limits=null"], &["/gateway/resources", "limits"]),
        (&["store.nats.address=nats://user:password@nats"], &["/store/nats/address"]),
        (&["image.tag=a b"], &["/image/tag"]),
        (&["scope=namespace"], &["controllers.graph=true", "crds.install=true"]),
        (
            &[
                "scope=namespace",
                "controllers.graph=false",
                "crds.install=false",
                "gitSecrets.namespaces={team}",
            ],
            &["gitSecrets.namespaces: team is not the namespace of the release"],
        ),
        (
            &["store.nats.secret="],
            &["store.nats.caKey is set without", "store.nats.credentialsKey is set without"],
        ),
        (&["store.nats.nkeyKey=seed"], &["store.nats.credentialsKey and store.nats.nkeyKey"]),
        (&["store.nats.certKey=tls.crt"], &["store.nats.certKey and store.nats.privateKeyKey"]),
        (&["operators.enabled=true"], &["operators.tokenSecret"]),
        (&["serviceMonitor.enabled=true"], &["operators.enabled=true"]),
    ];
    for (set, named) in rows {
        let set: Vec<String> = set.iter().map(|value| format!("--set={value}")).collect();
        let arguments: Vec<&str> = set.iter().map(String::as_str).collect();
        let refused = rendered(&arguments).err().with_context(|| format!("{set:?} is taken"))?;
        for name in *named {
            ensure!(refused.to_string().contains(name), "{set:?} is refused without {name:?}: {refused}");
        }
    }
    Ok(())
}

#[test]
fn a_controller_that_is_off_takes_its_roles_and_kinds_with_it() -> Result<()> {
    let all = rendered(&[])?;
    let fewer = rendered(&["--set=controllers.pipelines=false"])?;
    for part in ["name: ballast-pipelines", "name: pipelines.numaflow.numaproj.io", "--vertex-image="] {
        ensure!(all.contains(part) && !fewer.contains(part), "{part}");
    }
    ensure!(fewer.contains("--controllers=demand,function,graph,hvpa\n"));
    let none =
        ["demand", "function", "graph", "hvpa", "pipelines"].map(|name| format!("controllers.{name}=false"));
    let none = rendered(&[&format!("--set={}", none.join(","))])?;
    ensure!(
        none.contains("--controllers=\n")
            && !none.contains("- patch\n")
            && !none.contains("kind: ClusterRole")
    );
    Ok(())
}

#[tokio::test]
async fn what_the_chart_renders_is_taken_by_a_real_api_server() -> Result<()> {
    let place = Place::start().await?;
    place.kubectl(
        &["apply", "--server-side", "--force-conflicts", "-f", "-"],
        &(NAMESPACES.to_owned() + "---" + SERVICE_MONITORS),
    )?;
    place
        .kubectl(&["wait", "--for=condition=Established", "crd/servicemonitors.monitoring.coreos.com"], "")?;

    let taken = place.would_take(&rendered(&[])?).context("with the defaults")?;
    for kind in ["statefulset.apps/ballast-gateway", "clusterrole.rbac.authorization.k8s.io/ballast-graph"] {
        ensure!(taken.contains(kind), "{kind} is not among {taken}");
    }
    for case in CASES {
        place.would_take(&rendered(&[&values(case)])?).with_context(|| format!("with ci/{case}.yaml"))?;
    }
    // Whatever is wrong would be seen.
    let manifest = rendered(&[&values("serve")])?;
    for (right, wrong) in [
        ("allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true"),
        ("readOnlyRootFilesystem: true", "readOnlyRootFileSystem: true"),
    ] {
        ensure!(manifest.contains(right));
        ensure!(place.would_take(&manifest.replace(right, wrong)).is_err(), "{wrong} is taken");
    }
    releases(&place)?;
    by_a_team(&place)
}

/// Installed, upgraded and deleted, its kinds stay.
fn releases(place: &Place) -> Result<()> {
    place.helm(&["install", "ballast", &chart(), "--namespace=default"])?;
    for what in
        ["statefulset/ballast-controller", "clusterrole/ballast-graph", "crd/hvpas.autoscaling.k8s.io"]
    {
        ensure!(place.has(what)?, "{what} is not installed");
    }
    place.helm(&[
        "upgrade",
        "ballast",
        &chart(),
        "--namespace=default",
        "--set=controllers.graph=false",
        "--set=gateway.replicas=3",
    ])?;
    ensure!(!place.has("clusterrole/ballast-graph")? && place.has("clusterrole/ballast-hvpa")?);
    ensure!(place.has("crd/resourcegraphdefinitions.kro.run")?, "a kind went with its controller");
    let replicas =
        ["get", "statefulset/ballast-gateway", "--namespace=default", "-o=jsonpath={.spec.replicas}"];
    ensure!(place.kubectl(&replicas, "")? == "3");
    place.helm(&["uninstall", "ballast", "--namespace=default"])?;
    ensure!(!place.has("statefulset/ballast-gateway")? && !place.has("clusterrole/ballast-hvpa")?);
    ensure!(place.has("crd/hvpas.autoscaling.k8s.io")?, "a kind went with the release");
    Ok(())
}

/// Who has all rights in one namespace and none elsewhere installs it there, and nowhere else.
fn by_a_team(place: &Place) -> Result<()> {
    let namespaced = values("namespaced");
    let chart = chart();
    let mut install = vec!["install", "ballast", &chart, "--namespace=team", "--kube-as-user=owner"];
    let denied = place.helm(&install).err().context("a team may install ClusterRoles")?;
    ensure!(denied.to_string().contains("forbidden"), "{denied}");
    install.extend([&namespaced, "--set=gitSecrets.namespaces={team}"]);
    place.helm(&install)?;
    let roles = place.kubectl(&["get", "roles", "--namespace=team", "-o=name"], "")?;
    for role in
        ["ballast-controller", "ballast-function", "ballast-hvpa", "ballast-pipelines", "ballast-git-secrets"]
    {
        ensure!(roles.contains(role), "{role} is not among {roles}");
    }
    Ok(())
}
