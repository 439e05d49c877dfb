//! `metrics.k8s.io`, where how busy the workloads are is a value of the test.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use http::{Request, Response};
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::{Api, Client, ResourceExt, api::ListParams, client::Body};
use serde_json::{Value, json};

/// What the pods of each workload use together, in thousandths of a core. They share it evenly.
#[derive(Clone, Default)]
pub struct Loads(Arc<Mutex<BTreeMap<String, u64>>>);

/// An API server with a `metrics.k8s.io` that knows the pods of a workload by their label `app`.
#[derive(Clone)]
struct Metered {
    server: Client,
    loads: Loads,
}

impl Loads {
    pub fn set(&self, app: &str, milli: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(app.to_owned(), milli);
    }

    fn get(&self, app: &str) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(app).copied().unwrap_or(0)
    }

    /// A client of `server` that is told of these loads.
    pub fn client(&self, server: Client) -> Client {
        Client::new(Metered { server, loads: self.clone() }, "default")
    }
}

impl Metered {
    async fn answer(self, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
        if !request.uri().path().starts_with("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods") {
            return self.server.send(request).await;
        }
        let query = request.uri().query().unwrap_or_default();
        let app = query.rsplit("%3D").next().unwrap_or_default();
        let pods: Api<Pod> = Api::default_namespaced(self.server.clone());
        let mut pods = pods.list(&ListParams::default().labels(&format!("app={app}"))).await?.items;
        pods.retain(|pod| {
            pod.metadata.deletion_timestamp.is_none()
                && pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
        });
        let share = self.loads.get(app) * 1000 / pods.len().max(1) as u64;
        let item = |pod: &Pod| {
            json!({
                "metadata": {"name": pod.name_any(), "namespace": "default"},
                "timestamp": Timestamp::now(), "window": "0s",
                "containers": [{"name": "main", "usage": {"cpu": format!("{share}u"), "memory": "1Mi"}}],
            })
        };
        let items: Vec<Value> = pods.iter().map(item).collect();
        let list = json!({
            "kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items,
        });
        Ok(Response::new(Body::from(list.to_string().into_bytes())))
    }
}

impl tower::Service<Request<Body>> for Metered {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn std::future::Future<Output = Result<Response<Body>, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().answer(request))
    }
}
