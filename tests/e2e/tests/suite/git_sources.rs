//! Functions whose source is in Git, over the transports that there are.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use cluster::Cluster;
use e2e::{Place, at, eventually, git_http::GitHttp};
use serde_json::{Value, json};
use tokio::process::Command;

use super::functions::{get, manifest, place, pods, selector, until_condition};

/// A repository with one handler, in a directory of its own for servers to serve.
struct Repository {
    base: PathBuf,
}

impl Repository {
    async fn new(place: &Place<'_>, first: &str) -> Result<Self> {
        let base = place.cluster.directory().join(format!("{}-repositories", place.namespace));
        let repository = Self { base };
        std::fs::create_dir_all(repository.path().join("greet"))?;
        repository.git(&["init", "-q", "-b", "main"]).await?;
        repository.commit(first).await?;
        Ok(repository)
    }

    fn path(&self) -> PathBuf {
        self.base.join("code")
    }

    /// The handler answers `text` from now on; the commit.
    async fn commit(&self, text: &str) -> Result<String> {
        let handler = format!("def main(event, context):\n  return '{text}'\n");
        std::fs::write(self.path().join("greet/handler.py"), handler)?;
        self.git(&["add", "-A"]).await?;
        self.git(&["-c", "user.name=t", "-c", "user.email=t@t.test", "commit", "-qm", text]).await?;
        Ok(self.git(&["rev-parse", "HEAD"]).await?.trim().to_owned())
    }

