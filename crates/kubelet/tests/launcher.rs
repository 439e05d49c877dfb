//! The launcher by itself: what it makes of a specification, as root and as a user who may not mount anything.

// Everything here is test code, though clippy only knows the functions marked as tests.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};

const LAUNCHER: &str = env!("CARGO_BIN_EXE_process-node");

/// Runs a launcher to its end; what its command said is in `output`.
fn launch(mut command: Command, spec: &Value) -> Output {
    let mut child = command
        .arg("pod-exec")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(spec.to_string().as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn spec(directory: &Path, argv: &[&str]) -> Value {
    json!({
        "argv": argv, "env": { "PATH": "/usr/bin:/bin", "ONLY": "this" }, "directory": null,
        "streams": { "Log": { "output": directory.join("output"), "input": null } },
        "record": directory.join("record.json"), "cgroup": null,
        "binds": [], "scratch": directory.join("scratch"),
    })
}

/// Open to all: a test as another user has to reach it.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for path in [directory.path(), &directory.path().join("scratch"), &directory.path().join("volume")] {
        fs::create_dir_all(path).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    fs::write(directory.path().join("volume/file"), "content\n").unwrap();
    directory
}

fn volumes_are_where_the_manifest_wants_them(command: impl Fn(&Path) -> Command) {
    let directory = directory();
    let script = "cat /ballast-launcher/file /etc/ballast-launcher/file /var/run/ballast-launcher/deep/er/file; \
                  touch /ballast-launcher/x 2>/dev/null || echo read-only; touch /etc/ballast-launcher/x && echo written; \
                  ls -d /etc/passwd; pwd; env | grep -c .; exit 7";
    let mut spec = spec(directory.path(), &["sh", "-c", script]);
    let bind = |target: &str, read_only: bool| json!({ "source": directory.path().join("volume"), "target": target, "read_only": read_only });
    spec["binds"] = json!([
        bind("/ballast-launcher", true),
        bind("/etc/ballast-launcher", false),
        bind("/var/run/ballast-launcher/deep/er", false),
    ]);
    spec["directory"] = json!("/etc/ballast-launcher");
    let output = launch(command(directory.path()), &spec);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!((output.status.code(), said.as_str()), (Some(7), ""), "exec leaves nothing to report");
    let text = fs::read_to_string(directory.path().join("output")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..7],
        ["content", "content", "content", "read-only", "written", "/etc/passwd", "/etc/ballast-launcher"]
    );
    // PATH and ONLY, and what the shell adds of its own: PWD, and in some shells SHLVL and _.
    assert!(lines[7].parse::<u32>().unwrap() <= 5, "the environment is the specification's: {}", lines[7]);
    assert!(directory.path().join("volume/x").exists(), "writes reach the volume");
    for path in ["/ballast-launcher", "/etc/ballast-launcher", "/var/run/ballast-launcher"] {
        assert!(!Path::new(path).exists(), "{path} exists on the host");
    }
    let record: Value =
        serde_json::from_slice(&fs::read(directory.path().join("record.json")).unwrap()).unwrap();
    assert!(record["pid"].as_i64().is_some_and(|pid| pid > 1));
}

#[test]
fn mounts_as_this_user() {
    volumes_are_where_the_manifest_wants_them(|_| Command::new(LAUNCHER));
}

/// Without privileges it takes a user namespace. Only root can become somebody else to try.
#[test]
fn mounts_as_a_user_without_privileges() {
    if !nix::unistd::geteuid().is_root() {
        return mounts_as_this_user();
    }
    volumes_are_where_the_manifest_wants_them(|directory| {
        // The build directory may be closed to others.
        let copy = directory.join("launcher");
        fs::copy(LAUNCHER, &copy).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(copy);
        command
    });
}

#[test]
fn what_cannot_be_started_is_told() {
    let directory = directory();
    let check = |spec: &Value, expected: &str| {
        let output = launch(Command::new(LAUNCHER), spec);
        assert_eq!(output.status.code(), Some(128));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains(expected), "{said}");
    };
    check(
        &spec(directory.path(), &["no-such-program"]),
        "\"no-such-program\": executable file not found in $PATH",
    );
    check(&spec(directory.path(), &["/no/such/program"]), "\"/no/such/program\": No such file or directory");
    check(&spec(directory.path(), &["/etc/passwd"]), "\"/etc/passwd\": Permission denied");
    check(&spec(directory.path(), &[]), "there is no command");
    check(&json!({ "argv": 5 }), "the launch specification is malformed");
    let mut astray = spec(directory.path(), &["true"]);
    astray["directory"] = json!("/no/such/place");
    check(&astray, "cannot change to the working directory /no/such/place");
    let mut climbing = spec(directory.path(), &["true"]);
    climbing["binds"] = json!([{ "source": "/etc", "target": "/a/../b", "read_only": true }]);
    check(&climbing, "mount path /a/../b must be absolute");
}
