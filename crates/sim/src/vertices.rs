//! A chain of vertices in closed loop: load, pods that take time to start, buffers that fill, and `decide::vertex`.
//!
//! ```text
//! load ──> backlog ──> source ──> buffer ──> map ──> buffer ──> sink
//!                        ^                    ^                  ^
//!                        └── looks every 5 s ─┴── decisions ─────┘
//! ```
//!
//! A fluid model in steps of a tenth of a second. Writers wait while the next buffer is full; what finds the buffer of a first
//! vertex full, which is no source, is refused.

mod outcome;
mod stage;

pub use outcome::{Outcome, Vertex};
pub use stage::Stage;

use decide::vertex::{Buffer, Downstream};
use jiff::Timestamp;
use stage::Running;

use crate::random::{Stream, unit};

/// Pods are asked this often.
const LOOK_SECONDS: u64 = 5;

/// Messages move so often in a second.
const STEPS: u32 = 10;

/// What happens to a chain.
pub struct Story<'a> {
    pub stages: &'a [Stage],
    /// Messages that arrive a second, by time.
    pub load: &'a dyn Fn(f64) -> f64,
    /// The share of its capacity that a pod has, by time.
    pub speed: &'a dyn Fn(f64) -> f64,
    /// Whether the pods of a vertex can be asked, by time.
    pub answers: &'a dyn Fn(f64) -> bool,
    pub seconds: u64,
    /// From a look to the policy.
    pub lag: u64,
    /// How far loads and readings are off, as a share.
    pub noise: f64,
    pub seed: u64,
    /// How often every vertex is decided on.
    pub tick: u64,
    /// Whether it is decided on also when the last decision said that time alone may change it.
    pub follows_next_check: bool,
}

/// Tells the story to its end.
pub fn run(story: &Story<'_>) -> Outcome {
    let mut stages: Vec<Running> = story.stages.iter().map(Running::new).collect();
    let mut outcome = Outcome::new(story);
    for t in 0..story.seconds {
        let time = t as f64;
        if t % LOOK_SECONDS == 0 && (story.answers)(time) {
            look(story, &mut stages, t);
        }
        for idx in 0..stages.len() {
            let due = t % story.tick == 0
                || (story.follows_next_check && stages[idx].next_check.is_some_and(|at| at <= time));
            if due {
                let downstream = downstream(&stages, idx, time, story.lag);
                stages[idx].decide(time, story.lag, downstream);
            }
        }
        let arrived = (story.load)(time).max(0.0) * (1.0 + story.noise * wobble(story.seed, t));
        stages.iter_mut().for_each(Running::next_second);
        let refused = (0..STEPS).map(|_| pass(story, &mut stages, time, arrived / f64::from(STEPS))).sum();
        outcome.step(t, arrived, refused, &stages);
    }
    outcome
}

/// Half of it changes every second, half every minute; from -1 to 1.
fn wobble(seed: u64, t: u64) -> f64 {
    unit(seed, Stream::Noise(0), t) + unit(seed, Stream::Noise(1), t / 60) - 1.0
}

/// Moves messages for a step, from the end of the chain to its beginning; gives what was refused.
fn pass(story: &Story<'_>, stages: &mut [Running], time: f64, arrived: f64) -> f64 {
    let speed = (story.speed)(time);
    let mut room = f64::INFINITY;
    for idx in (0..stages.len()).rev() {
        let moved = stages[idx].work(time, speed / f64::from(STEPS), room);
        if let Some(next) = stages.get_mut(idx + 1) {
            next.backlog += moved;
        }
        room = stages[idx].room();
    }
    let taken = arrived.min(room);
    if let Some(first) = stages.first_mut() {
        first.backlog += taken;
    }
    arrived - taken
}

fn look(story: &Story<'_>, stages: &mut [Running], t: u64) {
    let usage: Vec<f64> = stages.iter().skip(1).map(Running::usage).chain([0.0]).collect();
    for (idx, (stage, usage)) in stages.iter_mut().zip(usage).enumerate() {
        let off = |stream| 1.0 + story.noise * (2.0 * unit(story.seed, Stream::Noise(stream), t) - 1.0);
        stage.look(t as f64, off(10 + 2 * idx), off(11 + 2 * idx), usage);
    }
}

fn downstream(stages: &[Running], idx: usize, time: f64, lag: u64) -> Vec<Downstream> {
    let later = stages.iter().enumerate().skip(idx + 1);
    let buffers = later.map(|(later, stage)| {
        let figures = stage.figures(time, lag);
        Downstream {
            vertex: stage.name().into(),
            direct: later == idx + 1,
            buffers: vec![Buffer {
                pending: figures.map(|figures| figures.pending),
                usable: stage.usable(),
                at: figures.map(|figures| figures.at),
            }],
        }
    });
    buffers.collect()
}

/// `t` seconds after the beginning of 2026.
fn moment(t: f64) -> Timestamp {
    crate::policy::moment(Timestamp::from_second(1_767_225_600).unwrap_or(Timestamp::UNIX_EPOCH), t)
}
