//! What people do with a running pod: run commands in it, watch it, copy files, reach its ports.

use std::process::{Output, Stdio};

use anyhow::{Context, Result, ensure};
use cluster::Cluster;
use e2e::{Place, at, eventually, http_get};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Config,
    api::AttachParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

/// A pod that does nothing but be there.
const IDLE: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: idle}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: scratch, emptyDir: {}}]
  containers:
  - name: main
    image: none
    command: [sleep, infinity]
    workingDir: /usr
    env: [{name: COLOR, value: green}]
    volumeMounts: [{name: scratch, mountPath: /ballast-e2e/scratch}]
  - {name: other, image: none, command: [sleep, infinity]}
"#;

const WEB: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: none
    command: [sh, -c, "cd /ballast-e2e/site && echo hello > index.html && head -c 3000000 /dev/zero > zeros && exec python3 -m http.server --bind $BALLAST_POD_IP 8080"]
    readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
    volumeMounts: [{name: site, mountPath: /ballast-e2e/site}]
  volumes: [{name: site, emptyDir: {}}]
"#;

async fn running(place: &Place<'_>, manifest: &str, name: &str) -> Result<()> {
    place.apply(manifest).await?;
    place.until("pod", name, |pod| at(pod, "/status/phase") == "Running").await?;
    Ok(())
}

/// What kubectl did, whether or not it succeeded. The arguments are not split.
async fn kubectl(place: &Place<'_>, arguments: &[&str], input: &str) -> Result<Output> {
    let mut command = place.cluster.kubectl_command()?;
    command.args(["-n", &place.namespace]).args(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input.as_bytes()).await;
    }
    Ok(child.wait_with_output().await?)
}

/// Exit code, stdout and stderr.
fn told(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

pub async fn a_command_runs_in_the_containers_surroundings(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "exec").await?;
    running(&place, IDLE, "idle").await?;
    let script = "echo $COLOR in $(pwd); echo trouble >&2; exit 7";
    let output = kubectl(&place, &["exec", "idle", "-c", "main", "--", "sh", "-c", script], "").await?;
    let (code, out, err) = told(&output);
    ensure!((code, out.as_str()) == (Some(7), "green in /usr\n"), "{output:?}");
    ensure!(err.contains("trouble\n") && err.contains("exit code 7"), "{err}");

    // Input ends where the client's does.
    let input = "line\n".repeat(100_000);
    let output = kubectl(&place, &["exec", "-i", "idle", "-c", "main", "--", "wc", "-c"], &input).await?;
    ensure!(told(&output).1.trim() == "500000", "{output:?}");
    // A command need not read it.
    let output = kubectl(&place, &["exec", "-i", "idle", "-c", "main", "--", "echo", "done"], &input).await?;
    ensure!(told(&output).1 == "done\n", "{output:?}");
    // All output arrives before the end does.
    let count = ["exec", "idle", "-c", "other", "--", "head", "-c", "3000000", "/dev/zero"];
    let output = kubectl(&place, &count, "").await?;
    ensure!(output.status.success() && output.stdout.len() == 3_000_000, "{} bytes", output.stdout.len());
    // What it leaves behind does not keep the client.
    let output =
        kubectl(&place, &["exec", "idle", "-c", "main", "--", "sh", "-c", "sleep 1000 & echo left"], "");
    ensure!(told(&output.await?).1 == "left\n");
    Ok(())
}

pub async fn what_cannot_be_run_is_told(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "exec-refused").await?;
    running(&place, IDLE, "idle").await?;
    for (arguments, why) in [
        (&["exec", "idle", "-c", "none", "--", "true"][..], "container none is not valid for pod idle"),
        (&["exec", "missing", "--", "true"], "pods \"missing\" not found"),
        (&["exec", "idle", "-c", "main", "--", "no-such-program"], "executable file not found in $PATH"),
    ] {
        let (code, _, err) = told(&kubectl(&place, arguments, "").await?);
        ensure!(code == Some(1) && err.contains(why), "{arguments:?}: {code:?} {err}");
    }
    Ok(())
}

