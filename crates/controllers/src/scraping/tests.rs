use std::sync::Arc;

use futures::StreamExt;
use metrics::{Database, Gauge};
use promql::Labels;
use store::{Limits, Shared};

use super::share::{PREFIX, Sharing, is_metrics};

fn store() -> Shared {
    Arc::new(store::Embedded::memory(Limits::default()).unwrap())
}

fn gauge(name: &str, value: f64) -> Gauge {
    Gauge { name: name.into(), labels: vec![], value }
}

fn asking(query: &str) -> Database {
    let database = Database::default();
    database.ask(&promql::parse(query).unwrap().metric_names(), 1_000);
    database
}

#[tokio::test]
async fn metrics_of_the_scraper_reach_the_others() {
    let store = store();
    let (here, there) = (asking("up"), asking("up"));
    let (mut scraper, mut other) =
        (Sharing::new(store.clone(), "a".into()), Sharing::new(store.clone(), "b".into()));
    assert_eq!(other.restore(&there).await, Ok(false), "there is nothing yet");

    here.feed("pod", &Labels::empty(), 5_000, &[gauge("up", 1.0)]).unwrap();
    scraper.tell_metrics(&here).await.unwrap();
    assert_eq!(other.restore(&there).await, Ok(true));
    assert_eq!(other.restore(&there).await, Ok(false), "it is known already");
    assert_eq!(there.summary().figures.total_points, 1);

    here.feed("pod", &Labels::empty(), 10_000, &[gauge("up", 1.0)]).unwrap();
    scraper.tell_metrics(&here).await.unwrap();
    assert_eq!(other.restore(&there).await, Ok(true));
    assert_eq!(there.summary().figures.total_points, 2);
}

#[tokio::test]
async fn what_one_node_is_asked_all_collect() {
    let store = store();
    let (here, there) = (asking("http_requests_total"), Database::default());
    let (mut asked, other) =
        (Sharing::new(store.clone(), "a".into()), Sharing::new(store.clone(), "b".into()));
    asked.tell_asked(&here).await.unwrap();
    let mut news = store.watch(PREFIX).await.unwrap();
    let change = news.next().await.unwrap();
    assert!(!is_metrics(&change));
    other.merge_asked(&change, &there);
    assert!(there.wanted().contains("http_requests_total"));
}
