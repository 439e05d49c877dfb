//! What is wrong with a definition, and where.

/// One finding. The path is the one people see in their manifest: `spec.schema.spec.replicas`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct Error {
    pub path: String,
    pub message: String,
}

/// Beyond this many findings the rest is not worth reading.
const MOST: usize = 50;

/// Text of a manifest that is shown in a message is cut here.
const SHOWN: usize = 200;

/// Findings as they are collected: all of them up to a bound, so that a definition is mended in one go.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    found: Vec<Error>,
}

// === impl Error ===

impl Error {
    pub(crate) fn at(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

// === impl Findings ===

impl Findings {
    pub fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.push(Error::at(path, message));
    }

    pub fn push(&mut self, error: Error) {
        if self.found.len() < MOST {
            self.found.push(error);
        }
    }

    pub fn len(&self) -> usize {
        self.found.len()
    }

    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub fn into_errors(self) -> Vec<Error> {
        self.found
    }

    /// The value, unless something was found.
    pub fn or<T>(self, value: T) -> Result<T, Vec<Error>> {
        if self.found.is_empty() { Ok(value) } else { Err(self.found) }
    }
}

/// A piece of a manifest, short enough for a message.
pub(crate) fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// The path of a field: keys that would not read well with a dot stand in brackets.
pub(crate) fn child(path: &str, key: &str) -> String {
    match () {
        () if key.is_empty() || key.contains(['.', '[', ']', '"']) => format!("{path}[{:?}]", shown(key)),
        () if path.is_empty() => shown(key),
        () => format!("{path}.{}", shown(key)),
    }
}
