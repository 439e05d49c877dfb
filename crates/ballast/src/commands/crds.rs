//! `ballast crds`: the kinds that Ballast adds to Kubernetes, for `kubectl apply -f -`.

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::{
    components::{self, Chosen},
    output,
};

#[derive(Debug, clap::Args)]
pub struct Crds {
    /// Only the kinds of these controllers, as they are given to `ballast serve`
    #[arg(long, value_name = "NAMES", default_value = "*", value_parser = components::on_cluster, allow_hyphen_values = true)]
    controllers: Chosen,
}

impl Crds {
    pub fn run(self) -> Result<ExitCode> {
        let documents: Vec<String> = self
            .controllers
            .crds()
            .iter()
            .map(|crd| serde_saphyr::to_string(crd).context("failed to write a CustomResourceDefinition"))
            .collect::<Result<_>>()?;
        output::answer(documents.join("---\n").trim_end());
        Ok(ExitCode::SUCCESS)
    }
}
