//! What a decision is about: a number of replicas, alone or with what each of them requests.

use std::fmt;

use decide::{hvpa, recommender::amount::Resource};
use serde::Serialize;

pub trait Capacity: Clone + PartialEq + fmt::Display + fmt::Debug + Serialize + Send + Sync {
    fn replicas(&self) -> i32;

    fn with_replicas(&self, replicas: i32) -> Self;

    /// Whether some pods get less of anything, or there are fewer of them.
    fn shrinks_to(&self, desired: &Self) -> bool;

    /// The sizes in words; none if there are only replicas.
    fn sizes(&self) -> Option<String>;
}

impl Capacity for i32 {
    fn replicas(&self) -> i32 {
        *self
    }

    fn with_replicas(&self, replicas: i32) -> Self {
        replicas
    }

    fn shrinks_to(&self, desired: &Self) -> bool {
        desired < self
    }

    fn sizes(&self) -> Option<String> {
        None
    }
}

impl Capacity for hvpa::Plan {
    fn replicas(&self) -> i32 {
        self.replicas
    }

    fn with_replicas(&self, replicas: i32) -> Self {
        Self { replicas, ..self.clone() }
    }

    fn shrinks_to(&self, desired: &Self) -> bool {
        let is_smaller = |(before, after): (&hvpa::ContainerSize, &hvpa::ContainerSize)| {
            Resource::ALL.into_iter().any(|one| after.requests.get(one) < before.requests.get(one))
        };
        desired.replicas < self.replicas || self.containers.iter().zip(&desired.containers).any(is_smaller)
    }

    fn sizes(&self) -> Option<String> {
        let size = |container: &hvpa::ContainerSize| format!("{} ({})", container.name, container.requests);
        Some(self.containers.iter().map(size).collect::<Vec<_>>().join(", "))
    }
}
