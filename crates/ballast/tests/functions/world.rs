//! A namespace with nodes of Ballast that serve it.

use std::{
    collections::BTreeMap,
    fmt, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use cluster::{Cluster, Nats, Running, spawn};
use controllers::crds;
use e2e::{Place, eventually};
use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    coordination::v1::Lease,
    core::v1::{ConfigMap, Event, Namespace, Pod},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    http::{self, Answer},
    lines::Lines,
};

const APP: &str = include_str!("../../../../examples/on-demand/app.yaml");
/// Short, so that a fail-over does not take long; nothing fails if it takes longer.
const LEASE: &str = "3";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// One, with its queues in a redb file.
    One,
    /// Three, with their queues in JetStream.
    Three,
}

impl fmt::Display for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::One => "one",
            Self::Three => "three",
        })
    }
}

pub struct World {
    pub place: Place<'static>,
    pub nodes: Vec<Node>,
    pub nats: Option<Nats>,
    directory: TempDir,
    /// Where it is, and how many copies it keeps.
    store: (String, usize),
    /// Of nodes that can be cut off.
    lines: BTreeMap<String, Lines>,
    /// What the nodes that start next do beside functions on demand.
    controllers: Vec<String>,
    /// As whom they speak to the API, if not as whoever may do anything.
    account: Option<PathBuf>,
    /// The same for single nodes, with what each of them is told alone.
    parts: BTreeMap<String, (PathBuf, String)>,
    /// More that they are told.
    flags: Vec<String>,
}

pub struct Node {
    pub name: String,
    pub gateway: SocketAddr,
    pub operator: SocketAddr,
    running: Option<Running>,
    log: PathBuf,
}

impl Node {
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// As `kill -9` does.
    pub fn kill(&mut self) {
        self.running = None;
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self.running.as_ref().and_then(Running::pid).context("the node does not run")?;
        Ok(kill(Pid::from_raw(i32::try_from(pid)?), signal)?)
    }
}

impl World {
    pub async fn start(cluster: &'static Cluster, nodes: Nodes) -> Result<Self> {
        let mut world = Self::without_nodes(cluster).await?;
        match nodes {
            Nodes::One => world.add_node("node-a").await?,
            Nodes::Three => {
                let nats = Nats::three().await?;
                world.store = (nats.url(), nats.len());
                world.nats = Some(nats);
                for name in ["node-a", "node-b", "node-c"] {
                    world.add_node(name).await?;
                }
            }
        }
        world.master().await?;
        Ok(world)
    }

    /// Another namespace of the cluster, with a node of its own on the same servers of the store.
    pub async fn neighbour(&self) -> Result<Self> {
        let mut world = Self::without_nodes(self.place.cluster).await?;
        world.store = self.store.clone();
        world.add_node("node-a").await?;
        world.master().await?;
        Ok(world)
    }

    async fn without_nodes(cluster: &'static Cluster) -> Result<Self> {
        let place = Place::new(cluster, "functions").await?;
        let mut app: ConfigMap = serde_saphyr::from_str(APP)?;
        app.metadata.namespace = None;
        place.api::<ConfigMap>().create(&PostParams::default(), &app).await?;
        let directory = TempDir::with_prefix("ballast-functions-")?;
        Ok(World {
            place,
            nodes: Vec::new(),
            nats: None,
            store: (format!("redb:{}", directory.path().join("ballast.redb").display()), 1),
            directory,
            lines: BTreeMap::new(),
            controllers: vec!["--controllers=demand".to_owned()],
            account: None,
            parts: BTreeMap::new(),
            flags: Vec::new(),
        })
    }

    /// Starts all nodes again, such that their master looks after the Functions of the namespace.
    pub async fn look_after_functions(&mut self) -> Result<()> {
        crds::install(&self.place.cluster.client()).await?;
        self.controllers = vec![
            "--controllers=demand,function".to_owned(),
            // each test has nodes of its own on the same cluster
            format!("--function-namespace={}", self.place.namespace),
        ];
        self.restart().await
    }

    /// Starts all nodes again with one more flag.
    pub async fn restart_with(&mut self, flag: &str) -> Result<()> {
        self.flags.push(flag.to_owned());
        self.restart().await
    }

