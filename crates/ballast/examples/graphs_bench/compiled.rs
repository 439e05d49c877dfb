//! How long it takes to compile a definition.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};

use crate::objects::definition;

const ROUNDS: usize = 101;

/// Of so many resources, once the processor has seen it.
pub fn median(n_resources: usize) -> Result<Duration> {
    let definition = serde_json::from_value(definition("Large", n_resources, None))?;
    let (kinds, options) = (graph::Kinds::default(), graph::Options::default());
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let compiled = graph::compile(black_box(&definition), &kinds, &options);
        black_box(compiled.map_err(|errors| anyhow!("the definition is refused: {errors:?}"))?);
        times.push(begun.elapsed());
    }
    times.sort();
    Ok(times[ROUNDS / 2])
}
