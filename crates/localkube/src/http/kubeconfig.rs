//! What kubectl needs to find and enter the server.

use std::{fs, io, io::Write, net::SocketAddr, path::Path};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::json;

/// JSON, which is YAML that every client reads.
pub fn render(addr: SocketAddr, ca_pem: &str, token: &str) -> String {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "ballast",
            "cluster": {
                "server": format!("https://{addr}"),
                "certificate-authority-data": BASE64_STANDARD.encode(ca_pem),
            },
        }],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "ballast", "context": {"cluster": "ballast", "user": "admin", "namespace": "default"}}],
        "current-context": "ballast",
    });
    format!("{config:#}\n")
}

/// Readable by the owner only, and never half written.
pub fn write_private(path: &Path, text: &str) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let mut file =
        fs::OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&partial)?;
    file.write_all(text.as_bytes())?;
    drop(file);
    fs::rename(&partial, path)
}