    /// Starts all nodes again, such that each can be cut off.
    pub async fn put_behind_lines(&mut self) -> Result<()> {
        let store = self.nats.as_ref().context("a store in a file cannot be cut off")?.url();
        for node in &self.nodes {
            let at = self.directory.path().join(format!("{}.kubeconfig", node.name));
            let lines = Lines::new(self.place.cluster.kubeconfig(), &store, at).await?;
            self.lines.insert(node.name.clone(), lines);
        }
        self.restart().await
    }

    /// Nodes that start next have nothing but this token, and tell all that they do.
    pub fn act_as(&mut self, token: &str) -> Result<()> {
        self.account = Some(self.kubeconfig_of("account", token)?);
        Ok(())
    }

    /// The same for one node, with a flag that only it gets.
    pub fn act_as_part(&mut self, node: &str, token: &str, flag: &str) -> Result<()> {
        let kubeconfig = self.kubeconfig_of(node, token)?;
        self.parts.insert(node.to_owned(), (kubeconfig, flag.to_owned()));
        Ok(())
    }

    fn kubeconfig_of(&self, name: &str, token: &str) -> Result<PathBuf> {
        let mut kubeconfig: Value =
            serde_json::from_str(&fs::read_to_string(self.place.cluster.kubeconfig())?)?;
        kubeconfig["users"][0]["user"] = json!({ "token": token });
        let at = self.directory.path().join(format!("{name}.account.kubeconfig"));
        fs::write(&at, kubeconfig.to_string())?;
        Ok(at)
    }

    pub fn lines(&self, node: &str) -> Result<&Lines> {
        self.lines.get(node).context("the node is not behind lines")
    }

    async fn restart(&mut self) -> Result<()> {
        let names: Vec<String> = self.nodes.iter().map(|node| node.name.clone()).collect();
        for name in &names {
            self.node(name)?.kill();
        }
        for name in &names {
            self.add_node(name).await?;
        }
        self.master().await?;
        Ok(())
    }

