//! Stand-ins for pods: each is ready at once, has an address of its own and tells its metrics there.

use std::{
    collections::HashMap,
    net::Ipv4Addr,
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::Result;
use api::numaflow::METRICS_PORT;
use cluster::pages::{self, TlsAcceptor};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{
        WatchStreamExt,
        watcher::{Config, Event, watcher},
    },
};
use serde_json::json;
use tokio::{net::TcpListener, task::JoinHandle};

use crate::objects::{SLEEPERS, SOURCE};

/// All of them listen on the same port, so each has an address of its own from here on.
const FIRST: u32 = u32::from_be_bytes([127, 200, 0, 1]);
/// Messages that a pod processes a second where there are any.
const RATE: f64 = 50.0;

/// Until this program ends.
pub fn run(client: Client) -> Result<()> {
    let tls = pages::tls()?;
    tokio::spawn(async move {
        let pods: Api<Pod> = Api::namespaced(client, "default");
        let mut seen = pin!(watcher(pods.clone(), Config::default()).default_backoff());
        let mut running: HashMap<String, JoinHandle<()>> = HashMap::new();
        let mut next = FIRST;
        while let Some(event) = seen.next().await {
            match event {
                Ok(Event::Apply(pod) | Event::InitApply(pod)) => {
                    let uid = pod.uid().unwrap_or_default();
                    running.entry(uid).or_insert_with(|| {
                        next += 1;
                        tokio::spawn(live(pods.clone(), pod.name_any(), next.into(), tls.clone()))
                    });
                }
                Ok(Event::Delete(pod)) => {
                    if let Some(task) = running.remove(&pod.uid().unwrap_or_default()) {
                        task.abort();
                    }
                }
                _ => {}
            }
        }
    });
    Ok(())
}

async fn live(pods: Api<Pod>, name: String, address: Ipv4Addr, tls: TlsAcceptor) {
    let listener = match TcpListener::bind((address, METRICS_PORT)).await {
        Ok(listener) => listener,
        Err(error) => return println!("{name} cannot listen on {address}: {error}"),
    };
    let now = Timestamp::now();
    let holds = |condition: &str| json!({"type": condition, "status": "True", "lastTransitionTime": now});
    let ready = json!({"status": {
        "phase": "Running", "startTime": now, "podIP": address, "podIPs": [{"ip": address}],
        "conditions": [holds("ContainersReady"), holds("Ready")],
    }});
    // it may be gone by now
    while let Err(kube::Error::Api(refused)) =
        pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(&ready)).await
    {
        if refused.code == 404 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let is_source = name.contains(&format!("-{SOURCE}-"));
    let rate = if name.starts_with(SLEEPERS) && !is_source { 0.0 } else { RATE };
    let begun = Instant::now();
    pages::serve_tls(listener, tls, move |_| {
        let n_read = (begun.elapsed().as_secs_f64() * rate).floor();
        let pending = if is_source { "vertex_pending_messages_raw 0\n" } else { "" };
        let page = format!(
            "# TYPE forwarder_data_read_total counter\nforwarder_data_read_total {n_read}\n{pending}"
        );
        (pages::METRICS, page)
    })
    .await;
}
