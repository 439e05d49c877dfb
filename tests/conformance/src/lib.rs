//! The same requests to the embedded API and to the real one, answers compared.
//!
//! A case is a text (see `cases/*.http`):
//!
//! ```text
//! === a merge patch removes a key
//! POST /api/v1/namespaces/$ns/configmaps
//! {metadata: {name: a}, data: {x: "1", y: "2"}}
//! PATCH:merge /api/v1/namespaces/$ns/configmaps/a
//! {data: {x: null}}
//! ```
//!
//! No answer is written down: the real server's answer is the expectation. See [`script`] for the notation and
//! [`normalize`] for what is not compared (uids, times, versions).

pub mod normalize;
pub mod run;
pub mod script;