pub async fn a_terminal_has_the_clients_size(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "exec-tty").await?;
    running(&place, IDLE, "idle").await?;
    let kubectl = place.cluster.kubectl_command()?;
    let program = kubectl.as_std().get_program().to_string_lossy().into_owned();
    // The size arrives when it does.
    let inside = r#"until test "$(stty size)" = "41 101"; do sleep 0.1; done; test -t 0 && tty && exit 5"#;
    let outside = format!(
        "stty rows 41 cols 101; {program} -n {} exec -it idle -c main -- sh -c '{inside}'",
        place.namespace
    );
    let mut script = tokio::process::Command::new("script");
    script.args(["-qec", &outside, "/dev/null"]).stdin(Stdio::null()).kill_on_drop(true);
    for (name, value) in kubectl.as_std().get_envs() {
        script.env(name, value.unwrap_or_default());
    }
    let (code, out, err) = told(&script.output().await.context("cannot run script(1)")?);
    ensure!(code == Some(5) && out.contains("/dev/pts/"), "{code:?} {out} {err}");
    Ok(())
}

pub async fn a_command_ends_with_its_client_and_with_its_pod(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "exec-ends").await?;
    running(&place, IDLE, "idle").await?;
    let begin = || async {
        let mut command = place.cluster.kubectl_command()?;
        command.args(["-n", &place.namespace, "exec", "-i", "idle", "-c", "main", "--"]);
        command.args(["sh", "-c", "echo $$; exec sleep 1000"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut client = command.spawn()?;
        let mut line = String::new();
        BufReader::new(client.stdout.take().context("no output")?).read_line(&mut line).await?;
        anyhow::Ok((client, format!("/proc/{}", line.trim())))
    };
    let gone = |process: String| async move {
        eventually(format!("{process} to be gone"), || async {
            Ok(if std::path::Path::new(&process).exists() { Err(process.clone()) } else { Ok(()) })
        })
        .await
    };
    let (mut client, process) = begin().await?;
    ensure!(std::path::Path::new(&process).exists(), "{process}");
    client.kill().await?;
    gone(process).await?;

    let (mut client, process) = begin().await?;
    place.kubectl("delete pod idle --wait=false").await?;
    gone(process).await?;
    ensure!(!client.wait().await?.success());
    Ok(())
}

pub async fn files_are_copied_both_ways(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "cp").await?;
    running(&place, IDLE, "idle").await?;
    let directory = tempfile::tempdir()?;
    let (there, back) = (directory.path().join("there"), directory.path().join("back"));
    let content = "some text\n".repeat(100_000);
    std::fs::write(&there, &content)?;
    let inside = "idle:/ballast-e2e/scratch/file";
    place.kubectl(&format!("cp -c main {} {inside}", there.display())).await?;
    let seen = place.kubectl("exec idle -c main -- wc -c /ballast-e2e/scratch/file").await?;
    ensure!(seen.starts_with("1000000 "), "{seen}");
    place.kubectl(&format!("cp -c main {inside} {}", back.display())).await?;
    ensure!(std::fs::read_to_string(&back)? == content);
    Ok(())
}

pub async fn ports_are_forwarded(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "forward").await?;
    place.apply(WEB).await?;
    place.ready_pods("app=web", 1).await?;
    let mut command = place.cluster.kubectl_command()?;
    command.args(["-n", &place.namespace, "port-forward", "pod/web", ":8080", ":9"]);
    let mut client = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(client.stdout.take().context("no output")?).lines();
    let mut port_of = async |suffix: &str| {
        while let Some(line) = lines.next_line().await? {
            let of_this = line.strip_prefix("Forwarding from 127.0.0.1:");
            if let Some(port) = of_this.and_then(|rest| rest.strip_suffix(suffix)) {
                return Ok(port.parse::<u16>()?);
            }
        }
        anyhow::bail!("kubectl said of no port that it is forwarded")
    };
    let port = port_of(" -> 8080").await?;
    let closed = port_of(" -> 9").await?;
    let answers = (0..20).map(|_| http_get("127.0.0.1", port, "/"));
    for answer in futures::future::try_join_all(answers).await? {
        ensure!(answer.ends_with("hello\n"), "{answer}");
    }
    ensure!(http_get("127.0.0.1", port, "/zeros").await?.len() > 3_000_000);

    // A port where nothing listens is told, and ends kubectl.
    let _ = http_get("127.0.0.1", closed, "/").await;
    let mut said = BufReader::new(client.stderr.take().context("no errors")?).lines();
    loop {
        let line = said.next_line().await?.context("kubectl did not say that the port is closed")?;
        if line.contains("error forwarding port 9 to pod") {
            return Ok(());
        }
    }
}

