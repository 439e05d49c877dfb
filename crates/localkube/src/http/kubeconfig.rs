//! What kubectl needs to find and enter the server.

use std::net::SocketAddr;

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
