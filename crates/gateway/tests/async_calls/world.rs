//! A gateway, a dispatcher, a store and pods: everything but Kubernetes.

use std::{
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use api::slimfaas::{Attempts, Settings};
use bytes::Bytes;
use futures::future::BoxFuture;
use gateway::{Dispatcher, Gateway, Hooks, Options, Parts, QueueGauges};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use ondemand::{Activity, Catalog, Function, Pod, Snapshot, Target};
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;

/// A node: a gateway and its dispatcher.
pub struct Node {
    pub address: SocketAddr,
    pub catalog: Catalog,
    pub activity: Activity,
    pub gauges: QueueGauges,
    pub master: watch::Sender<bool>,
    client: Client<HttpConnector, Full<Bytes>>,
    stop: CancellationToken,
}

/// What a pod was asked.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: Method,
    pub uri: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

pub struct FakePod {
    pub address: SocketAddr,
    pub asked: Arc<Mutex<Vec<Asked>>>,
    pub now: Arc<AtomicUsize>,
    pub most: Arc<AtomicUsize>,
    stop: CancellationToken,
}

pub type Answer = Response<Full<Bytes>>;
type Serve = Arc<dyn Fn(Asked) -> BoxFuture<'static, Answer> + Send + Sync>;

impl Node {
    pub async fn start(store: store::Shared, functions: &[Function]) -> Self {
        Self::start_with(store, functions, options(), true).await
    }

    /// One that is not the master.
    pub async fn start_idle(store: store::Shared, functions: &[Function]) -> Self {
        Self::start_with(store, functions, options(), false).await
    }

    pub async fn start_with(
        store: store::Shared,
        functions: &[Function],
        options: Options,
        is_master: bool,
    ) -> Self {
        let (catalog, activity) = (Catalog::default(), Activity::default());
        publish(&catalog, functions);
        let (hooks, stop) = (Hooks::default(), CancellationToken::new());
        let parts = Parts { catalog: catalog.clone(), activity: activity.clone(), store, options, hooks };
        let gateway = Gateway::new(parts);
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let (address, _) = gateway.listen(any, stop.clone()).await.unwrap();
        let master = watch::Sender::new(is_master);
        let dispatcher = Dispatcher::new(gateway, "node", master.subscribe());
        let gauges = dispatcher.gauges();
        tokio::spawn(dispatcher.run(stop.clone()));
        let client = Client::builder(TokioExecutor::new()).build_http();
        Node { address, catalog, activity, gauges, master, client, stop }
    }

    pub async fn ask(&self, method: Method, path: &str, body: &str) -> Response<Bytes> {
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address))
            .header("x-test", "yes")
            .body(Full::from(body.to_owned()))
            .unwrap();
        let (head, body) = self.client.request(request).await.unwrap().into_parts();
        Response::from_parts(head, body.collect().await.unwrap().to_bytes())
    }

    pub async fn post(&self, path: &str, body: &str) -> Response<Bytes> {
        self.ask(Method::POST, path, body).await
    }

    pub async fn get(&self, path: &str) -> Response<Bytes> {
        self.ask(Method::GET, path, "").await
    }

    /// The id of a call that was accepted.
    pub async fn accept(&self, path: &str, body: &str) -> String {
        let response = self.post(path, body).await;
        assert_eq!(response.status(), StatusCode::ACCEPTED, "{response:?}");
        response.headers()["slimfaas-element-id"].to_str().unwrap().to_owned()
    }

    /// Waits until the call has ended.
    pub async fn result(&self, function: &str, id: &str) -> Response<Bytes> {
        eventually("the call ends", || async {
            let response = self.get(&format!("/async-function-result/{function}/{id}")).await;
            if header(&response, "ballast-result") == "pending" { Err(response) } else { Ok(response) }
        })
        .await
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl FakePod {
    pub async fn start<F>(serve: impl Fn(Asked) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let pod = FakePod {
            address,
            asked: Arc::default(),
            now: Arc::default(),
            most: Arc::default(),
            stop: CancellationToken::new(),
        };
        let (asked, now, most) = (pod.asked.clone(), pod.now.clone(), pod.most.clone());
        let serve: Serve = Arc::new(move |request| Box::pin(serve(request)));
        let accept = async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (asked, now, most, serve) = (asked.clone(), now.clone(), most.clone(), serve.clone());
                let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                    let (asked, now, most, serve) = (asked.clone(), now.clone(), most.clone(), serve.clone());
                    async move {
                        let (head, body) = request.into_parts();
                        let body = body.collect().await.unwrap().to_bytes();
                        let request = Asked {
                            method: head.method,
                            uri: head.uri.to_string(),
                            headers: head.headers,
                            body,
                        };
                        asked.lock().unwrap().push(request.clone());
                        let _busy = Busy::new(now, &most);
                        Ok::<_, Infallible>(serve(request).await)
                    }
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        };
        let stop = pod.stop.clone();
        tokio::spawn(async move { stop.run_until_cancelled(accept).await });
        pod
    }

    pub fn ready(&self) -> Pod {
        Pod {
            name: format!("pod-{}", self.address.port()).into(),
            ip: Some(self.address.ip()),
            port: Some(self.address.port()),
            ready: true,
            failure: None,
        }
    }

    /// What came, by the header that counts attempts.
    pub fn tries(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(|asked| asked.headers["slimfaas-try-number"].to_str().unwrap().to_owned()).collect()
    }
}

impl Drop for FakePod {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

struct Busy(Arc<AtomicUsize>);

impl Busy {
    fn new(now: Arc<AtomicUsize>, most: &AtomicUsize) -> Self {
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        Busy(now)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A lease so long that a busy machine does not lose one.
fn options() -> Options {
    Options {
        async_lease: Duration::from_secs(600),
        operator_paths: gateway::OperatorPaths::Visible,
        ..Options::default()
    }
}

pub fn answer(status: u16, body: &'static str) -> Answer {
    Response::builder().status(status).header("x-answer", "yes").body(Full::from(body)).unwrap()
}

pub fn function(name: &str, settings: Settings, pods: Vec<Pod>) -> Function {
    Function {
        target: Target {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            namespace: "default".into(),
            name: name.into(),
        },
        settings: Arc::new(settings),
        problems: Vec::new(),
        requested: 1,
        pods,
        is_scaled: true,
        unschedulable: None,
        autoscaler: None,
    }
}

/// Tried again almost at once, so many times.
pub fn retries(count: usize) -> Settings {
    let delays = vec![Duration::from_millis(20); count];
    let asynchronous = Attempts { delays, ..Attempts::default() };
    Settings { asynchronous, ..Settings::default() }
}

pub fn publish(catalog: &Catalog, functions: &[Function]) {
    let functions = functions.iter().map(|one| (one.name().clone(), Arc::new(one.clone())));
    catalog.publish(Snapshot { functions: functions.collect(), ..Snapshot::default() });
}

pub fn header<'a>(response: &'a Response<Bytes>, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

/// Tries until it works, for two minutes.
pub async fn eventually<T, E, F>(what: &str, mut attempt: impl FnMut() -> F) -> T
where
    E: std::fmt::Debug,
    F: Future<Output = Result<T, E>>,
{
    let began = Instant::now();
    loop {
        match attempt().await {
            Ok(value) => return value,
            Err(seen) if began.elapsed() > Duration::from_secs(120) => {
                panic!("still not so after two minutes: {what}: {seen:?}")
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}
