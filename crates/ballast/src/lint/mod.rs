//! Manifests checked without a cluster.
//!
//! ```text
//! files ─ manifest ─▶ documents with positions ─┬─ server  what an API server would say
//!                                               └─ rules   what no API server knows
//! ```
//!
//! - `manifest`: YAML, and where in the file each field stands
//! - `server`: an embedded API server that nobody else sees, asked with a dry run
//! - `graphs`: resource graphs, compiled
//! - `rules`: annotations, queries, graphs, pipelines, and manifests that contradict each other
//! - `sarif`: findings for the tools that show them beside the code

mod graphs;
mod manifest;
mod rules;
pub mod sarif;
mod server;

use std::{collections::HashSet, fmt};

use anyhow::Result;
use serde::Serialize;

use manifest::Document;

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    pub file: String,
    pub line: u64,
    pub column: u64,
    pub severity: Severity,
    pub rule: &'static str,
    /// `Deployment shop/fib`; empty for a file that cannot be read.
    pub object: String,
    /// Such as `spec.triggers[0].query`.
    pub path: String,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It will be refused, or a part of it ignored.
    Error,
    /// It will be taken, and may do what nobody wants.
    Warning,
}

/// All that is wrong with these files, in the order of files and lines. Each is a name and a text.
pub async fn lint(files: &[(String, String)]) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut documents = Vec::new();
    for (name, text) in files {
        match manifest::read(name, text) {
            Ok(found) => documents.extend(found),
            Err(finding) => findings.push(*finding),
        }
    }
    let graphs = graphs::compile(&documents);
    for (document, errors) in &graphs.errors {
        for error in errors {
            // What the cluster has beside Kubernetes' own kinds is not known here.
            let (severity, rule) = match error.message.starts_with("schema not found") {
                true => (Severity::Warning, "unknown-kind"),
                false => (Severity::Error, "graph"),
            };
            findings.push(Finding::at(document, severity, rule, &error.path, error.message.clone()));
        }
    }
    server::check(&documents, &graphs.crds, &mut findings).await?;
    rules::check(&documents, &mut findings);
    // An API server says the same of many fields as the controller would.
    let place = |finding: &Finding| (finding.file.clone(), finding.line, finding.column);
    let refused: HashSet<_> = findings.iter().filter(|finding| finding.rule == "api").map(place).collect();
    findings.retain(|finding| finding.rule != "spec" || !refused.contains(&place(finding)));
    findings.sort();
    findings.dedup();
    Ok(findings)
}

// === impl Finding ===

impl Finding {
    fn at(
        document: &Document,
        severity: Severity,
        rule: &'static str,
        path: &str,
        message: impl Into<String>,
    ) -> Self {
        let (line, column) = document.position(path);
        Self {
            file: document.file.clone(),
            line,
            column,
            severity,
            rule,
            object: document.name(),
            path: path.to_owned(),
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, severity, rule, object, path, message } = self;
        write!(f, "{file}:{line}:{column}: {severity}: ")?;
        if !object.is_empty() {
            write!(f, "{object}: ")?;
        }
        // Many messages of an API server begin with the path.
        if !path.is_empty() && !message.starts_with(path.as_str()) {
            write!(f, "{path}: ")?;
        }
        write!(f, "{message} [{rule}]")
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        })
    }
}
