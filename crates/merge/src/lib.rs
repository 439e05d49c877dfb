//! Patches: how a request body and a stored object become the next object. Everything is a pure function over
//! `serde_json::Value`; the time of a request is an argument.
//!
//! | content type | here |
//! |---|---|
//! | `application/json-patch+json` | [`json_patch::apply`] |
//! | `application/merge-patch+json` | [`merge_patch::apply`] |
//! | `application/strategic-merge-patch+json` | [`strategic::apply`] |
//! | `application/apply-patch+yaml` | [`apply::Updater::apply`] |
//!
//! Every other write (create, update, the first three kinds of patch) goes through [`apply::Updater::update`]
//! afterwards, which records in `metadata.managedFields` who changed what.

pub mod apply;
mod go;
pub mod json_patch;
pub mod merge_patch;
pub mod strategic;
