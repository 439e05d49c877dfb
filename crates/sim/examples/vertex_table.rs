//! Both models of a vertex in closed loop, as a table: `cargo run -p sim --example vertex_table [bench/README.md]`. With a
//! file, the table between its markers is written anew.

#![allow(clippy::print_stdout)]

use std::{env, error::Error, fmt::Write as _, fs};

use decide::vertex::{Kind, Limits, Scale, Spec, VertexModel};
use sim::vertices::{Outcome, Stage, Story, run};

const BEGIN: &str = "<!-- vertex_table: begin -->";
const END: &str = "<!-- vertex_table: end -->";

const SHAPES: [(&str, &[(&str, Kind)]); 4] = [
    ("source", &[("in", Kind::Source)]),
    ("map", &[("map", Kind::Udf)]),
    ("sink", &[("out", Kind::Sink)]),
    ("chain of the three", &[("in", Kind::Source), ("map", Kind::Udf), ("out", Kind::Sink)]),
];

fn stages(shape: &[(&'static str, Kind)], model: VertexModel, initial: usize) -> Vec<Stage> {
    let stage = |&(name, kind): &(&'static str, Kind)| Stage {
        name,
        spec: Spec {
            kind,
            scale: Scale::default(),
            limits: Limits::default(),
            back_pressure_threshold: 0.9,
            model,
            target_saturation: 0.85,
        },
        capacity: 100.0,
        start_up: 20.0,
        initial,
    };
    shape.iter().map(stage).collect()
}

/// The formulas are looked at every 30 s, as the public controller does.
fn told(stages: &[Stage], model: VertexModel, seconds: u64, load: &dyn Fn(f64) -> f64) -> Outcome {
    run(&Story {
        stages,
        load,
        speed: &|_| 1.0,
        answers: &|_| true,
        seconds,
        lag: 10,
        noise: 0.03,
        seed: 1,
        tick: 30,
        follows_next_check: model == VertexModel::Learned,
    })
}

fn table() -> Result<String, std::fmt::Error> {
    let models = [("learned", VertexModel::Learned), ("formula", VertexModel::Formula)];
    let mut text = String::from(
        "| load, in pods | vertex | model | replicas, second hour | reversals/h | delivered, second hour | largest \
         backlog, second hour | replica-hours |\n|--:|---|---|--:|--:|--:|--:|--:|\n",
    );
    for need in [1.5, 5.0, 10.0, 20.0] {
        for (name, shape) in SHAPES {
            for (label, model) in models {
                let outcome = told(&stages(shape, model, 1), model, 7200, &|_| need * 100.0);
                let counts: Vec<String> = outcome
                    .vertices
                    .iter()
                    .map(|vertex| format!("{}–{}", vertex.late_lowest, vertex.late_highest))
                    .collect();
                writeln!(
                    text,
                    "| {need} | {name} | {label} | {} | {:.1} | {:.2} % | {:.1} s | {:.1} |",
                    counts.join(", "),
                    outcome.reversals_per_hour(),
                    outcome.late_delivered_share() * 100.0,
                    outcome.late_backlog_seconds(),
                    outcome.replica_hours()
                )?;
            }
        }
    }
    text.push_str(
        "\nFrom 3 replicas, with 6000/s arriving for an hour (60 pods' work, at most 50 are allowed) and 1000/s for two \
         more:\n\n| | learned, decided on when time alone may change the answer | formula, every 30 s |\n|---|--:|--:|\n",
    );
    let grown: Vec<Outcome> = models
        .iter()
        .map(|&(_, model)| {
            let load = |t: f64| if t < 3600.0 { 6000.0 } else { 1000.0 };
            told(&stages(SHAPES[0].1, model, 3), model, 10_800, &load)
        })
        .collect();
    let row = |name: &str, value: &dyn Fn(&Outcome) -> String| {
        format!("| {name} | {} |\n", grown.iter().map(value).collect::<Vec<_>>().join(" | "))
    };
    let minutes = |outcome: &Outcome| {
        let reached = outcome.vertices.first().and_then(|vertex| vertex.reached(50));
        reached.map_or("never".to_owned(), |seconds| format!("{:.1}", seconds as f64 / 60.0))
    };
    text.push_str(&row("50 replicas after, minutes", &minutes));
    text.push_str(&row("reversals in three hours", &|outcome| {
        outcome.vertices.iter().map(|vertex| vertex.reversals(0)).sum::<usize>().to_string()
    }));
    Ok(text)
}

fn main() -> Result<(), Box<dyn Error>> {
    let table = table()?;
    let Some(path) = env::args().nth(1) else {
        println!("{table}");
        return Ok(());
    };
    let page = fs::read_to_string(&path)?;
    let (Some(begin), Some(end)) = (page.find(BEGIN), page.find(END)) else {
        return Err(format!("{path} has no {BEGIN} and {END} to write between").into());
    };
    let page = format!("{}{BEGIN}\n\n{table}\n{}", &page[..begin], &page[end..]);
    fs::write(&path, page)?;
    Ok(())
}
