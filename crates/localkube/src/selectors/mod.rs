//! Which objects a list, a watch or a deletion of many is about.

mod field;
mod label;

pub use field::FieldSelector;
pub use label::{LabelSelector, structured_to_text};

use crate::{
    error::{ApiError, Result},
    registry::Kind,
    storage::Record,
};

#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub labels: LabelSelector,
    pub fields: FieldSelector,
}

// === impl Filter ===

impl Filter {
    pub fn parse(kind: &Kind, labels: &str, fields: &str) -> Result<Self> {
        let labels =
            LabelSelector::parse(labels).map_err(|error| ApiError::bad_request(error.to_string()))?;
        let fields = FieldSelector::parse(fields, kind).map_err(ApiError::bad_request)?;
        Ok(Self { labels, fields })
    }

    /// Only the object of that name.
    pub fn only(mut self, name: &str) -> Self {
        self.fields.require_name(name);
        self
    }

    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub fn matches(&self, record: &Record) -> bool {
        self.labels.matches(&record.labels) && self.fields.matches(record)
    }
}

#[cfg(test)]
mod tests;
