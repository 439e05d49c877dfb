//! `ballast decide`: what a policy would do with this.

use std::{
    io::{self, Read},
    process::ExitCode,
};

use anyhow::{Context, Result, anyhow};
use serde::de::IgnoredAny;

use crate::output;

#[derive(Debug, clap::Args)]
pub struct Decide {
    /// The policy that decides
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(decide::policy::names()))]
    policy: String,
    /// Print the JSON Schema of the input, and decide nothing
    #[arg(long, conflicts_with = "explain")]
    schema: bool,
    /// Print the chain of reasons in words instead of JSON
    #[arg(long)]
    explain: bool,
}

impl Decide {
    pub fn run(self) -> Result<ExitCode> {
        if self.schema {
            let schema = decide::policy::schema(&self.policy).map_err(|error| anyhow!("{error}"))?;
            output::answer(serde_json::to_string_pretty(&schema)?);
            return Ok(ExitCode::SUCCESS);
        }
        let mut text = String::new();
        io::stdin()
            .read_to_string(&mut text)
            .context("failed to read the input, which must be JSON in UTF-8")?;
        let documents = documents(&text);
        if documents.is_empty() {
            return Ok(output::failure(
                output::BAD_INPUT,
                &anyhow!(
                    "there is no input; give a JSON object on standard input (`ballast decide {} --schema` tells its \
                     fields)",
                    self.policy
                ),
            ));
        }
        for (index, document) in documents.iter().enumerate() {
            match decide::policy::decide(&self.policy, document) {
                Ok(outcome) if self.explain => output::answer(outcome.explanation.trim_end()),
                Ok(outcome) => output::answer(outcome.json),
                Err(error) => {
                    let which =
                        if documents.len() > 1 { format!("input {}: ", index + 1) } else { String::new() };
                    return Ok(output::failure(output::BAD_INPUT, &anyhow!("{which}{error}")));
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// One JSON value after the other, as text. What is not JSON is the last one: the policy says what is wrong with it.
fn documents(text: &str) -> Vec<&str> {
    let mut documents = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<IgnoredAny>();
        let end = match values.next() {
            Some(Ok(_)) => values.byte_offset(),
            _ => rest.len(),
        };
        documents.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    documents
}

#[cfg(test)]
mod tests {
    use super::documents;

    #[test]
    fn input_is_one_object_or_many() {
        for (text, expected) in [
            ("", &[][..]),
            (" {\"a\": 1} ", &["{\"a\": 1}"]),
            ("{\n}\n{}\n", &["{\n}", "{}"]),
            ("{} not json", &["{}", "not json"]),
        ] {
            assert_eq!(documents(text), expected, "{text:?}");
        }
    }
}