    /// Starts a node, also one that was killed; it keeps its files.
    pub async fn add_node(&mut self, name: &str) -> Result<()> {
        let log = self.directory.path().join(format!("{name}-{}.log", self.nodes.len()));
        let lines = self.lines.get(name);
        let store = lines.map_or(&self.store.0, |lines| &lines.store).clone();
        let part = self.parts.get(name);
        let account = part.map(|(kubeconfig, _)| kubeconfig).or(self.account.as_ref());
        let kubeconfig = match (lines, account) {
            (Some(lines), _) => &lines.kubeconfig,
            (None, Some(account)) => account,
            (None, None) => self.place.cluster.kubeconfig(),
        };
        let mut args =
            vec![format!("KUBECONFIG={}", kubeconfig.display()), env!("CARGO_BIN_EXE_ballast").to_owned()];
        let replicas = self.store.1.to_string();
        let options = [
            "serve",
            "--namespace",
            &self.place.namespace,
            "--store",
            &store,
            "--store-replicas",
            &replicas,
            "--gateway-addr",
            "127.0.0.1:0",
            "--operator-addr",
            "127.0.0.1:0",
            "--node-name",
            name,
            "--lease",
            LEASE,
            "--scrape-interval",
            "1",
            "--loopback-pods",
            "--operator-paths-on-gateway",
        ];
        args.extend(options.map(str::to_owned));
        args.extend(self.controllers.iter().chain(&self.flags).cloned());
        args.extend(part.map(|(_, flag)| flag.clone()));
        args.extend(account.map(|_| "-v".to_owned()));
        let running = spawn(Path::new("env"), &args, &log)?;
        let mut node = Node {
            name: name.to_owned(),
            gateway: SocketAddr::from(([127, 0, 0, 1], 0)),
            operator: SocketAddr::from(([127, 0, 0, 1], 0)),
            running: Some(running),
            log: log.clone(),
        };
        (node.gateway, node.operator) = eventually(format!("{name} to serve"), || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            let exited = node.running.as_mut().is_none_or(Running::has_exited);
            async move {
                ensure!(!exited, "the node ended:\n{text}");
                Ok(addresses(&text).ok_or(text))
            }
        })
        .await?;
        self.nodes.retain(|known| known.name != name || known.is_running());
        self.nodes.push(node);
        Ok(())
    }

    /// Of all nodes that run.
    pub fn gateways(&self) -> Vec<SocketAddr> {
        self.nodes.iter().filter(|node| node.is_running()).map(|node| node.gateway).collect()
    }

    /// Of all nodes that run but this one.
    pub fn gateways_without(&self, name: &str) -> Vec<SocketAddr> {
        let others = self.nodes.iter().filter(|node| node.is_running() && node.name != name);
        others.map(|node| node.gateway).collect()
    }

    pub fn any_gateway(&self) -> SocketAddr {
        // the last, which is least likely to be the master
        self.nodes
            .iter()
            .rev()
            .find(|node| node.is_running())
            .map_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)), |node| node.gateway)
    }

    pub fn node(&mut self, name: &str) -> Result<&mut Node> {
        self.nodes.iter_mut().find(|node| node.name == name).context("there is no such node")
    }

    /// Who holds a role, once a node that runs does.
    async fn holder(&self, lease: &str) -> Result<String> {
        let leases = self.place.api::<Lease>();
        let running: Vec<&str> =
            self.nodes.iter().filter(|node| node.is_running()).map(|node| node.name.as_str()).collect();
        eventually(format!("{lease} to be held by one of {running:?}"), || async {
            let holder = leases.get_opt(lease).await?.and_then(|lease| lease.spec?.holder_identity);
            let is_running = holder.as_deref().is_some_and(|holder| running.contains(&holder));
            Ok(holder.clone().filter(|_| is_running).ok_or(holder))
        })
        .await
    }

    pub async fn master(&self) -> Result<String> {
        self.holder("ballast-master").await
    }

    /// Once it is another node than this one.
    pub async fn master_after(&self, old: &str) -> Result<String> {
        eventually(format!("another master than {old}"), || async {
            let master = self.master().await?;
            Ok(if master == old { Err(master) } else { Ok(master) })
        })
        .await
    }

    pub async fn scraper(&self) -> Result<String> {
        self.holder("ballast-scraper").await
    }

    /// A Deployment of the example app with these annotations, without replicas.
    pub async fn function(&self, name: &str, annotations: &[(&str, &str)]) -> Result<()> {
        self.deployment(name, annotations, 0).await
    }

    pub async fn deployment(&self, name: &str, annotations: &[(&str, &str)], replicas: i32) -> Result<()> {
        let deployment: Deployment = serde_json::from_value(workload(name, annotations, replicas))?;
        self.place.api::<Deployment>().create(&PostParams::default(), &deployment).await?;
        self.all_know(name).await
    }

    /// The same as a StatefulSet.
    pub async fn stateful_set(&self, name: &str, annotations: &[(&str, &str)]) -> Result<()> {
        let mut set = workload(name, annotations, 0);
        set["spec"]["serviceName"] = json!(name);
        let set: StatefulSet = serde_json::from_value(set)?;
        self.place.api::<StatefulSet>().create(&PostParams::default(), &set).await?;
        self.all_know(name).await
    }

    /// Until a call of it is no call of something unknown, wherever it comes.
    pub async fn all_know(&self, name: &str) -> Result<()> {
        for node in self.nodes.iter().filter(|node| node.is_running()) {
            eventually(format!("{} to know {name}", node.name), || async {
                let answer = http::get(node.operator, &format!("/status-function/{name}")).await?;
                Ok(if answer.status == 200 { Ok(()) } else { Err(answer) })
            })
            .await?;
        }
        Ok(())
    }

    pub async fn replicas(&self, name: &str) -> Result<i32> {
        let deployment = self.place.api::<Deployment>().get(name).await?;
        Ok(deployment.spec.and_then(|spec| spec.replicas).unwrap_or(1))
    }

    /// Waits until so many replicas are asked for.
    pub async fn until_replicas(&self, name: &str, holds: impl Fn(i32) -> bool) -> Result<i32> {
        eventually(format!("replicas of {name}"), || async {
            let replicas = self.replicas(name).await?;
            if holds(replicas) {
                return Ok(Ok(replicas));
            }
            Ok(Err((replicas, self.status(name).await)))
        })
        .await
    }

    pub async fn call(&self, path: &str) -> Result<Answer> {
        http::get(self.any_gateway(), &format!("/function/{path}")).await
    }

    /// A call that must succeed.
    pub async fn ok(&self, path: &str) -> Result<Answer> {
        let answer = self.call(path).await?;
        ensure!(answer.status == 200, "{path}: {answer:?}");
        Ok(answer)
    }

    /// What Events about an object say, once one holds.
    pub async fn event(&self, name: &str, holds: impl Fn(&Event) -> bool) -> Result<Event> {
        eventually(format!("an Event about {name}"), || async {
            let events = self.place.api::<Event>().list(&ListParams::default()).await?.items;
            let about: Vec<Event> = events
                .into_iter()
                .filter(|event| event.involved_object.name.as_deref() == Some(name))
                .collect();
            let messages: Vec<_> =
                about.iter().map(|event| (event.reason.clone(), event.message.clone())).collect();
            Ok(about.into_iter().find(|event| holds(event)).ok_or(messages))
        })
        .await
    }

    pub async fn pods(&self, name: &str) -> Result<Vec<Pod>> {
        self.place.pods(&format!("app={name}")).await
    }

    /// As the master tells it, which knows first.
    pub async fn status(&self, name: &str) -> Result<Value> {
        let master = self.master().await?;
        let gateway = self.nodes.iter().find(|node| node.name == master).map(|node| node.gateway);
        let gateway = gateway.context("the master is no node of ours")?;
        http::get(gateway, &format!("/status-function/{name}")).await?.json()
    }

    /// Hands in a call to be made later; its id.
    pub async fn later(&self, at: SocketAddr, path: &str) -> Result<String> {
        let answer = http::request(at, "POST", &format!("/async-function/{path}"), "{}").await?;
        ensure!(answer.status == 202, "{path}: {answer:?}");
        answer.header("slimfaas-element-id").map(str::to_owned).context("accepted without an id")
    }

    /// Hands in calls to be made later, each until it is accepted; their ids.
    pub async fn later_for_sure(&self, at: SocketAddr, path: &str, count: usize) -> Result<Vec<String>> {
        let mut accepted = Vec::new();
        for _ in 0..count {
            let id = eventually("a call to be accepted", || async {
                Ok(self.later(at, path).await.map_err(|error| format!("{error:#}")))
            });
            accepted.push(id.await?);
        }
        Ok(accepted)
    }

    /// How a call ended, once it has.
    pub async fn result(&self, name: &str, id: &str) -> Result<Answer> {
        result_at(self.any_gateway(), name, id).await
    }

    /// All that a node wrote.
    pub fn log(&mut self, node: &str) -> Result<String> {
        Ok(fs::read_to_string(&self.node(node)?.log)?)
    }

    /// What the nodes wrote, the end of it.
    pub fn logs(&self) -> String {
        let mut all = String::new();
        for node in &self.nodes {
            let text = fs::read_to_string(&node.log).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let tail = &lines[lines.len().saturating_sub(40)..];
            all += &format!("--- {}\n{}\n", node.name, tail.join("\n"));
        }
        all
    }

    /// Ends the nodes and takes the namespace away.
    pub async fn clear(mut self) -> Result<()> {
        self.nodes.clear();
        let namespaces: Api<Namespace> = Api::all(self.place.cluster.client());
        namespaces.delete(&self.place.namespace, &DeleteParams::default()).await?;
        Ok(())
    }
}

