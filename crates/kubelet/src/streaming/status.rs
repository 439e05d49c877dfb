//! How a command ended, as the `Status` that a client finds at the end of its session.

use std::{os::unix::process::ExitStatusExt, process::ExitStatus};

use serde_json::{Value, json};

pub fn success() -> Value {
    json!({"metadata": {}, "status": "Success"})
}

pub fn of_exit(status: ExitStatus) -> Value {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(255);
    if code == 0 {
        return success();
    }
    json!({
        "metadata": {},
        "status": "Failure",
        "message": format!("command terminated with non-zero exit code: exit status {code}"),
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
    })
}

pub fn failure(why: &str) -> Value {
    json!({
        "metadata": {},
        "status": "Failure",
        "message": format!("Internal error occurred: {why}"),
        "reason": "InternalError",
        "details": {"causes": [{"message": why}]},
        "code": 500,
    })
}