pub async fn who_attaches_sees_and_is_heard(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "attach").await?;
    let manifest = r#"
apiVersion: v1
kind: Pod
metadata: {name: echo}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: none
    stdin: true
    stdinOnce: true
    command: [sh, -c, "while read line; do echo got $line; done; echo end"]
---
apiVersion: v1
kind: Pod
metadata: {name: typed}
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: none, stdin: true, tty: true, command: [sh, -c, "test -t 1 && read line && echo \"<$line>\""]}
---
apiVersion: v1
kind: Pod
metadata: {name: ticks}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: none, command: [sh, -c, "while sleep 0.1; do echo tick; done"]}]
"#;
    running(&place, manifest, "echo").await?;
    let (code, out, err) = told(&kubectl(&place, &["attach", "-i", "echo"], "one\ntwo\n").await?);
    ensure!(code == Some(0) && out.ends_with("got one\ngot two\nend\n"), "{code:?} {out} {err}");
    place.until("pod", "echo", |pod| at(pod, "/status/phase") == "Succeeded").await?;

    // A terminal shows what is typed, and ends lines in its own way.
    place.until("pod", "typed", |pod| at(pod, "/status/phase") == "Running").await?;
    let (code, out, err) = told(&kubectl(&place, &["attach", "-i", "typed"], "words\n").await?);
    ensure!(code == Some(0) && out.contains("<words>\r\n"), "{code:?} {out:?} {err}");
    ensure!(place.kubectl("logs typed").await?.contains("<words>"));

    place.until("pod", "ticks", |pod| at(pod, "/status/phase") == "Running").await?;
    let mut command = place.cluster.kubectl_command()?;
    command.args(["-n", &place.namespace, "attach", "ticks"]).stdout(Stdio::piped());
    let mut client = command.spawn()?;
    let mut seen = [0; 10];
    client.stdout.take().context("no output")?.read_exact(&mut seen).await?;
    ensure!(&seen == b"tick\ntick\n", "{}", String::from_utf8_lossy(&seen));
    Ok(())
}

pub async fn clients_other_than_kubectl_have_sessions(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "kube-rs").await?;
    place.apply(WEB).await?;
    place.ready_pods("app=web", 1).await?;
    // Over the network: the client of the cluster itself may have no connection that could be taken over.
    let kubeconfig = Kubeconfig::read_from(place.cluster.kubeconfig())?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let pods: Api<Pod> = Api::namespaced(Client::try_from(config)?, &place.namespace);

    let params = AttachParams::interactive_tty();
    let mut process = pods.exec("web", ["sh", "-c", "read line; echo \"<$line>\"; exit 3"], &params).await?;
    let (mut to, mut from) = (process.stdin().context("no stdin")?, process.stdout().context("no stdout")?);
    let ended = process.take_status().context("no status")?;
    to.write_all(b"typed\n").await?;
    let mut shown = String::new();
    from.read_to_string(&mut shown).await?;
    // The terminal shows what is typed, and ends lines as terminals do.
    ensure!(shown.contains("typed\r\n") && shown.contains("<typed>\r\n"), "{shown:?}");
    let status = ended.await.context("no status came")?;
    ensure!(status.reason.as_deref() == Some("NonZeroExitCode"), "{status:?}");

    let mut forwarder = pods.portforward("web", &[8080, 9]).await?;
    let mut stream = forwarder.take_stream(8080).context("no stream")?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"hello\n") {
        ensure!(stream.read_buf(&mut answer).await? > 0, "{}", String::from_utf8_lossy(&answer));
    }
    let closed = forwarder.take_error(9).context("no errors")?.await.context("no error came")?;
    ensure!(closed.contains("error forwarding port 9 to pod web"), "{closed}");
    Ok(())
}
