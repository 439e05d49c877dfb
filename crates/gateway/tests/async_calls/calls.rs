use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use api::slimfaas::{Attempts, Settings, Visibility};
use gateway::Options;
use http::{Method, StatusCode};
use store::{Embedded, Limits, NewItem, Shared, Take};

use crate::world::{FakePod, Node, answer, eventually, function, header, publish, retries};

pub async fn a_call_is_made_and_its_result_kept(store: Shared) {
    let pod = FakePod::start(|_| async { answer(201, "made") }).await;
    let node = Node::start(store.clone(), &[function("f", retries(2), vec![pod.ready()])]).await;
    let response = node.ask(Method::PUT, "/async-function/f/a/b?c=d%20e", "the body").await;
    assert_eq!(response.status(), StatusCode::ACCEPTED);
    assert_eq!(response.body(), "");
    let id = header(&response, "slimfaas-element-id").to_owned();
    let result = node.result("f", &id).await;
    assert_eq!((result.status().as_u16(), &result.body()[..]), (201, &b"made"[..]));
    assert_eq!(header(&result, "x-answer"), "yes");
    assert_eq!(header(&result, "ballast-result"), "done");
    assert_eq!(header(&result, "slimfaas-element-id"), id);
    let asked = pod.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!((asked[0].method.as_str(), asked[0].uri.as_str()), ("PUT", "/a/b?c=d%20e"));
    assert_eq!(asked[0].body, "the body");
    for (name, value) in [
        ("x-test", "yes"),
        ("slimfaas-element-id", id.as_str()),
        ("slimfaas-try-number", "1"),
        ("slimfaas-last-try", "false"),
        ("x-forwarded-for", "127.0.0.1"),
        ("content-length", "8"),
    ] {
        assert_eq!(asked[0].headers[name], value, "{name}");
    }
    assert_eq!(store.queues().await.unwrap(), [""; 0]);
    let unknown = node.get("/async-function-result/f/never").await;
    assert_eq!(unknown.status(), StatusCode::NOT_FOUND);
}

pub async fn failures_are_tried_again(store: Shared) {
    let count = AtomicUsize::new(0);
    let pod = FakePod::start(move |_| {
        let status = [500, 503, 404][count.fetch_add(1, Ordering::SeqCst)];
        async move { answer(status, "so it was") }
    })
    .await;
    let node = Node::start(store, &[function("f", retries(2), vec![pod.ready()])]).await;
    let id = node.accept("/async-function/f", "").await;
    let result = node.result("f", &id).await;
    // not to be tried again, so it is the answer
    assert_eq!((result.status().as_u16(), &result.body()[..]), (404, &b"so it was"[..]));
    assert_eq!(header(&result, "ballast-result"), "done");
    assert_eq!(header(&result, "slimfaas-try-number"), "3");
    assert_eq!(pod.tries(), ["1", "2", "3"]);
    let asked = pod.asked.lock().unwrap();
    let last: Vec<_> =
        asked.iter().map(|asked| asked.headers["slimfaas-last-try"].to_str().unwrap()).collect();
    assert_eq!(last, ["false", "false", "true"]);
}

