//! The notation of cases.
//!
//! - `=== name` starts a sequence. Each runs in a namespace of its own, `$ns`, and may use the API group `$group`.
//! - `METHOD path` starts a step. `PATCH:merge`, `PATCH:json`, `PATCH:strategic`, `PATCH:apply` choose the content type.
//!   `WATCH path` collects what a watch sends until the server ends it (give `timeoutSeconds`).
//!   `AWAIT path` repeats a GET until it answers 200, and compares nothing.
//! - `> Name: value` below it adds a header (`> Impersonate-User: …` asks as somebody else), `> raw` sends the body as it is written.
//! - The lines below are the body in YAML (sent as JSON).
//! - `${2.metadata.resourceVersion}` is a field of the answer to step 2 of the sequence; steps count from 1.
//! - `~ path because …` leaves a field of the sequence's answers out of the comparison and says why; `*` is any key.
//! - `#` starts a comment line.

use anyhow::{Context, Result, bail};

#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    pub name: String,
    pub steps: Vec<Step>,
    pub ignored: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub verb: Verb,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
    pub raw: bool,
    pub line: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Verb {
    Request { method: http::Method, content_type: &'static str },
    Watch,
    Await,
}

pub fn parse(text: &str) -> Result<Vec<Sequence>> {
    let mut sequences: Vec<Sequence> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        parse_line(&mut sequences, line, number).with_context(|| format!("line {number}: {line}"))?;
    }
    Ok(sequences)
}

fn parse_line(sequences: &mut Vec<Sequence>, line: &str, number: usize) -> Result<()> {
    if let Some(name) = line.strip_prefix("=== ") {
        let name = name.trim().to_owned();
        if sequences.iter().any(|other| other.name == name) {
            bail!("there are two sequences of this name");
        }
        sequences.push(Sequence { name, steps: Vec::new(), ignored: Vec::new() });
        return Ok(());
    }
    let Some(sequence) = sequences.last_mut() else {
        return match line.trim() {
            text if text.is_empty() || text.starts_with('#') => Ok(()),
            _ => bail!("a sequence starts with '=== name'"),
        };
    };
    if let Some(rule) = line.strip_prefix("~ ") {
        let (path, _reason) = rule.split_once(" because ").context("say why: '~ path because …'")?;
        sequence.ignored.push(path.trim().to_owned());
    } else if let Some(verb) = line.split(' ').next().and_then(parse_verb) {
        let path = line.split_once(' ').map(|(_, path)| path.trim()).unwrap_or_default().to_owned();
        let step = Step { verb, path, headers: Vec::new(), body: String::new(), raw: false, line: number };
        sequence.steps.push(step);
    } else if line.starts_with('#') {
        // a comment
    } else if let Some(step) = sequence.steps.last_mut() {
        if line.trim() == "> raw" {
            step.raw = true;
        } else if let Some(header) = line.strip_prefix("> ") {
            let (name, value) = header.split_once(": ").context("a header is 'Name: value'")?;
            step.headers.push((name.to_owned(), value.to_owned()));
        } else {
            step.body.push_str(line);
            step.body.push('\n');
        }
    } else if !line.trim().is_empty() {
        bail!("a step starts with a method and a path");
    }
    Ok(())
}

fn parse_verb(word: &str) -> Option<Verb> {
    let request = |method, content_type| Some(Verb::Request { method, content_type });
    match word {
        "GET" => request(http::Method::GET, ""),
        "POST" => request(http::Method::POST, "application/json"),
        "PUT" => request(http::Method::PUT, "application/json"),
        "DELETE" => request(http::Method::DELETE, "application/json"),
        "PATCH:merge" => request(http::Method::PATCH, "application/merge-patch+json"),
        "PATCH:json" => request(http::Method::PATCH, "application/json-patch+json"),
        "PATCH:strategic" => request(http::Method::PATCH, "application/strategic-merge-patch+json"),
        "PATCH:apply" => request(http::Method::PATCH, "application/apply-patch+yaml"),
        "WATCH" => Some(Verb::Watch),
        "AWAIT" => Some(Verb::Await),
        _ => None,
    }
}
