//! How many pods each Vertex and MonoVertex gets. `scaling` does the work of deciding and writing; here is what a
//! decision depends on, and what is news to it.
//!
//! ```text
//! buffers, pods' metrics ──▶ collect ──▶ Windows ──▶ policy ──▶ decide::vertex
//!                               └──key──▶ scaling::Scaler ──▶ /scale
//! ```
//!
//! - `window`: what was seen of one object over its lookback, pure
//! - `collect`: asks buffers and pods
//! - `policy`: vertices as a [`scaling::Policy`]

mod collect;
mod policy;
#[cfg(test)]
mod tests;
mod window;

use std::sync::Arc;

use decide::vertex::Memory;
use engine::{Key, Queue, Scope};
use scaling::{Memories, Scaler};

pub(super) use self::window::Windows;
pub use self::window::{PENDING, RATE};
use self::{collect::Collector, policy::Vertices};
use super::{Caches, Parts, vertex::Which};

const COMPONENT: &str = "ballast-vertex-scaler";

/// What was remembered of each kind.
pub(super) type Remembered = Vec<(Which, Memories<Memory>)>;

pub(super) async fn remember(store: &store::Shared) -> Remembered {
    let mut all = Vec::new();
    for (which, prefix) in [(Which::Vertex, "vertex/"), (Which::MonoVertex, "monovertex/")] {
        all.push((which, Memories::load_all(store.clone(), prefix).await));
    }
    all
}

/// Both kinds share what is seen: each round asks a buffer once.
pub(super) fn start(
    parts: &Parts,
    windows: &Windows,
    scope: &Scope,
    caches: &Caches,
    remembered: Remembered,
) {
    let mut queues = Vec::new();
    for (which, memories) in remembered {
        let queue: Arc<Queue<Key>> = Arc::default();
        // Some of them may be gone.
        for key in memories.keys() {
            queue.add(key);
        }
        match which {
            Which::Vertex => caches.vertices.enqueue(&queue),
            Which::MonoVertex => caches.mono_vertices.enqueue(&queue),
        }
        let policy = Vertices::new(which, caches.clone(), windows.clone());
        let executor = parts.engine.executor(COMPONENT, parts.fence.clone());
        let scaler = Scaler::new(policy, memories, parts.history.clone()).among(&parts.claims, &queue);
        scope.run(scaler, queue.clone(), executor);
        queues.push((which, queue));
    }
    let collector = Collector::new(parts, caches, windows.clone(), queues);
    scope.keep("pipeline readings", move || collector.clone().run());
}
