//! `ballast crds`: the kinds that Ballast adds to Kubernetes, for `kubectl apply -f -`.

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::output;

#[derive(Debug, clap::Args)]
pub struct Crds {}

impl Crds {
    pub fn run(self) -> Result<ExitCode> {
        let documents: Vec<String> = api::crds()
            .iter()
            .map(|crd| serde_saphyr::to_string(crd).context("failed to write a CustomResourceDefinition"))
            .collect::<Result<_>>()?;
        output::answer(documents.join("---\n").trim_end());
        Ok(ExitCode::SUCCESS)
    }
}
