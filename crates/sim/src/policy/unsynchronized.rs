//! A HorizontalPodAutoscaler and a VerticalPodAutoscaler on one workload, each as if it were alone.

use serde_json::Value;

use super::{Outcome, View, hpa, hvpa, vpa};
use crate::{
    Error,
    scenario::{Metrics, Pods},
};

#[derive(Clone, Debug)]
pub struct Scaler {
    horizontal: hpa::Scaler,
    vertical: hvpa::Scaler,
}

impl Scaler {
    pub fn new(manifest: &Value, pods: &Pods, metrics: &Metrics) -> Result<Scaler, Error> {
        let items = manifest.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let of_kind = |kind: &str| {
            items.iter().position(|item| item.get("kind").and_then(Value::as_str) == Some(kind)).ok_or_else(
                || {
                    Error::field(
                        "items",
                        format!(
                            "expected a HorizontalPodAutoscaler and a VerticalPodAutoscaler, found no {kind}"
                        ),
                    )
                },
            )
        };
        if items.len() != 2 {
            let message = format!(
                "expected a HorizontalPodAutoscaler and a VerticalPodAutoscaler, found {} objects",
                items.len()
            );
            return Err(Error::field("items", message));
        }
        let (h, v) = (of_kind("HorizontalPodAutoscaler")?, of_kind("VerticalPodAutoscaler")?);
        Ok(Scaler {
            horizontal: hpa::Scaler::new(&items[h], metrics)
                .map_err(|error| error.under(&format!("items[{h}]")))?,
            vertical: vpa::scaler(&items[v], pods, metrics)
                .map_err(|error| error.under(&format!("items[{v}]")))?,
        })
    }

    pub fn decide(&mut self, view: &View<'_>) -> Outcome {
        let horizontal = self.horizontal.decide(view);
        let vertical = self.vertical.decide(view);
        let size = vertical.size;
        let resizes = size.is_some_and(|size| size != view.world.size());
        let told = if horizontal.replicas == view.replicas && resizes { &vertical } else { &horizontal };
        let code = told.code;
        let replicas = horizontal.replicas;
        let words =
            if horizontal.replicas == view.replicas && resizes { vertical.words } else { horizontal.words };
        Outcome { replicas, size, code, words }
    }
}
