//! Scraping and the short-term metric store.
//!
//! ```text
//! pods ── scrape (HTTP, by IP) ──▶ text (lines) ──▶ ingest (wanted series, target labels) ──▶ store (30 minutes)
//! own gauges ───────────────────────────────────────────────┘                                   │
//! queries ── registry (which names anybody asks for) ──▶ what ingest keeps         promql::SeriesSource, snapshot
//! ```
//!
//! Everything but `scrape` is synchronous and knows no clock: times come in as milliseconds since the epoch. The crate
//! does not know Kubernetes: whoever finds pods hands in [`scrape::Target`] values. It evaluates nothing: the store is
//! a [`promql::SeriesSource`].

mod database;
pub mod ingest;
pub mod registry;
pub mod scrape;
pub mod snapshot;
pub mod store;
pub mod text;

pub use database::{Database, Error, Gauge, Scraped, Summary};
pub use registry::{Registry, Wanted};
pub use store::{Store, View};

/// Milliseconds since the epoch, as in [`promql`].
pub type Millis = i64;
