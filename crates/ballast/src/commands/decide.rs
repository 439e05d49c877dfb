//! `ballast decide`: what a policy would do with this.

use std::{
    io::{self, Read},
    process::ExitCode,
};

use anyhow::{Context, Result, anyhow};
use decide::{input::InputError, policy::Outcome};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use crate::output;

/// Longer input is refused: a decision depends on a few kilobytes.
const LONGEST_INPUT: usize = 64 << 20;

#[derive(Debug, clap::Args)]
pub struct Decide {
    /// The policy that decides
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(decide::policy::names()))]
    policy: String,
    /// Print the JSON Schema of the input (with an example) or of the answer, and decide nothing
    #[arg(long, value_enum, value_name = "OF", num_args = 0..=1, default_missing_value = "input", conflicts_with = "explain")]
    schema: Option<SchemaOf>,
    /// Print the chain of reasons in words instead of JSON
    #[arg(long)]
    explain: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum SchemaOf {
    Input,
    Answer,
}

impl Decide {
    pub fn run(self) -> Result<ExitCode> {
        if let Some(of) = self.schema {
            let schema = match of {
                SchemaOf::Input => decide::policy::schema(&self.policy),
                SchemaOf::Answer => decide::policy::answer_schema(&self.policy),
            };
            output::answer(serde_json::to_string_pretty(&schema.map_err(|error| anyhow!("{error}"))?)?);
            return Ok(ExitCode::SUCCESS);
        }
        let mut bytes = Vec::new();
        io::stdin()
            .take(LONGEST_INPUT as u64 + 1)
            .read_to_end(&mut bytes)
            .context("failed to read the input")?;
        match self.answers(&bytes) {
            Ok(answers) => answers.iter().for_each(output::answer),
            Err(error) => return Ok(output::failure(output::BAD_INPUT, &error)),
        }
        Ok(ExitCode::SUCCESS)
    }

    /// All answers or none: half a batch would look like a whole one.
    fn answers(&self, bytes: &[u8]) -> Result<Vec<String>> {
        if bytes.len() > LONGEST_INPUT {
            return Err(anyhow!("the input is longer than {} MiB", LONGEST_INPUT >> 20));
        }
        let text = str::from_utf8(bytes).map_err(|error| {
            anyhow!("the input is not UTF-8: byte {} is not part of a character", error.valid_up_to() + 1)
        })?;
        let documents = documents(text);
        if documents.is_empty() {
            return Err(anyhow!(
                "there is no input; give a JSON object on standard input (`ballast decide {} --schema` tells its fields)",
                self.policy
            ));
        }
        let is_batch = documents.len() > 1;
        let mut answers = Vec::with_capacity(documents.len());
        for (index, document) in documents.iter().enumerate() {
            let number = index + 1;
            match api::decide(&self.policy, document) {
                Ok(outcome) if is_batch => answers.push(self.of_many(number, outcome)),
                Ok(outcome) if self.explain => answers.push(outcome.explanation.trim_end().to_owned()),
                Ok(outcome) => answers.push(outcome.json.to_string()),
                Err(error) if is_batch => return Err(refused(number, document, &error)),
                Err(error) => return Err(anyhow!("{error}")),
            }
        }
        Ok(answers)
    }

    /// Of several inputs, each answer says which one it is about.
    fn of_many(&self, number: usize, outcome: Outcome) -> String {
        if self.explain {
            let name = outcome.object.map(|name| format!(" ({name})")).unwrap_or_default();
            return format!("input {number}{name}: {}", outcome.explanation.trim_end());
        }
        let mut named = Map::new();
        named.insert("input".to_owned(), json!(number));
        named.insert("object".to_owned(), json!(outcome.object));
        match outcome.json {
            Value::Object(fields) => named.extend(fields),
            other => drop(named.insert("answer".to_owned(), other)),
        }
        Value::Object(named).to_string()
    }
}

/// The name is looked for where policies have it, since this input was not read to its end.
fn refused(number: usize, document: &str, error: &InputError) -> anyhow::Error {
    let value: Value = serde_json::from_str(document).unwrap_or_default();
    let name = ["/function/name", "/vertex/name", "/spec/scaleTargetRef/name", "/spec/name"]
        .iter()
        .find_map(|pointer| value.pointer(pointer)?.as_str());
    match name {
        Some(name) => anyhow!("input {number} ({}): {error}", decide::input::shown(name)),
        None => anyhow!("input {number}: {error}"),
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