/// What Deployments and StatefulSets of the example app have in common.
fn workload(name: &str, annotations: &[(&str, &str)], replicas: i32) -> Value {
    let annotations: serde_json::Map<String, Value> = annotations
        .iter()
        .map(|(key, value)| (format!("SlimFaas/{key}"), json!(value)))
        .chain([("SlimFaas/Function".to_owned(), json!("true"))])
        .collect();
    json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": {"prometheus.io/scrape": "true"}},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{
                        "name": "app", "image": "python:3", "command": ["python3", "/on-demand/app.py"],
                        "ports": [{"name": "http", "containerPort": 8080}],
                        "readinessProbe": {"tcpSocket": {"port": "http"}, "periodSeconds": 1},
                        "volumeMounts": [{"name": "app", "mountPath": "/on-demand"}],
                    }],
                    "volumes": [{"name": "app", "configMap": {"name": "on-demand-app"}}],
                },
            },
        },
    })
}

/// The same, asked of one node.
pub async fn result_at(at: SocketAddr, name: &str, id: &str) -> Result<Answer> {
    eventually(format!("the result of {id}"), || async {
        let answer = http::get(at, &format!("/async-function-result/{name}/{id}")).await?;
        let is_there = matches!(answer.header("ballast-result"), Some("done" | "dead"));
        Ok(if is_there { Ok(answer) } else { Err(answer) })
    })
    .await
}

fn addresses(log: &str) -> Option<(SocketAddr, SocketAddr)> {
    let line = log.lines().find(|line| line.starts_with("serving functions on "))?;
    let mut addresses = line.split("http://").skip(1);
    let mut next = || addresses.next()?.split_whitespace().next()?.parse().ok();
    Some((next()?, next()?))
}
