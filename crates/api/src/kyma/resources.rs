//! What each pod asks for and may use.

use std::collections::BTreeMap;

use decide::quantity::Quantity;
use k8s_openapi::{api::core::v1::ResourceRequirements, apimachinery::pkg::api::resource};

use super::Spec;

/// Name, requested CPU and memory, and the limits of both.
const PROFILES: [(&str, [&str; 4]); 5] = [
    ("XS", ["50m", "64Mi", "150m", "256Mi"]),
    ("S", ["100m", "128Mi", "200m", "256Mi"]),
    ("M", ["200m", "256Mi", "400m", "512Mi"]),
    (DEFAULT, ["400m", "512Mi", "800m", "1024Mi"]),
    ("XL", ["800m", "1024Mi", "1600m", "2048Mi"]),
];
const DEFAULT: &str = "L";
/// The least that may be asked for: with less no runtime starts.
pub const LEAST: [(&str, &str); 2] = [("cpu", "10m"), ("memory", "16Mi")];

pub struct Resources {
    /// Of the status; `custom` for resources given in full.
    pub profile: String,
    pub requirements: ResourceRequirements,
}

/// A profile wins over resources, and nothing at all is a profile too.
pub fn of(spec: &Spec) -> Resources {
    let wanted = spec.resource_configuration.as_ref().and_then(|all| all.function.as_ref());
    let profile = wanted.and_then(|wanted| wanted.profile.as_deref());
    match (profile, wanted.and_then(|wanted| wanted.resources.clone())) {
        (None, Some(requirements)) => Resources { profile: "custom".to_owned(), requirements },
        (profile, _) => {
            let name = profile.filter(|name| is_profile(name)).unwrap_or(DEFAULT);
            Resources { profile: name.to_owned(), requirements: requirements_of(name) }
        }
    }
}

pub fn is_profile(name: &str) -> bool {
    PROFILES.iter().any(|(known, _)| *known == name)
}

fn requirements_of(profile: &str) -> ResourceRequirements {
    let [cpu, memory, cpu_limit, memory_limit] =
        PROFILES.iter().find(|(name, _)| *name == profile).map_or(PROFILES[3].1, |(_, amounts)| *amounts);
    let amounts = |cpu: &str, memory: &str| {
        let of = |text: &str| resource::Quantity(text.to_owned());
        Some(BTreeMap::from([("cpu".to_owned(), of(cpu)), ("memory".to_owned(), of(memory))]))
    };
    ResourceRequirements {
        requests: amounts(cpu, memory),
        limits: amounts(cpu_limit, memory_limit),
        ..Default::default()
    }
}

/// # Errors
/// What is wrong with resources given in full: the field below `resources`, and why.
pub fn check(requirements: &ResourceRequirements) -> Result<(), (String, String)> {
    let amount =
        |side: &Option<BTreeMap<String, resource::Quantity>>, name: &str| -> Option<Result<i64, String>> {
            let text = &side.as_ref()?.get(name)?.0;
            Some(text.parse::<Quantity>().map(|quantity| quantity.0).map_err(|_| text.clone()))
        };
    for (name, least) in LEAST {
        let least_amount = least.parse::<Quantity>().map_or(0, |quantity| quantity.0);
        let mut found = Vec::new();
        for (field, side) in [("requests", &requirements.requests), ("limits", &requirements.limits)] {
            match amount(side, name) {
                None => {}
                Some(Err(text)) => {
                    return Err((format!("{field}.{name}"), format!("{text:?} is not a quantity")));
                }
                Some(Ok(value)) if value < least_amount => {
                    return Err((format!("{field}.{name}"), format!("must be at least {least}")));
                }
                Some(Ok(value)) => found.push((field, value)),
            }
        }
        if let [("requests", request), ("limits", limit)] = found[..]
            && limit < request
        {
            return Err((format!("limits.{name}"), format!("must not be below requests.{name}")));
        }
    }
    Ok(())
}
