//! Where in an object something is, written the way the API writes it.

use std::fmt;

/// A path that lives on the stack: walking an object allocates nothing until a fault has to be named.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Root,
    Child(&'a str),
    Index(usize),
    Key(&'a str),
}

// === impl Path ===

impl<'a> Path<'a> {
    pub const ROOT: Path<'static> = Path { parent: None, step: Step::Root };

    /// A field: `spec.replicas`.
    pub fn child(&'a self, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Child(name) }
    }

    /// An element of a list: `containers[0]`.
    pub fn index(&'a self, index: usize) -> Path<'a> {
        Path { parent: Some(self), step: Step::Index(index) }
    }

    /// An entry of a map: `data[key]`.
    pub fn key(&'a self, key: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Key(key) }
    }

    pub fn is_root(&self) -> bool {
        matches!(self.step, Step::Root)
    }

    /// The path without the placeholder that stands for "the whole object".
    pub fn relative(&self) -> String {
        if self.is_root() { String::new() } else { self.to_string() }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.step, self.parent) {
            // what the API prints for a fault of the object as a whole
            (Step::Root, _) => f.write_str("<nil>"),
            (step, parent) => {
                let parent = parent.filter(|parent| !parent.is_root());
                if let Some(parent) = parent {
                    parent.fmt(f)?;
                }
                match step {
                    Step::Child(name) if parent.is_some() => write!(f, ".{name}"),
                    Step::Child(name) => f.write_str(name),
                    Step::Index(index) => write!(f, "[{index}]"),
                    Step::Key(key) => write!(f, "[{key}]"),
                    Step::Root => Ok(()),
                }
            }
        }
    }
}

impl From<Path<'_>> for String {
    fn from(path: Path<'_>) -> String {
        path.to_string()
    }
}

impl From<&Path<'_>> for String {
    fn from(path: &Path<'_>) -> String {
        path.to_string()
    }
}
