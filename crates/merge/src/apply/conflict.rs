use std::{collections::BTreeMap, fmt};

use super::{
    fieldpath::Path,
    managed_fields::{Manager, Operation},
};
use crate::go::quoted;

/// A field that an applier wants to have otherwise than its present owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub manager: Manager,
    pub path: Path,
}

/// One entry of `status.details.causes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Always `FieldManagerConflict`.
    pub reason: &'static str,
    pub message: String,
    pub field: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// 409 Conflict, with [`ApplyError::causes`].
    #[error("{}", conflict_message(.0))]
    Conflicts(Vec<Conflict>),
    /// 400 Bad Request.
    #[error("{0}")]
    BadRequest(String),
    /// 500 Internal Server Error: the real server has no better code for a configuration that does not fit the schema.
    #[error("{0}")]
    Internal(String),
}

impl ApplyError {
    pub fn causes(&self) -> Vec<Cause> {
        let Self::Conflicts(conflicts) = self else { return Vec::new() };
        conflicts
            .iter()
            .map(|conflict| Cause {
                reason: "FieldManagerConflict",
                message: format!("conflict with {}", conflict.manager),
                field: conflict.path.to_string(),
            })
            .collect()
    }
}

fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", only.manager, only.path);
    }
    let mut by_manager: BTreeMap<&Manager, Vec<&Path>> = BTreeMap::new();
    for conflict in conflicts {
        by_manager.entry(&conflict.manager).or_default().push(&conflict.path);
    }
    let mut lines = Vec::new();
    for (manager, paths) in by_manager {
        lines.push(format!("conflicts with {manager}:"));
        lines.extend(paths.into_iter().map(|path| format!("- {path}")));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

/// As conflicts name it: `"kubectl-edit" using apps/v1`.
impl fmt::Display for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quoted(&self.name))?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {}", quoted(&self.subresource))?;
        }
        if self.operation == Operation::Update {
            write!(f, " using {}", self.api_version)?;
        }
        Ok(())
    }
}
