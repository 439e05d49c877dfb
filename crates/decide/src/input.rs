//! Reading a policy's input, and refusing it in words that say where and what.

mod unique;
mod words;

use std::{borrow::Cow, collections::HashSet, fmt};

use jiff::Timestamp;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error},
};

/// An input that cannot be decided on: which field, and what was expected there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError {
    /// Such as `spec.metrics[0].resource.target`; empty for the input as a whole.
    pub path: String,
    pub message: String,
}

/// Longer paths and messages are cut off: both may quote what came from outside.
const LONGEST_PATH: usize = 200;
const LONGEST_MESSAGE: usize = 500;

impl InputError {
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        InputError { path: cut(&path.into(), LONGEST_PATH), message: cut(&message.into(), LONGEST_MESSAGE) }
    }

    /// Puts the path under a parent: `resource` becomes `spec.metrics[0].resource`.
    pub fn under(mut self, parent: impl fmt::Display) -> Self {
        self.path = match self.path.as_str() {
            "" => parent.to_string(),
            path if path.starts_with('[') => format!("{parent}{path}"),
            path => format!("{parent}.{path}"),
        };
        self
    }
}

/// Reads one JSON document.
///
/// # Errors
/// If it is not JSON, a key comes twice, or a field is missing, unknown or of the wrong kind.
pub fn parse<T: DeserializeOwned>(json: &str) -> Result<T, InputError> {
    let value = read(json)?;
    // After the first reading, whose complaints tell more.
    read::<unique::Unique>(json)?;
    Ok(value)
}

fn read<T: DeserializeOwned>(json: &str) -> Result<T, InputError> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = match error.path().to_string() {
            root if root == "." => String::new(),
            path => path,
        };
        InputError::new(path, words::reworded(&error.inner().to_string()))
    })?;
    deserializer.end().map_err(|error| InputError::new("", words::reworded(&error.to_string())))?;
    Ok(value)
}

/// The text, no longer than `longest` characters.
fn cut(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Refuses a name that comes twice among `names`; `path` says where the one at an index stands.
pub(crate) fn check_unique<'a>(
    names: impl IntoIterator<Item = &'a str>,
    path: impl Fn(usize) -> String,
) -> Result<(), InputError> {
    let mut seen = HashSet::new();
    for (idx, name) in names.into_iter().enumerate() {
        if !seen.insert(name) {
            return Err(InputError::new(path(idx), format!("{} comes twice; name each once", shown(name))));
        }
    }
    Ok(())
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

impl std::error::Error for InputError {}

/// A text from outside, quoted, and no longer than a message can bear.
pub fn shown(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Refuses values outside `range`, naming the field.
pub(crate) fn check_range<T: PartialOrd + fmt::Display>(
    path: &str,
    value: T,
    range: std::ops::RangeInclusive<T>,
) -> Result<(), InputError> {
    match range.contains(&value) {
        true => Ok(()),
        false => {
            let (low, high) = (range.start(), range.end());
            Err(InputError::new(path, format!("expected a number from {low} to {high}, found {value}")))
        }
    }
}

/// For fields where an explicit `null` means the same as leaving them out.
pub(crate) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A moment, refused in words that show what one looks like.
pub(crate) fn moment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let text = <Cow<'_, str>>::deserialize(deserializer)?;
    text.parse().map_err(|_| {
        D::Error::custom(format!("expected a time such as 2026-03-01T12:00:00Z, found {text:?}"))
    })
}

/// A moment or null.
pub(crate) fn maybe_moment<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Timestamp>, D::Error> {
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Moment(#[serde(deserialize_with = "moment")] Timestamp);
    Ok(Option::deserialize(deserializer)?.map(|Moment(at)| at))
}
