use expect_test::expect;
use promql::{MetricNames, TimeRange};

use super::*;
use crate::database::{Database, Scraped};
use crate::registry::Registry;
use crate::store;

fn wanted(names: &[&str]) -> MetricNames {
    MetricNames { exact: names.iter().map(|n| n.to_string()).collect(), ..MetricNames::default() }
}

struct Scene {
    database: Database,
    target: Labels,
    cache: SeriesCache<SeriesRef>,
    time: i64,
}

impl Scene {
    fn new(names: &[&str]) -> Self {
        let database = Database::default();
        database.ask(&wanted(names), 0);
        let target = Labels::from_pairs([("pod", "p-1"), ("instance", "10.0.0.1:80")]);
        Self { database, target, cache: SeriesCache::default(), time: 0 }
    }

    fn scrape(&mut self, body: &str) -> Result<usize, crate::Error> {
        self.time += 5_000;
        let scraped = Scraped {
            target: "t",
            labels: &self.target,
            time: self.time,
            body: body.as_bytes(),
            format: Format::Prometheus,
        };
        let limits = Limits { series: 4, ..Limits::default() };
        self.database.ingest(scraped, &[], &mut self.cache, limits)
    }

    fn series(&self) -> String {
        let range = TimeRange { min: 0, max: i64::MAX };
        let all = self
            .database
            .view()
            .series_labels(&[vec![]], range, &promql::Budget::new(Default::default()))
            .unwrap();
        all.iter().map(|l| format!("{l}\n")).collect()
    }
}

#[test]
fn wanted_series_get_the_labels_of_their_target() {
    let mut scene = Scene::new(&["a", "dotted.name"]);
    let body = "other{broken 1\n\
                a{pod=\"mine\",exported_pod=\"older\",instance=\"\"} 1\n\
                a{x=\"1\"} 2\n\
                ab 3\n\
                {\"dotted.name\",x=\"1\"} 4\n\
                {\"other.name\"} 5\n";
    assert_eq!(scene.scrape(body), Ok(3));
    expect![[r#"
        {__name__="a", exported_exported_pod="mine", exported_pod="older", instance="10.0.0.1:80", pod="p-1"}
        {__name__="a", instance="10.0.0.1:80", pod="p-1", x="1"}
        {__name__="dotted.name", instance="10.0.0.1:80", pod="p-1", x="1"}
    "#]]
    .assert_eq(&scene.series());
    assert_eq!(scene.cache.len(), 3);
    assert_eq!(scene.scrape(body), Ok(3));
    assert_eq!(scene.database.view().figures().total_points, 6);
}

#[test]
fn a_broken_body_stores_nothing_and_too_many_series_are_refused() {
    let mut scene = Scene::new(&["a"]);
    assert_eq!(
        scene.scrape("a{x=\"1\"} 1\na{x=\"2\"} one\n").unwrap_err().to_string(),
        "line 2: \"one\" is not a number"
    );
    assert_eq!(scene.database.view().figures(), store::Figures::default());
    let many: String = (0..5).map(|i| format!("a{{x=\"{i}\"}} 1\n")).collect();
    let error = scene.scrape(&many).unwrap_err();
    assert!(
        matches!(&error, crate::Error::Text(e) if e.problem == Problem::TooManySeries { limit: 4 }),
        "{error}"
    );
    assert_eq!(scene.scrape(&many[..many.len() / 5 * 4]), Ok(4));
}

#[test]
fn a_bare_name_is_not_mistaken_for_one_with_labels() {
    let mut scene = Scene::new(&["a"]);
    assert_eq!(scene.scrape("a 1\n"), Ok(1));
    assert_eq!(scene.scrape("a {x=\"1\"} 2\na 3\n"), Ok(2));
    assert_eq!(scene.database.view().figures().series_count, 2);
}

#[test]
fn other_wanted_names_or_another_store_make_the_cache_start_anew() {
    let mut scene = Scene::new(&["a", "b"]);
    let body = "a 1\nb 1\n";
    assert_eq!(scene.scrape(body), Ok(2));
    let mut registry = Registry::new();
    registry.ask(&wanted(&["c"]), 0);
    scene.database.merge_asked(registry.asked());
    assert_eq!(scene.scrape("a 1\nb 1\nc 1\n"), Ok(3));

    let bytes = scene.database.snapshot();
    scene.database.restore(&bytes).unwrap();
    assert_eq!(scene.scrape("c 2\na 2\n"), Ok(2), "references into the old store are noticed");
    let figures = scene.database.view().figures();
    assert_eq!((figures.series_count, figures.total_points), (3, 2 + 3 + 2));
}
