//! The VerticalPodAutoscalerCheckpoint form (version v3) of a container's history: integer weights relative to the
//! heaviest bucket. Lossy below 1/10000 of it, and readable by any recommender that knows the format.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    histogram::{Buckets, Decaying, Histogram},
    usage::Container,
};

pub const VERSION: &str = "v3";

/// The heaviest bucket is stored as this; 10,000 keeps four digits and fits any integer type.
const MAX_WEIGHT: f64 = 10_000.0;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Checkpoint {
    pub version: String,
    pub cpu_histogram: HistogramCheckpoint,
    pub memory_histogram: HistogramCheckpoint,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_sample_start: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sample_start: Option<Timestamp>,
    pub total_samples_count: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HistogramCheckpoint {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_timestamp: Option<Timestamp>,
    #[serde(default)]
    pub bucket_weights: BTreeMap<u16, u32>,
    #[serde(default)]
    pub total_weight: f64,
}

/// Why a checkpoint cannot be loaded.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    Version { found: String },
    TotalWeight { found: f64 },
    Bucket { found: u16, count: u16 },
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Version { found } => {
                write!(f, "checkpoint version {found:?} is not supported, expected {VERSION:?}")
            }
            Error::TotalWeight { found } => {
                write!(f, "checkpoint total weight is {found}, expected a finite number of 0 or more")
            }
            Error::Bucket { found, count } => {
                write!(
                    f,
                    "checkpoint bucket {found} does not exist, expected 0 to {}",
                    count.saturating_sub(1)
                )
            }
        }
    }
}

impl std::error::Error for Error {}

impl Histogram {
    pub fn save(&self) -> HistogramCheckpoint {
        let max = self.weights.values().copied().fold(0.0, f64::max);
        let bucket_weights = self
            .weights
            .iter()
            .map(|(&bucket, &weight)| (bucket, (weight / max * MAX_WEIGHT).round() as u32))
            .filter(|&(_, weight)| weight > 0)
            .collect();
        HistogramCheckpoint { reference_timestamp: None, bucket_weights, total_weight: self.total }
    }

    pub fn load(buckets: &Buckets, checkpoint: &HistogramCheckpoint) -> Result<Histogram, Error> {
        let total = checkpoint.total_weight;
        if !total.is_finite() || total < 0.0 {
            return Err(Error::TotalWeight { found: total });
        }
        if let Some(&found) = checkpoint.bucket_weights.keys().find(|&&bucket| bucket >= buckets.count()) {
            return Err(Error::Bucket { found, count: buckets.count() });
        }
        let sum: f64 = checkpoint.bucket_weights.values().copied().map(f64::from).sum();
        let ratio = if sum > 0.0 { total / sum } else { 0.0 };
        let weights = checkpoint
            .bucket_weights
            .iter()
            .map(|(&bucket, &weight)| (bucket, f64::from(weight) * ratio))
            .filter(|&(_, weight)| weight > 0.0)
            .collect();
        Ok(Histogram { weights, total })
    }
}

impl Decaying {
    pub fn save(&self) -> HistogramCheckpoint {
        HistogramCheckpoint { reference_timestamp: self.reference, ..self.histogram.save() }
    }

    pub fn load(buckets: &Buckets, checkpoint: &HistogramCheckpoint) -> Result<Decaying, Error> {
        let histogram = Histogram::load(buckets, checkpoint)?;
        Ok(Decaying { histogram, reference: checkpoint.reference_timestamp })
    }
}

impl Container {
    /// The format has no place for the peak of a day that is not over, and the day's next samples will add
    /// it again, so open peaks are taken out first: a restore never counts a day twice.
    pub fn save(&self, options: &super::Options, now: Timestamp) -> Checkpoint {
        let mut closed = self.clone();
        closed.forget_open_peaks(options, now);
        Checkpoint {
            version: VERSION.to_owned(),
            cpu_histogram: closed.cpu.save(),
            memory_histogram: closed.memory.save(),
            first_sample_start: closed.first_sample,
            last_sample_start: closed.last_sample,
            total_samples_count: closed.n_samples,
        }
    }

    pub fn load(checkpoint: &Checkpoint) -> Result<Container, Error> {
        if checkpoint.version != VERSION {
            return Err(Error::Version { found: checkpoint.version.clone() });
        }
        Ok(Container {
            cpu: Decaying::load(&Buckets::cpu(), &checkpoint.cpu_histogram)?,
            memory: Decaying::load(&Buckets::memory(), &checkpoint.memory_histogram)?,
            first_sample: checkpoint.first_sample_start,
            last_sample: checkpoint.last_sample_start,
            n_samples: checkpoint.total_samples_count,
            pods: BTreeMap::new(),
        })
    }
}
