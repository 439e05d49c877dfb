//! Every sequence of `cases/` on the embedded API and on the real one.
//!
//! `CONFORMANCE_FILTER=text` runs only the sequences whose file or name contains the text.
//! `CONFORMANCE_SHOW=1` prints the real server's answers too.

#![allow(clippy::print_stdout, reason = "the report is for people")]

use std::{fs, path::Path};

use cluster::real::{ControlPlane, Options};
use conformance::{
    run::{self, Answer},
    script::{self, Sequence},
};
use futures::{StreamExt, stream};
use similar::TextDiff;

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_the_real_server() -> anyhow::Result<()> {
    let sequences = load()?;
    let plane = ControlPlane::start(Options::default()).await?;
    let real = plane.client().await?;
    let embedded = localkube::ApiServer::open(localkube::Options::default()).await?.client("default");

    let outcomes: Vec<(String, Option<String>)> = stream::iter(sequences.iter().enumerate())
        .map(|(number, (file, sequence))| {
            let (real, embedded) = (real.clone(), embedded.clone());
            async move {
                let unique = number.to_string();
                let (expected, found) = tokio::join!(
                    run::sequence(&real, sequence, &unique),
                    run::sequence(&embedded, sequence, &unique)
                );
                let difference = match (expected, found) {
                    (Ok(expected), Ok(found)) => difference(sequence, &expected, &found),
                    (Err(error), _) => Some(format!("the real server: {error:#}\n")),
                    (_, Err(error)) => Some(format!("the embedded server: {error:#}\n")),
                };
                (format!("{file}: {}", sequence.name), difference)
            }
        })
        .buffered(8)
        .collect()
        .await;

    let failed: Vec<_> = outcomes.iter().filter_map(|(name, diff)| Some((name, diff.as_ref()?))).collect();
    for (name, difference) in &failed {
        println!("✗ {name}\n{difference}");
    }
    println!("{} sequences, {} differ", outcomes.len(), failed.len());
    let names: Vec<_> = failed.iter().map(|(name, _)| name.as_str()).collect();
    assert!(failed.is_empty(), "these differ from the real server:\n{}", names.join("\n"));
    Ok(())
}

fn load() -> anyhow::Result<Vec<(String, Sequence)>> {
    let filter = std::env::var("CONFORMANCE_FILTER").unwrap_or_default();
    let mut files: Vec<_> = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("cases"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    let mut sequences = Vec::new();
    for path in files {
        let file = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let parsed = script::parse(&fs::read_to_string(&path)?)
            .map_err(|error| error.context(path.display().to_string()))?;
        sequences.extend(
            parsed
                .into_iter()
                .filter(|sequence| file.contains(&filter) || sequence.name.contains(&filter))
                .map(|sequence| (file.clone(), sequence)),
        );
    }
    assert!(!sequences.is_empty(), "no sequence matches {filter:?}");
    Ok(sequences)
}

/// The first step that differs, as a diff of the answers: `-` real, `+` embedded.
fn difference(sequence: &Sequence, expected: &[Answer], found: &[Answer]) -> Option<String> {
    let show = std::env::var_os("CONFORMANCE_SHOW").is_some();
    for (step, (expected, found)) in sequence.steps.iter().zip(expected.iter().zip(found)) {
        if show {
            println!("{} line {} {}\n{}", sequence.name, step.line, step.path, text(expected));
        }
        if expected != found {
            let (expected, found) = (text(expected), text(found));
            let diff = TextDiff::from_lines(&expected, &found);
            return Some(format!(
                "line {}: {}\n{}",
                step.line,
                step.path,
                diff.unified_diff().context_radius(3)
            ));
        }
    }
    None
}

fn text(answer: &Answer) -> String {
    let body = serde_json::to_string_pretty(&answer.body).unwrap_or_default();
    format!("status {}\nwarnings {:?}\n{body}\n", answer.status, answer.warnings)
}
