//! Requests to the embedded API: label and field selectors, and every kind of patch with server-side apply. Whatever
//! comes, it is answered, and never with an internal error.
#![no_main]

use std::cell::OnceCell;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use libfuzzer_sys::fuzz_target;
use localkube::{ApiServer, Options};
use tower::ServiceExt as _;

const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"a":"b"}},
    "spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":1}]}]}}"#;
const PODS: &str = "/api/v1/namespaces/default/pods";

struct World {
    runtime: tokio::runtime::Runtime,
    server: ApiServer,
}

impl World {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let server = runtime.block_on(ApiServer::open(Options::default())).expect("a server");
        let world = Self { runtime, server };
        let (status, _) = world.ask("POST", PODS, "application/json", POD.into());
        assert_eq!(status, 201);
        world
    }

    fn ask(&self, method: &str, path: &str, kind: &str, body: String) -> (u16, String) {
        let request = Request::builder().method(method).uri(path).header("content-type", kind);
        let Ok(request) = request.body(Full::new(Bytes::from(body))) else { return (0, String::new()) };
        let answer = self.runtime.block_on(self.server.clone().oneshot(request)).expect("an answer");
        (answer.status().as_u16(), path.to_owned())
    }
}

thread_local! {
    static WORLD: OnceCell<World> = const { OnceCell::new() };
}

fuzz_target!(|data: (u8, String, String)| {
    let (choice, one, other) = data;
    let form =
        |pairs: &[(&str, &str)]| form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    let patch = format!("{PODS}/p");
    let (method, path, kind) = match choice % 5 {
        0 => ("GET", format!("{PODS}?{}", form(&[("labelSelector", &one), ("fieldSelector", &other)])), ""),
        1 => ("PATCH", patch, "application/json-patch+json"),
        2 => ("PATCH", patch, "application/merge-patch+json"),
        3 => ("PATCH", patch, "application/strategic-merge-patch+json"),
        _ => {
            let query =
                form(&[("fieldManager", &other), ("force", if choice > 128 { "true" } else { "false" })]);
            ("PATCH", format!("{patch}?{query}"), "application/apply-patch+yaml")
        }
    };
    WORLD.with(|world| {
        let (status, path) = world.get_or_init(World::new).ask(method, &path, kind, one.clone());
        assert!(status < 500, "{status} to {method} {path} {one:?}");
    });
});
