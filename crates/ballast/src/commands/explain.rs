//! `ballast explain KIND/NAME`: the last decisions about an object, each with its whole chain.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, Result, bail};
use decide::hvpa::Plan;
use http_body_util::BodyExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::{Api, api::ListParams};
use scaling::{Outcome, Record};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    operator::OperatorPort,
    output::{self, Format},
    running::{self, Running},
};

/// One decision with all its steps.
const LONGEST_EVENT: usize = 1 << 20;
const RECONNECT: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub struct Explain {
    /// What was scaled, as in deployment/fibonacci
    #[arg(value_name = "KIND/NAME")]
    object: String,
    #[arg(long, short, default_value = "default")]
    namespace: String,
    /// The data directory of the Ballast to ask
    #[arg(long, value_name = "DIR", default_value = ".ballast", env = "BALLAST_DATA_DIR")]
    data_dir: PathBuf,
    /// Ask the operator port of this node instead, as in http://127.0.0.1:5001
    #[arg(long, value_name = "URL", env = "BALLAST_OPERATOR_URL")]
    operator: Option<String>,
    /// What the operator port wants as a bearer token
    #[arg(long, value_name = "TOKEN", env = "BALLAST_OPERATOR_TOKEN", hide_env_values = true)]
    operator_token: Option<String>,
    /// Go on, and tell of each new decision
    #[arg(long, short)]
    watch: bool,
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Explain {
    pub fn run(self) -> Result<ExitCode> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(self.explain())
    }

    async fn explain(&self) -> Result<ExitCode> {
        let Some((kind, name)) = self.object.split_once('/') else {
            bail!("expected KIND/NAME, as in deployment/fibonacci, not {:?}", self.object);
        };
        if self.watch {
            return self.follow(kind, name).await;
        }
        let records = match self.ask(kind, name).await {
            Ok(records) => records,
            Err(error) => return self.answer_by_events(kind, name, error).await,
        };
        if records.is_empty() {
            bail!(
                "no decision about {} in namespace {} is known; is it scaled by Ballast?",
                self.object,
                self.namespace
            );
        }
        match self.output {
            Format::Json => output::answer(serde_json::to_string_pretty(&records)?),
            Format::Text => records.iter().for_each(|record| output::answer(text(record))),
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Tells each decision as it is made, and goes on where it was when the connection breaks.
    async fn follow(&self, kind: &str, name: &str) -> Result<ExitCode> {
        let mut last = None;
        loop {
            let since = last.map(|last: Timestamp| last.to_string());
            let filters = self.filters(kind, name).into_iter();
            let filters: Vec<_> = filters.chain(since.as_deref().map(|since| ("since", since))).collect();
            let followed = async { self.port()?.follow_decisions(&filters).await };
            let mut answer = match followed.await {
                Ok(answer) => answer,
                Err(error) if last.is_none() => return self.answer_by_events(kind, name, error).await,
                Err(error) => return Err(error),
            };
            let mut events = Events::default();
            while let Some(Ok(frame)) = answer.frame().await {
                let Ok(bytes) = frame.into_data() else { continue };
                for record in events.read(&bytes)? {
                    last = last.max(Some(record.at));
                    match self.output {
                        Format::Json => output::answer(serde_json::to_string(&record)?),
                        Format::Text => output::answer(text(&record)),
                    }
                }
            }
            tokio::time::sleep(RECONNECT).await;
        }
    }

    async fn ask(&self, kind: &str, name: &str) -> Result<Vec<Record>> {
        self.port()?.decisions(&self.filters(kind, name)).await
    }

    fn filters<'a>(&'a self, kind: &'a str, name: &'a str) -> [(&'a str, &'a str); 3] {
        [("kind", kind), ("name", name), ("namespace", &self.namespace)]
    }

    fn port(&self) -> Result<OperatorPort> {
        let token = self.operator_token.clone();
        Ok(match &self.operator {
            Some(operator) => OperatorPort::new(operator, token),
            None => OperatorPort::new(&Running::read(&self.data_dir)?.operator, token),
        })
    }

    /// Nobody answers: the Events are what is left of the last decisions.
    async fn answer_by_events(&self, kind: &str, name: &str, error: anyhow::Error) -> Result<ExitCode> {
        let config = match running::kube_config(&self.data_dir).await {
            Ok(config) => config,
            Err(_) => match kube::Config::infer().await {
                Ok(config) => config,
                Err(_) => return Err(error),
            },
        };
        let client = kube::Client::try_from(config)?;
        let events: Api<Event> = Api::namespaced(client, &self.namespace);
        let about = ListParams::default().fields(&format!("involvedObject.name={name}"));
        let Ok(list) = events.list(&about).await else { return Err(error) };
        let mut events = list.items;
        events.retain(|event| {
            let of_kind = event.involved_object.kind.as_deref().unwrap_or_default();
            let by = event.source.as_ref().and_then(|source| source.component.as_deref());
            of_kind.eq_ignore_ascii_case(kind) && by.is_some_and(|by| by.starts_with("ballast"))
        });
        if events.is_empty() {
            return Err(error);
        }
        events.sort_by_key(|event| event.last_timestamp.as_ref().map(|time| time.0));
        output::answer(format_args!("no Ballast answers ({error:#}); what its Events still tell:"));
        for event in events {
            let at = event.last_timestamp.map(|time| time.0.to_string()).unwrap_or_default();
            let (reason, message) = (event.reason.unwrap_or_default(), event.message.unwrap_or_default());
            output::answer(format_args!("{at}  {reason}: {message}"));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Server-sent events, as they come in pieces.
#[derive(Default)]
struct Events {
    unread: Vec<u8>,
}

impl Events {
    /// The decisions that are complete with this piece.
    fn read(&mut self, piece: &[u8]) -> Result<Vec<Record>> {
        self.unread.extend_from_slice(piece);
        let mut records = Vec::new();
        while let Some(end) = self.unread.windows(2).position(|two| two == b"\n\n") {
            let event: Vec<u8> = self.unread.drain(..end + 2).collect();
            let event = String::from_utf8_lossy(&event);
            let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
            match (field("event: "), field("data: ")) {
                (Some("decision"), Some(data)) => {
                    records.push(serde_json::from_str(data).context("a decision cannot be read")?);
                }
                (Some("missed"), Some(n)) => tracing::warn!("{n} decisions were made too quickly to be told"),
                // a sign of life
                _ => {}
            }
        }
        if self.unread.len() > LONGEST_EVENT {
            bail!("an event is longer than {LONGEST_EVENT} bytes: this is no Ballast");
        }
        Ok(records)
    }
}

/// The decision in a line, then each step.
fn text(record: &Record) -> String {
    let Record { at, policy, object, current, desired, sizes, reason, why, outcome, conflict, steps, .. } =
        record;
    let outcome = match outcome {
        Outcome::Nothing => String::new(),
        Outcome::Written => ", written".to_owned(),
        Outcome::Held(why) => format!(", not written: {why}"),
    };
    let change = match sizes {
        None => format!("{current} -> {desired}"),
        Some((before, after)) if before == after => format!("{current} -> {desired} x {after}"),
        Some((before, after)) => format!("{current} x {before} -> {desired} x {after}"),
    };
    let mut text = format!("{at}  {object} {change}  {reason}: {why} ({policy}{outcome})");
    if let Some(conflict) = conflict {
        text.push_str(&format!("\n    conflict: {conflict}"));
    }
    for step in steps.values() {
        let words = step["words"].as_str().unwrap_or_default();
        let rule = step["rule"].as_str().unwrap_or_default();
        let (before, after) = (value(&step["before"]), value(&step["after"]));
        text.push_str(&format!("\n    {before:>4} -> {after:<4} {rule:<18} {words}"));
    }
    text
}

/// A count, replicas together with sizes, or what is done to the instances of a Set.
fn value(value: &Value) -> String {
    match (value.as_str(), Plan::deserialize(value)) {
        (Some(words), _) => words.to_owned(),
        (None, Ok(plan)) => plan.to_string(),
        (None, Err(_)) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    /// In whatever pieces they come.
    #[test]
    fn events_are_read() {
        let target = engine::effect::Target::absent(&engine::kind::DEPLOYMENT, Some("shop"), "fib");
        let decision = scaling::fixed(1, 3, "somebody");
        let record = Record::new(Timestamp::UNIX_EPOCH, "demand", &target, &decision, Outcome::Written);
        let data = serde_json::to_string(&record).expect("test data");
        let text = format!(": still here\n\nevent: decision\ndata: {data}\n\nevent: missed\ndata: 3\n\n");
        for length in [1, 7, 10_000] {
            let mut events = Events::default();
            let pieces = text.as_bytes().chunks(length);
            let read: Vec<Record> = pieces.flat_map(|piece| events.read(piece).expect("test data")).collect();
            assert_eq!(read, std::slice::from_ref(&record));
        }
        assert!(Events::default().read(&vec![b'x'; LONGEST_EVENT + 1]).is_err());
    }

    #[test]
    fn a_decision_is_shown_with_each_step() {
        let target = engine::effect::Target::absent(&engine::kind::DEPLOYMENT, Some("shop"), "fib");
        let at = "2026-03-02T12:00:00Z".parse().expect("test data");
        let decision = scaling::fixed(1, 3, "somebody");
        let shown = |outcome| text(&Record::new(at, "demand", &target, &decision, outcome));
        expect![[r#"
            2026-03-02T12:00:00Z  Deployment/fib 1 -> 3  FixedCount: somebody fixes the count to 3 (demand, written)
                   1 -> 3    count              somebody fixes the count to 3"#]]
        .assert_eq(&shown(Outcome::Written));
        let conflict = Some("kubectl-scale wrote replicas".to_owned());
        let record = Record { conflict, ..Record::new(at, "demand", &target, &decision, Outcome::Written) };
        assert!(text(&record).contains("(demand, written)\n    conflict: kubectl-scale wrote replicas\n"));
        assert!(shown(Outcome::Held("paused".into())).contains("(demand, not written: paused)"));
    }

    #[test]
    fn sizes_are_shown_with_the_count() {
        let text = |requests: &str| -> Plan {
            let containers =
                serde_json::json!([{"name": "app", "requests": {"cpu": requests}, "limits": {}}]);
            serde_json::from_value(serde_json::json!({"replicas": 2, "containers": containers}))
                .expect("test data")
        };
        let mut chain = decide::Chain::new(text("500m"));
        let verdict = decide::hvpa::Verdict::OnlyVertical;
        chain.push(decide::hvpa::Rule::Choice { verdict, plan: text("750m") });
        let kind = engine::kind::Kind::namespaced("autoscaling.k8s.io", "v1alpha1", "Hvpa", "hvpas");
        let target = engine::effect::Target::absent(&kind, Some("shop"), "web");
        let at = "2026-03-02T12:00:00Z".parse().expect("test data");
        let record = Record::new(at, "hvpa", &target, &chain.finish((), None), Outcome::Written);
        expect![[r#"
            2026-03-02T12:00:00Z  Hvpa/web 2 x app (cpu 500m) -> 2 x app (cpu 750m)  VerticalRecommended: only the vertical side wants a change (hvpa, written)
                2 x app(cpu 500m) -> 2 x app(cpu 750m) choice             only the vertical side wants a change"#]].assert_eq(&super::text(&record));
    }
}