pub async fn what_fails_to_the_end_is_dead(store: Shared) {
    let is_well = Arc::new(AtomicUsize::new(0));
    let health = is_well.clone();
    let pod = FakePod::start(move |_| {
        let status = if health.load(Ordering::SeqCst) == 1 { 200 } else { 500 };
        async move { answer(status, "x") }
    })
    .await;
    let node = Node::start(store, &[function("f", retries(1), vec![pod.ready()])]).await;
    let id = node.accept("/async-function/f/path?q", "").await;
    let result = node.result("f", &id).await;
    assert_eq!(result.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(header(&result, "ballast-result"), "dead");
    let list: serde_json::Value =
        serde_json::from_slice(node.get("/async-function-dead/f").await.body()).unwrap();
    assert_eq!(list.as_array().unwrap().len(), 1, "{list}");
    let dead = &list[0];
    assert_eq!(dead["Id"], id);
    assert_eq!(
        (&dead["Attempts"], &dead["Method"], &dead["Path"]),
        (&2.into(), &"POST".into(), &"/path?q".into())
    );
    assert_eq!(dead["Reason"], "given up after attempt 2: the answer was 500");
    let one = node.get(&format!("/async-function-dead/f/{id}")).await;
    assert_eq!(&serde_json::from_slice::<serde_json::Value>(one.body()).unwrap(), dead);

    is_well.store(1, Ordering::SeqCst);
    let replayed = node.post(&format!("/async-function-dead/f/{id}/replay"), "").await;
    assert_eq!(replayed.status(), StatusCode::ACCEPTED);
    eventually("the replayed call is done", || async {
        let result = node.result("f", &id).await;
        if header(&result, "ballast-result") == "done" { Ok(()) } else { Err(result) }
    })
    .await;
    assert_eq!(pod.tries(), ["1", "2", "1"]);

    is_well.store(0, Ordering::SeqCst);
    let id = node.accept("/async-function/f", "").await;
    node.result("f", &id).await;
    let path = format!("/async-function-dead/f/{id}");
    assert_eq!(node.ask(Method::DELETE, &path, "").await.status(), StatusCode::NO_CONTENT);
    assert_eq!(node.ask(Method::DELETE, &path, "").await.status(), StatusCode::NOT_FOUND);
    assert_eq!(node.get(&path).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(node.post(&format!("{path}/replay"), "").await.status(), StatusCode::NOT_FOUND);
    assert_eq!(node.get("/async-function-dead/f").await.body(), "[]");
    assert_eq!(node.get("/async-function-dead/other").await.status(), StatusCode::NOT_FOUND);
}

pub async fn silence_is_tried_again(store: Shared) {
    let pod = FakePod::start(|asked| async move {
        if asked.headers["slimfaas-try-number"] == "1" {
            std::future::pending::<()>().await;
        }
        answer(200, "at last")
    })
    .await;
    let asynchronous = Attempts { timeout: Duration::from_secs(1), ..retries(50).asynchronous };
    let settings = Settings { asynchronous, ..Settings::default() };
    let node = Node::start(store, &[function("f", settings, vec![pod.ready()])]).await;
    let id = node.accept("/async-function/f", "").await;
    let result = node.result("f", &id).await;
    assert_eq!((result.status().as_u16(), &result.body()[..]), (200, &b"at last"[..]));
    assert_eq!(pod.tries()[..2], ["1", "2"]);
}

pub async fn refused_connections_are_tried_again(store: Shared) {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = ondemand::Pod {
        name: "gone".into(),
        ip: Some(nobody.ip()),
        port: Some(nobody.port()),
        ready: true,
        failure: None,
    };
    let pod = FakePod::start(|_| async { answer(200, "here") }).await;
    // 500 is an answer, but nobody gave it
    let mut settings = retries(500);
    settings.asynchronous.statuses = Vec::new();
    let node = Node::start(store, &[function("f", settings.clone(), vec![gone])]).await;
    let id = node.accept("/async-function/f", "").await;
    publish(&node.catalog, &[function("f", settings, vec![pod.ready()])]);
    let result = node.result("f", &id).await;
    assert_eq!((result.status().as_u16(), &result.body()[..]), (200, &b"here"[..]), "{result:?}");
}

pub async fn functions_call_back(store: Shared) {
    let pod = FakePod::start(|_| async { answer(202, "later") }).await;
    let node = Node::start(store.clone(), &[function("f", retries(1), vec![pod.ready()])]).await;
    let id = node.accept("/async-function/f", "").await;
    let asked = |times: usize| {
        let pod = &pod;
        eventually("the pod is asked", move || async move {
            let tries = pod.tries();
            if tries.len() == times { Ok(()) } else { Err(tries) }
        })
    };
    asked(1).await;
    assert_eq!(
        header(&node.get(&format!("/async-function-result/f/{id}")).await, "ballast-result"),
        "pending"
    );
    let path = format!("/async-function-callback/f/{id}");
    assert_eq!(node.post(&format!("{path}/failed"), "").await.status(), StatusCode::OK);
    asked(2).await;
    assert_eq!(node.post(&format!("{path}/Success"), "").await.status(), StatusCode::OK);
    let result = node.result("f", &id).await;
    assert_eq!((result.status().as_u16(), header(&result, "ballast-result")), (200, "done"));
    assert_eq!(node.post(&format!("{path}/success"), "").await.status(), StatusCode::NOT_FOUND);
    assert_eq!(node.post("/async-function-callback/g/1/success", "").await.status(), StatusCode::NOT_FOUND);
    // and a failure on the last attempt is the end
    let id = node.accept("/async-function/f", "").await;
    for times in [3, 4] {
        asked(times).await;
        let path = format!("/async-function-callback/f/{id}/error");
        eventually("the callback is taken", || async {
            let status = node.post(&path, "").await.status();
            if status == StatusCode::OK { Ok(()) } else { Err(status) }
        })
        .await;
    }
    assert_eq!(header(&node.result("f", &id).await, "ballast-result"), "dead");
    let waiting = NewItem { id: "w".into(), head: "{}".into(), body: "".into() };
    publish(&node.catalog, &[function("f", retries(1), Vec::new())]);
    store.enqueue("f", waiting).await.unwrap();
    let early = node.post("/async-function-callback/f/w/success", "").await;
    assert_eq!(early.status(), StatusCode::BAD_REQUEST, "{early:?}");
}

pub async fn callbacks_may_come_to_any_node(store: Shared) {
    let pod = FakePod::start(|_| async { answer(202, "") }).await;
    let settings = Settings { parallel: 1, ..retries(0) };
    let functions = [function("f", settings, vec![pod.ready()])];
    let master = Node::start(store.clone(), &functions).await;
    let other = Node::start_idle(store, &functions).await;
    let ids = [master.accept("/async-function/f", "").await, master.accept("/async-function/f", "").await];
    for (count, id) in ids.iter().enumerate() {
        // the second is made when the first has made room
        eventually("the pod is asked", || async {
            if pod.tries().len() == count + 1 { Ok(()) } else { Err(pod.tries()) }
        })
        .await;
        let path = format!("/async-function-callback/f/{id}/success");
        assert_eq!(other.post(&path, "").await.status(), StatusCode::OK);
        assert_eq!(other.result("f", id).await.status(), StatusCode::OK);
    }
    assert_eq!(pod.most.load(Ordering::SeqCst), 1);
}

pub async fn what_cannot_be_taken_is_refused(_: Shared) {
    let limits = Limits { queue_items: 2, item_bytes: 2000, ..Limits::default() };
    let store: Shared = Arc::new(Embedded::memory(limits).unwrap());
    let options = Options { async_body_limit: 4000, ..Options::default() };
    let node = Node::start_with(store, &[function("f", retries(0), Vec::new())], options, true).await;
    assert_eq!(node.post("/async-function/other", "").await.status(), StatusCode::NOT_FOUND);
    for size in [1900, 4001] {
        let large = node.post("/async-function/f", &"x".repeat(size)).await;
        assert_eq!(large.status(), StatusCode::PAYLOAD_TOO_LARGE, "{large:?}");
    }
    node.accept("/async-function/f", "").await;
    node.accept("/async-function/f", "").await;
    let full = node.post("/async-function/f", "").await;
    assert_eq!((full.status(), header(&full, "retry-after")), (StatusCode::TOO_MANY_REQUESTS, "1"));
    assert_eq!(header(&full, "ballast-error"), "queue-full");
}

pub async fn what_a_lost_node_held_is_made_again(store: Shared) {
    let pod = FakePod::start(|_| async { answer(200, "") }).await;
    let asleep = Node::start(store.clone(), &[function("f", retries(0), Vec::new())]).await;
    let id = asleep.accept("/async-function/f", "").await;
    // a node took it and was never heard of again
    let (spots, lease) = (vec!["somewhere".into()], Duration::from_millis(200));
    let take = Take { holder: "lost".into(), in_flight: 9, spots, per_spot: 1, bytes: u64::MAX, lease };
    assert_eq!(store.take("f", take).await.unwrap().len(), 1);
    drop(asleep);
    let node = Node::start(store, &[function("f", retries(0), vec![pod.ready()])]).await;
    assert_eq!(node.result("f", &id).await.status(), StatusCode::OK);
    // the first attempt may have reached nobody, so the last one is made all the same
    assert_eq!(pod.tries(), ["2"]);
    assert_eq!(pod.asked.lock().unwrap()[0].headers["slimfaas-last-try"], "true");
}

pub async fn large_answers_are_not_kept(store: Shared) {
    static LARGE: [u8; (1 << 20) + 1] = [b'x'; (1 << 20) + 1];
    let pod = FakePod::start(|_| async { answer(200, std::str::from_utf8(&LARGE).unwrap()) }).await;
    let node = Node::start(store, &[function("f", retries(0), vec![pod.ready()])]).await;
    let id = node.accept("/async-function/f", "").await;
    let result = node.result("f", &id).await;
    assert_eq!((result.status().as_u16(), result.body().len()), (200, 0));
    assert_eq!(header(&result, "ballast-result-truncated"), "true");
}

pub async fn dead_calls_of_private_paths_are_not_told_of(store: Shared) {
    let pod = FakePod::start(|_| async move { answer(500, "x") }).await;
    let mut settings = retries(0);
    let node = Node::start(store, &[function("f", settings.clone(), vec![pod.ready()])]).await;
    let [open, admin] =
        [node.accept("/async-function/f/open", "").await, node.accept("/async-function/f/admin", "").await];
    node.result("f", &open).await;
    node.result("f", &admin).await;
    settings.path_visibility = vec![("/admin".into(), Visibility::Private)];
    publish(&node.catalog, &[function("f", settings, vec![pod.ready()])]);
    let list: serde_json::Value =
        serde_json::from_slice(node.get("/async-function-dead/f").await.body()).unwrap();
    assert_eq!(list.as_array().unwrap().iter().map(|dead| &dead["Id"]).collect::<Vec<_>>(), [&open]);
    let path = format!("/async-function-dead/f/{admin}");
    for (method, path) in [
        (Method::GET, path.clone()),
        (Method::DELETE, path.clone()),
        (Method::POST, format!("{path}/replay")),
    ] {
        assert_eq!(
            node.ask(method.clone(), &path, "").await.status(),
            StatusCode::NOT_FOUND,
            "{method} {path}"
        );
    }
}

pub async fn private_calls_are_not_told_of(store: Shared) {
    let settings = Settings { visibility: Visibility::Private, ..retries(0) };
    let node = Node::start(store.clone(), &[function("f", settings.clone(), Vec::new())]).await;
    assert_eq!(node.post("/async-function/f", "").await.status(), StatusCode::NOT_FOUND);
    let kept = NewItem { id: "1".into(), head: "{}".into(), body: "".into() };
    store.enqueue("f", kept).await.unwrap();
    for path in ["/async-function-result/f/1", "/async-function-dead/f"] {
        assert_eq!(node.get(path).await.status(), StatusCode::NOT_FOUND, "{path}");
    }
    let settings = Settings { visibility: Visibility::Public, ..settings };
    publish(&node.catalog, &[function("f", settings, Vec::new())]);
    assert_eq!(node.get("/async-function-result/f/1").await.status(), StatusCode::ACCEPTED);
}

/// Whoever may not make a call cannot end it either, be it that they know its id.
pub async fn callbacks_of_private_calls_need_the_right(store: Shared) {
    let pod = FakePod::start(|_| async { answer(202, "later") }).await;
    let mut settings = retries(0);
    let node = Node::start(store, &[function("f", settings.clone(), vec![pod.ready()])]).await;
    let [open, admin] =
        [node.accept("/async-function/f/open", "").await, node.accept("/async-function/f/admin", "").await];
    eventually("the pod is asked", || async {
        let tries = pod.tries();
        if tries.len() == 2 { Ok(()) } else { Err(tries) }
    })
    .await;
    settings.path_visibility = vec![("/admin".into(), Visibility::Private)];
    publish(&node.catalog, &[function("f", settings, vec![pod.ready()])]);
    let callback =
        async |id: &str| node.post(&format!("/async-function-callback/f/{id}/success"), "").await.status();
    assert_eq!(callback(&admin).await, StatusCode::NOT_FOUND);
    assert_eq!(callback(&open).await, StatusCode::OK);
}

/// What was public when the call came may be private when it is made.
pub async fn visibility_is_looked_at_again_before_a_call_is_made(store: Shared) {
    let pod = FakePod::start(|_| async { answer(200, "made") }).await;
    let mut settings = retries(3);
    let node = Node::start(store, &[function("f", settings.clone(), Vec::new())]).await;
    let [open, admin] =
        [node.accept("/async-function/f/open", "").await, node.accept("/async-function/f/admin?x", "").await];
    settings.path_visibility = vec![("/admin".into(), Visibility::Private)];
    publish(&node.catalog, &[function("f", settings, vec![pod.ready()])]);
    assert_eq!(node.result("f", &open).await.status(), StatusCode::OK);
    let refused = node.result("f", &admin).await;
    assert_eq!((refused.status(), header(&refused, "ballast-result")), (StatusCode::NOT_FOUND, "dead"));
    assert_eq!(
        pod.asked.lock().unwrap().iter().map(|asked| asked.uri.as_str()).collect::<Vec<_>>(),
        ["/open"]
    );
}

pub async fn dead_calls_come_in_pages(store: Shared) {
    let pod = FakePod::start(|_| async move { answer(500, "x") }).await;
    let node = Node::start(store, &[function("f", retries(0), vec![pod.ready()])]).await;
    for n in 0..5 {
        let id = node.accept(&format!("/async-function/f/{n}"), "").await;
        node.result("f", &id).await;
    }
    let (mut query, mut pages) = ("?limit=2".to_owned(), Vec::new());
    loop {
        let page = node.get(&format!("/async-function-dead/f{query}")).await;
        let letters: Vec<serde_json::Value> = serde_json::from_slice(page.body()).unwrap();
        pages.push(
            letters.iter().map(|letter| letter["Path"].as_str().unwrap().to_owned()).collect::<String>(),
        );
        match header(&page, "ballast-continue") {
            "" => break,
            next => query = format!("?limit=2&continue={next}"),
        }
    }
    assert_eq!(pages, ["/0/1", "/2/3", "/4"]);
    for query in ["?limit=0", "?limit=x", "?continue=-1", "?other=1"] {
        assert_eq!(
            node.get(&format!("/async-function-dead/f{query}")).await.status(),
            StatusCode::BAD_REQUEST,
            "{query}"
        );
    }
}
