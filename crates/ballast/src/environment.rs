//! What of the environment is handed on to others.

use std::collections::BTreeMap;

/// What of it is text: `std::env::vars` would panic at the rest.
pub fn all() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Where programs are, how to get out of the network, whom to believe there. Nothing else is git's business.
pub fn for_git() -> BTreeMap<String, String> {
    const NAMES: [&str; 6] =
        ["PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];
    let mut environment = all();
    environment.retain(|name, _| NAMES.iter().any(|known| name.eq_ignore_ascii_case(known)));
    environment
}
