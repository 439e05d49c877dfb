//! The recommender of the Vertical Pod Autoscaler.

use std::{path::PathBuf, sync::OnceLock};

use serde_json::{Value as Json, json};

/// Something that became known of a container, in the order in which it did.
#[derive(Clone, Debug, Default)]
pub struct Event {
    /// Milliseconds since the epoch.
    pub at: i64,
    pub pod: String,
    pub container: String,
    /// Thousandths of a core that it used.
    pub cpu: Option<u64>,
    /// Bytes that it used.
    pub memory: Option<u64>,
    /// It was killed for memory with a request of so many bytes.
    pub killed: Option<u64>,
}

/// What it recommends after each history, by container: `target`, `lower` and `upper`, each with `cpu` and `memory`.
pub fn recommend(histories: &[Vec<Event>]) -> Vec<Json> {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    let event = |event: &Event| {
        let Event { at, pod, container, cpu, memory, killed } = event;
        json!({ "at": at, "pod": pod, "container": container, "cpu": cpu, "memory": memory, "killed": killed })
    };
    let input: Vec<Vec<Json>> = histories.iter().map(|history| history.iter().map(event).collect()).collect();
    crate::answer(BINARY.get_or_init(|| crate::build("vpa")), &json!(input))
}
