use std::{net::Ipv4Addr, os::unix::fs::MetadataExt, sync::Arc};

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::{
    env::Vars,
    launch::Bind,
    objects::{Data, Key, Kind, Loaded},
};

struct Fixture {
    directory: tempfile::TempDir,
    claims: tempfile::TempDir,
    objects: Snapshot,
}

impl Fixture {
    fn new() -> Self {
        let directory = || tempfile::tempdir().unwrap();
        let mut fixture = Self { directory: directory(), claims: directory(), objects: Snapshot::new() };
        fixture.set(Kind::ConfigMap, "settings", &[("a.txt", "one"), ("b.txt", "two")]);
        fixture.set(Kind::Secret, "login", &[("password", "hunter2")]);
        fixture
    }

    fn set(&mut self, kind: Kind, name: &str, entries: &[(&str, &str)]) {
        let key = Key { kind, namespace: "shop".to_owned(), name: name.to_owned() };
        let data = entries.iter().map(|(k, v)| ((*k).to_owned(), v.as_bytes().to_vec())).collect();
        self.objects.insert(key, Loaded::Present(Arc::new(Data(data))));
    }

    fn prepare(&self, volumes: Value) -> Result<(), String> {
        let facts = Facts {
            pod_ip: Ipv4Addr::new(127, 64, 0, 9),
            host_ip: Ipv4Addr::LOCALHOST,
            allocatable: Default::default(),
        };
        let claims = self.claims.path();
        prepare(self.directory.path(), claims, &pod(volumes), &facts, &self.objects, &Tokens::default())
    }

    /// Path, mode and content of every file, as a reader of the volume sees them.
    fn check(&self, volumes: Value, expected: Expect) {
        if let Err(error) = self.prepare(volumes) {
            return expected.assert_eq(&error.replace(&self.directory.path().display().to_string(), "<dir>"));
        }
        let mut lines = Vec::new();
        visit(self.directory.path(), self.directory.path(), &mut lines);
        lines.sort();
        expected.assert_eq(&lines.join("\n"));
    }
}

fn visit(root: &Path, folder: &Path, lines: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_string_lossy().starts_with("..") {
            continue;
        }
        let metadata = fs::metadata(&path).unwrap();
        if metadata.is_dir() {
            visit(root, &path, lines);
        } else {
            let name = path.strip_prefix(root).unwrap().display();
            lines.push(format!(
                "{name} {:o} {}",
                metadata.mode() & 0o777,
                fs::read_to_string(&path).unwrap()
            ));
        }
    }
}

fn pod(volumes: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": "web-0", "namespace": "shop", "labels": { "app": "web", "quote": "a\"b" } },
        "spec": { "containers": [], "volumes": volumes },
    }))
    .unwrap()
}