    async fn git(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new("git").arg("-C").arg(self.path()).args(arguments).output().await?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "git {arguments:?} in {}: {said}", self.path().display());
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// A Function with the handler of a repository.
fn fetched(git: Value) -> String {
    let mut git = git;
    git["baseDir"] = json!("/greet");
    manifest("fetched", json!({"runtime": "python312", "source": {"gitRepository": git}}))
}

async fn until_it_answers(place: &Place<'_>, text: &str) -> Result<()> {
    eventually(format!("{text:?} to be answered"), || async {
        let pods = place.pods(&selector("fetched")).await?;
        let Some(pod) = pods.iter().find(|pod| e2e::is_ready(pod)) else {
            return Ok(Err("no pod".to_owned()));
        };
        Ok(match get(pod, "/").await {
            Ok(answer) if answer.body == text => Ok(()),
            other => Err(format!("{other:?}")),
        })
    })
    .await
}

async fn until_commit(place: &Place<'_>, commit: &str) -> Result<()> {
    place
        .until("function", "fetched", |function| at(function, "/status/gitRepository/commit") == commit)
        .await?;
    Ok(())
}

pub async fn a_branch_is_followed(cluster: &Cluster) -> Result<()> {
    let place = place(cluster, "git").await?;
    let repository = Repository::new(&place, "first").await?;
    let [port] = cluster::free_ports()?;
    let daemon = Path::new(repository.git(&["--exec-path"]).await?.trim()).join("git-daemon");
    ensure!(daemon.exists(), "{} is needed: install the package git", daemon.display());
    let arguments = [
        "--reuseaddr".to_owned(),
        "--export-all".to_owned(),
        "--listen=127.0.0.1".to_owned(),
        format!("--port={port}"),
        format!("--base-path={}", repository.base.display()),
    ];
    let _daemon = cluster::spawn(&daemon, &arguments, &repository.base.join("daemon.log"))?;
    let url = format!("git://127.0.0.1:{port}/code");
    place.apply(&fetched(json!({"url": url, "reference": "main"}))).await?;
    until_condition(&place, "fetched", "ConfigurationReady", "True/SourceUpdated").await?;
    until_it_answers(&place, "first").await?;
    let second = repository.commit("second").await?;
    until_commit(&place, &second).await?;
    until_it_answers(&place, "second").await?;
    // a branch that is not there: the running version runs on
    place.apply(&fetched(json!({"url": url, "reference": "gone"}))).await?;
    let failed = until_condition(&place, "fetched", "ConfigurationReady", "False/SourceUpdateFailed").await?;
    ensure!(at(&failed, "/status/conditions").to_string().contains("gone"), "{failed}");
    pods(&place, "fetched", 1).await?;
    Ok(())
}

pub async fn a_password_opens_a_repository_over_http(cluster: &Cluster) -> Result<()> {
    let place = place(cluster, "git-http").await?;
    let repository = Repository::new(&place, "first").await?;
    let (right, wrong) = ("open-sesame-71f0", "let-me-in-5c9e");
    let server = GitHttp::serve(repository.base.clone(), "robot", right).await?;
    let auth = json!({"type": "basic", "secretName": "git-password"});
    let source = json!({"url": format!("{}/code", server.url), "reference": "main", "auth": auth});
    let secret = |password: &str| json!({"username": "robot", "password": password});
    let words = "Authentication failed";
    credentials_open(&place, &repository, source, secret(right), secret(wrong), words).await
}

pub async fn a_key_opens_a_repository_over_ssh(cluster: &Cluster) -> Result<()> {
    let place = place(cluster, "git-ssh").await?;
    let repository = Repository::new(&place, "first").await?;
    let key = |content: &str| format!("-----BEGIN TEST KEY-----\n{content}\n-----END TEST KEY-----");
    let (right, wrong) = (key("b3BlbnNzaC1rZXktdjEAAAAA"), key("bm90LXRoaXMta2V5LWF0LWFsbA"));
    std::fs::write(repository.base.join("authorized"), &right)?;
    let url = format!("ssh://git@localhost{}", repository.path().display());
    let auth = json!({"type": "key", "secretName": "git-key"});
    let source = json!({"url": url, "reference": "main", "auth": auth});
    let secret = |key: &str| json!({"key": key});
    let words = "Permission denied";
    credentials_open(&place, &repository, source, secret(&right), secret(&wrong), words).await
}

/// With the wrong Secret there is a condition with git's `words`, with the right one the source runs; and neither is
/// shown anywhere.
async fn credentials_open(
    place: &Place<'_>,
    repository: &Repository,
    source: Value,
    right: Value,
    wrong: Value,
    words: &str,
) -> Result<()> {
    let name = at(&source, "/auth/secretName").as_str().unwrap_or_default().to_owned();
    let secret = |entries: &Value| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": entries})
            .to_string()
    };
    place.apply(&fetched(source)).await?;
    until_said(place, &[&name, "not found"]).await?;
    place.apply(&secret(&wrong)).await?;
    until_said(place, &[&name, "spec.source.gitRepository.auth.secretName", words]).await?;
    place.apply(&secret(&right)).await?;
    until_condition(place, "fetched", "ConfigurationReady", "True/SourceUpdated").await?;
    until_it_answers(place, "first").await?;
    let second = repository.commit("second").await?;
    until_commit(place, &second).await?;
    until_it_answers(place, "second").await?;
    for secrets in [&wrong, &right] {
        // a user's name is no secret
        let hidden = secrets.as_object().into_iter().flatten().filter(|(entry, _)| *entry != "username");
        for (_, value) in hidden {
            // of a key, the line with the key
            let value = value.as_str().unwrap_or_default();
            let value = value.lines().find(|line| !line.starts_with("-----")).unwrap_or_default();
            is_shown_nowhere(place, value).await?;
        }
    }
    Ok(())
}

/// Until the condition says all of these words.
async fn until_said(place: &Place<'_>, words: &[&str]) -> Result<()> {
    place
        .until("function", "fetched", |function| {
            let conditions = at(function, "/status/conditions").as_array().cloned().unwrap_or_default();
            conditions.iter().any(|one| {
                let message = one["message"].as_str().unwrap_or_default();
                one["type"] == "ConfigurationReady"
                    && one["reason"] == "SourceUpdateFailed"
                    && words.iter().all(|word| message.contains(word))
            })
        })
        .await?;
    Ok(())
}

async fn is_shown_nowhere(place: &Place<'_>, secret: &str) -> Result<()> {
    let kinds = "functions,deployments,replicasets,pods,services,configmaps,events";
    let mut shown = vec![("objects", place.kubectl(&format!("get {kinds} -o json")).await?)];
    for pod in pods(place, "fetched", 1).await? {
        let name = pod.metadata.name.unwrap_or_default();
        shown.push(("a pod's output", place.kubectl(&format!("logs {name} --all-containers")).await?));
    }
    shown.push(("the controller's log", crate::logged()));
    for (what, text) in shown {
        ensure!(!text.is_empty(), "{what}: nothing there, so nothing to check");
        for form in [secret.to_owned(), BASE64_STANDARD.encode(secret)] {
            ensure!(!text.contains(&form), "{what}: {form} is shown in {text}");
        }
    }
    Ok(())
}
