use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Just enough of an encoder to say what is meant.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2, content.len() as u8];
    out.extend_from_slice(content);
    out
}

fn number(field: u8, value: u8) -> Vec<u8> {
    vec![field << 3, value]
}

fn body(api_version: &str, kind: &str, content: &[u8]) -> Vec<u8> {
    let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), field(1, &type_meta), field(2, content)].concat()
}

#[test]
fn objects_come_out_as_json() {
    let meta =
        [field(1, b"n"), field(3, b""), field(8, &[]), field(11, &[field(1, b"k"), field(2, b"v")].concat())]
            .concat();
    let config = [field(1, &meta), field(2, &[field(1, b"key"), field(2, b"value")].concat())].concat();
    assert_eq!(
        decode(&body("v1", "ConfigMap", &config)).unwrap(),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n", "labels": {"k": "v"}}, "data": {"key": "value"}}),
    );

    // A volume's source stands in the volume itself; an empty directory is not nothing.
    let empty_dir = field(2, &field(2, &[]));
    let probe = [
        field(1, &field(2, &field(2, &[number(1, 0), number(2, 80), field(3, b"")].concat()))),
        number(4, 9),
    ]
    .concat();
    let container = [
        field(1, b"c"),
        field(10, &probe),
        field(8, &field(1, &[field(1, b"cpu"), field(2, &field(1, b"100m"))].concat())),
    ]
    .concat();
    let spec = [field(1, &[field(1, b"v"), empty_dir].concat()), field(2, &container)].concat();
    let pod = decode(&body("v1", "Pod", &field(2, &spec))).unwrap();
    assert_eq!(
        pod["spec"],
        json!({
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{
                "name": "c",
                "livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 9},
                "resources": {"limits": {"cpu": "100m"}},
            }],
        }),
    );

    let options =
        decode(&body("v1", "DeleteOptions", &[number(1, 0), field(4, b"Orphan")].concat())).unwrap();
    assert_eq!(
        (&options["gracePeriodSeconds"], &options["propagationPolicy"]),
        (&json!(0), &json!("Orphan"))
    );
}

#[test]
fn what_cannot_be_read_is_refused() {
    assert!(decode(b"{}").unwrap_err().contains("does not appear to be a protobuf message"));
    assert!(decode(&body("example.com/v1", "Boat", &[])).unwrap_err().contains("send JSON"));
    assert!(decode(&body("v1", "Pod", &[2 << 3 | 2, 100])).unwrap_err().contains("cut off"));
}

/// Every field of ours has the number and the name that Kubernetes publishes.
#[test]
fn numbers_are_those_of_kubernetes() {
    let cache = std::env::var_os("GOMODCACHE")
        .map(PathBuf::from)
        .or_else(|| Some(std::env::home_dir()?.join("go/pkg/mod")));
    let modules = cache.unwrap().join("k8s.io");
    let sources = [
        ("core", "api@v0.36.3/core/v1"),
        ("apps", "api@v0.36.3/apps/v1"),
        ("autoscaling1", "api@v0.36.3/autoscaling/v1"),
        ("autoscaling2", "api@v0.36.3/autoscaling/v2"),
        ("batch", "api@v0.36.3/batch/v1"),
        ("networking", "api@v0.36.3/networking/v1"),
        ("scheduling", "api@v0.36.3/scheduling/v1"),
        ("storage", "api@v0.36.3/storage/v1"),
        ("policy", "api@v0.36.3/policy/v1"),
        ("rbac", "api@v0.36.3/rbac/v1"),
        ("coordination", "api@v0.36.3/coordination/v1"),
        ("discovery", "api@v0.36.3/discovery/v1"),
        ("events", "api@v0.36.3/events/v1"),
        ("authentication", "api@v0.36.3/authentication/v1"),
        ("authorization", "api@v0.36.3/authorization/v1"),
        ("meta", "apimachinery@v0.36.3/pkg/apis/meta/v1"),
    ];
    let mut checked = 0;
    for (package, path) in sources {
        let path = modules.join(path).join("generated.proto");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|_| {
            panic!("{} is missing: run `go mod download` in tools/kubernetes", path.display())
        });
        let mut message = None;
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("message ") {
                message = MESSAGES.get(format!("{package}.{}", name.trim_end_matches(" {")).as_str());
            }
            let Some((declared, number)) =
                line.trim().strip_suffix(';').and_then(|line| line.rsplit_once(" = "))
            else {
                continue;
            };
            let (Some(message), Ok(number)) = (message, number.parse::<u32>()) else { continue };
            let name = declared.rsplit(' ').next().unwrap();
            let ours =
                message.get(&number).unwrap_or_else(|| panic!("{package}: {line} is not in messages.txt"));
            assert!(
                ours.name.eq_ignore_ascii_case(name) || ours.name == "-",
                "{package}: {line} is called {} in messages.txt",
                ours.name
            );
            assert_eq!(
                (ours.repeated, ours.map),
                (declared.starts_with("repeated"), declared.starts_with("map")),
                "{line}"
            );
            checked += 1;
        }
    }
    assert_eq!(
        checked,
        MESSAGES.values().map(HashMap::len).sum::<usize>(),
        "every field of messages.txt was found"
    );
}

proptest! {
    #![proptest_config(repeatable::cases(256))]

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
        for kind in ["Pod", "Service", "Node"] {
            let _ = decode(&[MAGIC, &field(1, &[field(1, b"v1"), field(2, kind.as_bytes())].concat()), &field(2, &bytes[..bytes.len().min(100)])].concat());
        }
    }
}