#[test]
fn files_of_each_kind() {
    let fixture = Fixture::new();
    fixture.check(
        json!([
            { "name": "all", "configMap": { "name": "settings" } },
            { "name": "some", "configMap": { "name": "settings", "defaultMode": 0o600,
                "items": [{ "key": "a.txt", "path": "deep/er/x" }, { "key": "b.txt", "path": "y", "mode": 0o400 }] } },
            { "name": "mixed", "projected": { "sources": [
                { "secret": { "name": "login" } },
                { "configMap": { "name": "settings", "items": [{ "key": "a.txt", "path": "a" }] } },
                { "downwardAPI": { "items": [{ "path": "labels", "fieldRef": { "fieldPath": "metadata.labels" } }] } },
                { "serviceAccountToken": { "path": "token" } } ] } },
            { "name": "scratch", "emptyDir": {} },
        ]),
        expect![[r#"
            all/a.txt 644 one
            all/b.txt 644 two
            mixed/a 644 one
            mixed/labels 644 app="web"
            quote="a\"b"
            mixed/password 644 hunter2
            some/deep/er/x 600 one
            some/y 400 two"#]],
    );
    assert!(fixture.directory.path().join("scratch").is_dir());
}

#[test]
fn what_cannot_be_mounted_is_named() {
    let fixture = Fixture::new();
    let mut missing = Fixture::new();
    let key = Key { kind: Kind::ConfigMap, namespace: "shop".to_owned(), name: "gone".to_owned() };
    missing.objects.insert(key, Loaded::Absent);
    missing.check(
        json!([{ "name": "v", "configMap": { "name": "gone" } }]),
        expect![[r#"MountVolume.SetUp failed for volume "v" : configmap "gone" not found"#]],
    );
    missing.check(json!([{ "name": "v", "configMap": { "name": "gone", "optional": true } }]), expect![""]);
    fixture.check(
        json!([{ "name": "v", "configMap": { "name": "settings", "items": [{ "key": "c", "path": "c" }] } }]),
        expect![[r#"MountVolume.SetUp failed for volume "v" : references non-existent configmap key: c"#]],
    );
    fixture.check(
        json!([{ "name": "v", "configMap": { "name": "settings", "items": [{ "key": "a.txt", "path": "../x" }] } }]),
        expect![[r#"MountVolume.SetUp failed for volume "v" : "../x" is not a relative path inside the volume"#]],
    );
    fixture.check(
        json!([{ "name": "v", "persistentVolumeClaim": { "claimName": "c" } }]),
        expect![[r#"MountVolume.SetUp failed for volume "v" : persistentvolumeclaim "c" is not loaded yet"#]],
    );
    fixture.check(
        json!([{ "name": "v", "hostPath": { "path": "/dev/null", "type": "Directory" } }]),
        expect![[r#"MountVolume.SetUp failed for volume "v" : hostPath type check failed: /dev/null is not a Directory"#]],
    );
}

#[test]
fn a_claim_is_a_directory_that_stays() {
    let mut fixture = Fixture::new();
    let volumes = json!([{ "name": "v", "persistentVolumeClaim": { "claimName": "data" } }]);
    fixture.set(Kind::Claim, "data", &[]);
    fixture.check(
        volumes.clone(),
        expect![[
            r#"MountVolume.SetUp failed for volume "v" : persistentvolumeclaim "data" is not bound yet"#
        ]],
    );
    fixture.set(Kind::Claim, "data", &[("uid", "u1")]);
    fixture.prepare(volumes.clone()).unwrap();
    fs::write(fixture.directory.path().join("v/kept"), "x").unwrap();
    // the next pod, and this one after a restart of the node
    fixture.prepare(volumes.clone()).unwrap();
    fixture.directory = tempfile::tempdir().unwrap();
    fixture.prepare(volumes).unwrap();
    assert_eq!(fs::read_to_string(fixture.directory.path().join("v/kept")).unwrap(), "x");
    assert_eq!(fs::read_to_string(fixture.claims.path().join("u1/kept")).unwrap(), "x");
}

#[test]
fn an_update_replaces_all_files_at_once() {
    let mut fixture = Fixture::new();
    let volumes = json!([{ "name": "v", "configMap": { "name": "settings" } }]);
    fixture.prepare(volumes.clone()).unwrap();
    let data = fixture.directory.path().join("v/..data");
    let first = fs::read_link(&data).unwrap();
    fixture.prepare(volumes.clone()).unwrap();
    assert_eq!(fs::read_link(&data).unwrap(), first, "nothing is written when nothing changed");

    let open_before = fs::read_dir(data.canonicalize().unwrap()).unwrap().count();
    assert_eq!(open_before, 2);
    fixture.set(Kind::ConfigMap, "settings", &[("b.txt", "zwei"), ("c.txt", "drei")]);
    fixture.check(
        volumes,
        expect![[r#"
            v/b.txt 644 zwei
            v/c.txt 644 drei"#]],
    );
    assert_ne!(fs::read_link(&data).unwrap(), first);
    assert!(!fixture.directory.path().join("v").join(first).exists(), "the old version is gone");
}

#[test]
fn mounts_with_sub_paths() {
    let fixture = Fixture::new();
    let volumes = json!([
        { "name": "settings", "configMap": { "name": "settings" } },
        { "name": "scratch", "emptyDir": {} },
        { "name": "host", "hostPath": { "path": "/etc" } },
    ]);
    fixture.prepare(volumes.clone()).unwrap();
    let check = |mount: Value, expected: Expect| {
        let container = serde_json::from_value(json!({ "name": "c", "volumeMounts": [mount] })).unwrap();
        let vars = Vars::from([("WHO".to_owned(), "me".to_owned())]);
        let text = match resolve(fixture.directory.path(), &pod(volumes.clone()), &container, &vars) {
            Ok(binds) => binds
                .iter()
                .map(|b| format!("{} -> {} ro={}", b.source.display(), b.target.display(), b.read_only))
                .collect::<Vec<_>>()
                .join("\n"),
            Err(error) => error,
        };
        expected.assert_eq(&text.replace(&fixture.directory.path().display().to_string(), "<dir>"));
    };
    check(
        json!({ "name": "settings", "mountPath": "/etc/app" }),
        expect!["<dir>/settings -> /etc/app ro=true"],
    );
    check(
        json!({ "name": "settings", "mountPath": "/etc/a", "subPath": "a.txt" }),
        expect!["<dir>/settings/a.txt -> /etc/a ro=true"],
    );
    check(
        json!({ "name": "scratch", "mountPath": "/data", "subPathExpr": "of/$(WHO)" }),
        expect!["<dir>/scratch/of/me -> /data ro=false"],
    );
    check(json!({ "name": "host", "mountPath": "/h", "readOnly": true }), expect!["/etc -> /h ro=true"]);
    check(
        json!({ "name": "settings", "mountPath": "/x", "subPath": "none" }),
        expect![[r#"subPath "none" is not in volume "settings""#]],
    );
    check(
        json!({ "name": "scratch", "mountPath": "/x", "subPath": "../../etc" }),
        expect![[r#"subPath "../../etc" must stay inside volume "scratch""#]],
    );
    check(
        json!({ "name": "nope", "mountPath": "/x" }),
        expect![[r#"volumeMount names volume "nope", which the pod does not have"#]],
    );
}

#[test]
fn paths_are_rewritten_where_nothing_can_be_mounted() {
    let root = tempfile::tempdir().unwrap();
    let volume = tempfile::tempdir().unwrap();
    fs::write(volume.path().join("f"), "content").unwrap();
    let bind =
        |target: &str| Bind { source: volume.path().to_owned(), target: target.into(), read_only: true };
    let paths = lay_out(root.path(), &[bind("/data"), bind("/etc/app")]).unwrap();
    assert_eq!(fs::read_to_string(root.path().join("etc/app/f")).unwrap(), "content");
    for (text, expected) in [
        ("/data", "<root>/data"),
        ("cat /data/f /etc/app/f", "cat <root>/data/f <root>/etc/app/f"),
        ("--dir=/data,x", "--dir=<root>/data,x"),
        ("/database /my/data /data-2 /data.old", "/database /my/data /data-2 /data.old"),
        ("file:///data", "file:///data"),
        ("ä/data \"/data\"", "ä/data \"<root>/data\""),
    ] {
        let rewritten = paths.rewrite(text).replace(&root.path().display().to_string(), "<root>");
        assert_eq!(rewritten, expected, "{text}");
    }
}
