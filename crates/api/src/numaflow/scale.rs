//! `spec.scale`: bounds and targets, in the form in which they are written. [`super::vertex_policy`] makes of it what `decide` takes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scale {
    /// Whether somebody else sets the count: kubectl, an HPA, KEDA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// 0 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min: Option<i32>,
    /// 50 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max: Option<i32>,
    /// How far back pending messages and rates are averaged: 120 if left out, at most 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub lookback_seconds: Option<i32>,
    /// How long a source stays at 0 replicas before it looks for messages: 120 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub zero_replica_sleep_seconds: Option<i32>,
    /// In which time pending messages are to be worked off: 20 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub target_processing_seconds: Option<i32>,
    /// Percent of the buffer to keep free: 50 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub target_buffer_availability: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub scale_up_cooldown_seconds: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub scale_down_cooldown_seconds: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas_per_scale_up: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas_per_scale_down: Option<i32>,
    /// The older name of both of the above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas_per_scale: Option<i32>,
    /// No longer a setting; old manifests still carry it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub cooldown_seconds: Option<i32>,
    /// Bounds by the clock, for sources and MonoVertices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<CronScale>,
}

#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CronScale {
    /// Such as Europe/Berlin; UTC if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    #[schemars(length(max = 100))]
    pub schedules: Vec<CronWindow>,
}

/// The first window that is open counts.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CronWindow {
    /// Six fields: second, minute, hour, day of the month, month, day of the week.
    #[schemars(length(max = 200))]
    pub start: String,
    #[schemars(length(max = 200))]
    pub end: String,
    #[schemars(range(min = 0))]
    pub min: i32,
    #[schemars(range(min = 0))]
    pub max: i32,
}

impl Scale {
    pub fn is_disabled(&self) -> bool {
        self.disabled.unwrap_or(false)
    }

    /// The bounds that hold outside of windows.
    pub fn base_bounds(&self) -> (i32, i32) {
        let min = self.min.unwrap_or(0).max(0);
        (min, self.max.unwrap_or(50).max(min))
    }
}
