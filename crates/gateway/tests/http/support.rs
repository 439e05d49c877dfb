//! A gateway with a catalog filled by hand, pods, and clients.

use std::{
    future::Future,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use api::slimfaas::Settings;
use bytes::Bytes;
use gateway::{Gateway, Hooks, Options, Parts};
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use ondemand::{Activity, Catalog, Function, Snapshot, Target};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

/// Far longer than anything takes; what has not come by then will not come.
pub const PATIENCE: Duration = Duration::from_secs(120);

pub type Answer = Response<Bytes>;

/// The operators' paths are served here too, as far as the caller may see.
pub fn visible() -> Options {
    Options { operator_paths: gateway::OperatorPaths::Visible, ..Options::default() }
}

/// A gateway that listens, and all it is made of.
pub struct Rig {
    pub gateway: Gateway,
    pub address: SocketAddr,
    pub catalog: Catalog,
    pub activity: Activity,
    pub shutdown: CancellationToken,
    pub ended: JoinHandle<()>,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Rig {
    pub async fn new() -> Self {
        Rig::with(visible(), Hooks::default()).await
    }

    pub async fn with(options: Options, hooks: Hooks) -> Self {
        let (catalog, activity) = (Catalog::default(), Activity::default());
        let store = Arc::new(store::Embedded::memory(store::Limits::default()).unwrap());
        let parts = Parts { catalog: catalog.clone(), activity: activity.clone(), store, options, hooks };
        let gateway = Gateway::new(parts);
        let shutdown = CancellationToken::new();
        let (address, ended) =
            gateway.listen("127.0.0.1:0".parse().unwrap(), shutdown.clone()).await.unwrap();
        let client = Client::builder(TokioExecutor::new()).build_http();
        Rig { gateway, address, catalog, activity, shutdown, ended, client }
    }

    /// The catalog knows these functions from now on, and no others.
    pub fn functions(&self, functions: impl IntoIterator<Item = Function>) {
        self.snapshot(functions, &[]);
    }

    pub fn snapshot(&self, functions: impl IntoIterator<Item = Function>, trusted: &[&str]) {
        let functions = functions.into_iter().map(|one| (one.name().clone(), Arc::new(one))).collect();
        let trusted = trusted.iter().map(|ip| (ip.parse().unwrap(), 1)).collect();
        self.catalog.publish(Snapshot { functions, trusted });
    }

    pub fn request(&self, method: &str, path: &str) -> http::request::Builder {
        Request::builder().method(method).uri(format!("http://{}{path}", self.address))
    }

    pub async fn send(&self, request: Request<Full<Bytes>>) -> Answer {
        patient("an answer", collect(self.client.request(request))).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request("GET", path).body(Full::default()).unwrap()).await
    }

    pub async fn post(&self, path: &str, body: impl Into<Bytes>) -> Answer {
        self.send(self.request("POST", path).body(Full::new(body.into())).unwrap()).await
    }

    /// A call under way: the test goes on meanwhile.
    pub fn start(&self, method: &str, path: &str, body: impl Into<Bytes>) -> JoinHandle<Answer> {
        let request = self.request(method, path).body(Full::new(body.into())).unwrap();
        let client = self.client.clone();
        tokio::spawn(async move { collect(client.request(request)).await })
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes as they are and reads until the gateway closes the connection.
    pub async fn raw(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect().await;
        // A gateway that refuses may close before it has read everything.
        let _ = stream.write_all(bytes.as_ref()).await;
        let mut answer = Vec::new();
        let reading = async {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = stream.read(&mut buffer).await {
                answer.extend_from_slice(&buffer[..n]);
            }
        };
        patient("the end of a connection", reading).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    pub fn held(&self) -> usize {
        self.gateway.metrics().held()
    }

    /// The sum of a metric's samples whose labels contain `label`.
    pub fn metric(&self, name: &str, label: &str) -> f64 {
        let families = self.gateway.metrics().families();
        let samples = families.iter().filter(|family| name.starts_with(family.name)).flat_map(|family| {
            family.samples.iter().filter(|sample| format!("{}{}", family.name, sample.suffix) == name)
        });
        samples
            .filter(|sample| label.is_empty() || sample.labels.iter().any(|(_, value)| value == label))
            .map(|sample| sample.value)
            .sum()
    }
}

async fn collect(
    answer: impl Future<Output = Result<Response<Incoming>, hyper_util::client::legacy::Error>>,
) -> Answer {
    let (head, body) = answer.await.unwrap().into_parts();
    Response::from_parts(head, body.collect().await.unwrap().to_bytes())
}

/// Waits, but not for ever.
pub async fn patient<T>(what: &str, waiting: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, waiting).await {
        Ok(done) => done,
        Err(_) => panic!("{what} did not come within {PATIENCE:?}"),
    }
}

/// Waits until something is so that nobody tells of.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    patient(what, async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

pub fn function(name: &str, pods: &[&Pod]) -> Function {
    function_with(name, pods, |_| {})
}

pub fn function_with(name: &str, pods: &[&Pod], change: impl FnOnce(&mut Settings)) -> Function {
    let mut settings = Settings::default();
    change(&mut settings);
    Function {
        target: Target {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            namespace: "default".into(),
            name: name.into(),
        },
        settings: Arc::new(settings),
        problems: Vec::new(),
        requested: i32::try_from(pods.len()).unwrap(),
        pods: pods.iter().map(|pod| ready_at(pod.address)).collect(),
        is_scaled: true,
        unschedulable: None,
        autoscaler: None,
    }
}

pub fn ready_at(address: SocketAddr) -> ondemand::Pod {
    ondemand::Pod {
        name: format!("pod-{}", address.port()).into(),
        ip: Some(address.ip()),
        port: Some(address.port()),
        ready: true,
        failure: None,
    }
}

/// An address where nobody listens: the port stays taken as long as this lives, by a socket that does not listen.
pub struct Nobody(pub SocketAddr, pub tokio::net::TcpSocket);

impl Nobody {
    pub fn new() -> Self {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        Nobody(socket.local_addr().unwrap(), socket)
    }
}

pub type PodBody = BoxBody<Bytes, std::io::Error>;
type Answering = Pin<Box<dyn Future<Output = Response<PodBody>> + Send>>;

/// A server that stands for a pod.
pub struct Pod {
    pub address: SocketAddr,
    calls: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
    stop: CancellationToken,
}

impl Pod {
    pub async fn start<F>(answer: impl Fn(Request<Incoming>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Response<PodBody>> + Send + 'static,
    {
        Pod::start_on("127.0.0.1".parse().unwrap(), answer).await
    }

    pub async fn start_on<F>(
        ip: IpAddr,
        answer: impl Fn(Request<Incoming>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Response<PodBody>> + Send + 'static,
    {
        let listener = TcpListener::bind((ip, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let [calls, connections] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let pod = Pod {
            address,
            calls: calls.clone(),
            connections: connections.clone(),
            stop: CancellationToken::new(),
        };
        let answer = Arc::new(move |request| -> Answering { Box::pin(answer(request)) });
        let stop = pod.stop.clone();
        tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                connections.fetch_add(1, Ordering::SeqCst);
                let (answer, calls) = (answer.clone(), calls.clone());
                let service = service_fn(move |request| {
                    calls.fetch_add(1, Ordering::SeqCst);
                    let answering = answer(request);
                    async move { Ok::<_, std::convert::Infallible>(answering.await) }
                });
                let stop = stop.clone();
                tokio::spawn(stop.run_until_cancelled_owned(async move {
                    let mut server = auto::Builder::new(TokioExecutor::new());
                    server.http1().timer(TokioTimer::new());
                    let _ = server.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
                }));
            }
        }));
        pod
    }

    /// Answers with what it was asked: its own name, method, path, query, headers and body.
    pub async fn echo(name: &'static str) -> Self {
        Pod::start(move |request| async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            let mut text = format!("{name}\n{} {}\n", head.method, head.uri);
            for (name, value) in &head.headers {
                text += &format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes()));
            }
            text += &format!("\n{}", String::from_utf8_lossy(&body));
            whole(StatusCode::OK, text)
        })
        .await
    }

    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub fn whole(status: StatusCode, body: impl Into<Bytes>) -> Response<PodBody> {
    let body = Full::new(body.into()).map_err(|never| match never {}).boxed();
    Response::builder().status(status).header(header::CONTENT_TYPE, "text/plain").body(body).unwrap()
}

/// What the echo says of a header; several lines are joined by a bar.
pub fn echoed(answer: &Answer, header: &str) -> Option<String> {
    let text = String::from_utf8_lossy(answer.body());
    let head = text.split("\n\n").next().unwrap();
    let prefix = format!("{header}: ");
    let lines: Vec<_> = head.lines().filter_map(|line| line.strip_prefix(&prefix)).collect();
    (!lines.is_empty()).then(|| lines.join("|"))
}

pub fn text(answer: &Answer) -> String {
    String::from_utf8_lossy(answer.body()).into_owned()
}

pub fn header_of<'a, B>(answer: &'a Response<B>, name: &str) -> Option<&'a str> {
    answer.headers().get(name).map(|value| value.to_str().unwrap())
}
