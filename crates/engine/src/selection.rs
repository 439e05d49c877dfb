//! Which objects of a kind a cache holds.

use std::fmt;

/// Everything by default. Part of a cache's identity: who asks for another selection gets another cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Selection {
    /// All namespaces without it.
    pub namespace: Option<String>,
    /// A label selector as the API takes it; empty for all.
    pub labels: String,
}

impl Selection {
    pub fn all() -> Self {
        Self::default()
    }

    pub fn namespace(namespace: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), ..Self::default() }
    }

    pub fn labelled((key, value): (&str, &str)) -> Self {
        Self { labels: format!("{key}={value}"), ..Self::default() }
    }

    #[must_use]
    pub fn and_label(self, (key, value): (&str, &str)) -> Self {
        Self { labels: format!("{key}={value}"), ..self }
    }

    /// The wider one that holds all of these objects too, and can be narrowed to a namespace at no cost.
    pub(crate) fn in_all_namespaces(&self) -> Self {
        Self { namespace: None, labels: self.labels.clone() }
    }

    pub(crate) fn reaches(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_none_or(|own| own == namespace)
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "in {namespace}")?,
            None => f.write_str("in all namespaces")?,
        }
        if !self.labels.is_empty() {
            write!(f, " with {}", self.labels)?;
        }
        Ok(())
    }
}
