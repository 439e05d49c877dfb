//! A node that is killed leaves its pods' processes alone, and the next one finds them.

use super::*;

pub async fn run(client: &Client, kubeconfig: &Path, data_dir: &Path, node: NodeProcess, arguments: &[&str]) {
    let s = Scenario::new(client);
    let ticking = shell("i=0; while :; do echo tick $i; i=$((i+1)); sleep 0.2; done");
    s.create("survivor", json!({ "containers": [ticking], "terminationGracePeriodSeconds": 1 })).await;
    s.create(
        "doomed",
        json!({ "containers": [shell("sleep 98763; exit 1")], "terminationGracePeriodSeconds": 1 }),
    )
    .await;
    s.create("orphan", json!({ "containers": [shell("exec sleep 98764")] })).await;
    let before = s.until_ready("survivor").await;
    s.until_ready("doomed").await;
    s.until_ready("orphan").await;
    s.follow("survivor", "tick 1").await;

    node.kill().await;
    let survivors = processes("tick $i");
    assert_eq!(survivors.len(), 1, "the process outlives its node");
    for pid in processes("98763") {
        kill(Pid::from_raw(pid.try_into().unwrap()), Signal::SIGKILL).unwrap();
    }
    s.delete("orphan", 0).await;
    s.until_gone("orphan").await;
    assert_eq!(processes("98764").len(), 1, "nobody is there to end it");

    let node = NodeProcess::start(client, kubeconfig, data_dir, arguments).await;
    s.until("doomed", |pod| restarts(pod) == 1).await;
    eventually(async || processes("98764").is_empty()).await;
    let log = s.follow("survivor", "tick 20").await;
    let after = s.until_ready("survivor").await;
    assert_eq!(processes("tick $i"), survivors, "it is the same process");
    assert_eq!((pod_ip(&after), restarts(&after)), (pod_ip(&before), 0));
    let ticks: Vec<usize> = log.iter().filter_map(|line| line.strip_prefix("tick ")?.parse().ok()).collect();
    assert!(ticks.windows(2).all(|pair| pair[1] == pair[0] + 1), "no output is lost or repeated: {ticks:?}");

    node.stop().await;
    assert_eq!(processes("tick $i"), [0_u32; 0], "a node that stops takes its processes along");
    assert_eq!(processes("98763"), [0_u32; 0]);

    let node = NodeProcess::start(client, kubeconfig, data_dir, arguments).await;
    s.until("survivor", |pod| restarts(pod) == 1 && condition(pod, "Ready").as_deref() == Some("True")).await;
    for name in ["survivor", "doomed"] {
        s.delete(name, 0).await;
        s.until_gone(name).await;
    }
    node.stop().await;
}
