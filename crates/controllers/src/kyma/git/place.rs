//! Which server a repository is on, and whether it may be asked.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use url::Url;

/// How far Git servers are trusted. Whoever may write a Function chooses the URL, and the controller asks from its own
/// place in the network.
#[derive(Clone, Debug, Default)]
pub struct GitPolicy {
    /// Servers may be on loopback, link-local and private addresses.
    pub private_addresses: bool,
    /// User names and passwords may be sent unencrypted.
    pub credentials_over_http: bool,
    /// All that git sees of the environment: where programs are, which proxies to use.
    pub environment: BTreeMap<String, String>,
}

/// The server of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub scheme: &'static str,
    pub host: String,
    pub port: u16,
    /// With the port if it is not the scheme's own: what credentials are bound to.
    pub origin: String,
}

impl Place {
    /// `https://…`, `http://…`, `git://…`, `ssh://…` or `USER@HOST:PATH`.
    pub fn of(url: &str) -> Result<Self, String> {
        let unknown =
            || format!("{url:?} is no address of a Git server: write https://…, ssh://… or git@HOST:PATH");
        if url.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(unknown());
        }
        if !url.contains("://") {
            // as scp writes it
            let (server, _) = url.split_once(':').ok_or_else(unknown)?;
            let host = server.rsplit_once('@').map_or(server, |(_, host)| host);
            return Self::new("ssh", host, None).ok_or_else(unknown);
        }
        let parsed = Url::parse(url).map_err(|_| unknown())?;
        let scheme = ["https", "http", "git", "ssh"].into_iter().find(|scheme| *scheme == parsed.scheme());
        let host = parsed.host_str().unwrap_or_default();
        scheme.and_then(|scheme| Self::new(scheme, host, parsed.port())).ok_or_else(unknown)
    }

    fn new(scheme: &'static str, host: &str, port: Option<u16>) -> Option<Self> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
        if host.is_empty() || host.starts_with('-') || !host.chars().all(fits) {
            return None;
        }
        let usual = match scheme {
            "https" => 443,
            "http" => 80,
            "git" => 9418,
            _ => 22,
        };
        let shown = port.filter(|port| *port != usual).map_or(String::new(), |port| format!(":{port}"));
        Some(Self {
            scheme,
            host: host.to_owned(),
            port: port.unwrap_or(usual),
            origin: format!("{scheme}://{host}{shown}"),
        })
    }

    pub fn is_http(&self) -> bool {
        matches!(self.scheme, "http" | "https")
    }

    /// The address that may be asked, which git is then told to use: a name could mean another one a moment later.
    pub async fn address(&self, policy: &GitPolicy) -> Result<IpAddr, String> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let found = tokio::net::lookup_host((host, self.port)).await;
        let found: Vec<IpAddr> = found
            .map_err(|error| format!("cannot find {}: {error}", self.host))?
            .map(|addr: SocketAddr| addr.ip())
            .collect();
        let private = found.iter().find(|ip| is_private(**ip));
        match (found.first(), private) {
            (None, _) => Err(format!("cannot find {}", self.host)),
            (_, Some(ip)) if !policy.private_addresses => Err(format!(
                "{} is at {ip}, an address inside the network: allow such Git servers with --git-private-addresses",
                self.host
            )),
            (Some(ip), _) => Ok(*ip),
        }
    }

    /// Whether a user name and a password may be sent to it.
    pub fn check_credentials(&self, address: IpAddr, policy: &GitPolicy) -> Result<(), String> {
        let is_safe = self.scheme == "https" || policy.credentials_over_http || address.is_loopback();
        match is_safe {
            true => Ok(()),
            false => Err(format!(
                "the password would be sent to {} unencrypted: use https, or allow it with --git-credentials-over-http",
                self.origin
            )),
        }
    }

    /// As an argument of `git -c`: a helper that answers for this server only.
    pub fn helper(&self, helper: &str) -> String {
        match self.is_http() {
            true => format!("credential.{}.helper={helper}", self.origin),
            false => "credential.helper=".to_owned(),
        }
    }
}

fn is_private(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => is_private_v4(ip),
        IpAddr::V6(ip) => is_private_v6(ip),
    }
}

fn is_private_v4(ip: Ipv4Addr) -> bool {
    let [first, second, ..] = ip.octets();
    ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_broadcast()
        || first == 0
        // shared by providers and their customers
        || first == 100 && (64..128).contains(&second)
}

fn is_private_v6(ip: Ipv6Addr) -> bool {
    let behind_nat = match ip.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            is_private_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
        }
        _ => false,
    };
    behind_nat
        || ip.is_loopback()
        || ip.is_unspecified()
        || ip.is_multicast()
        || ip.is_unique_local()
        || ip.is_unicast_link_local()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers() {
        for (url, expected) in [
            ("https://git.example/team/it.git", Some("https://git.example")),
            ("https://git.example:8443/it.git", Some("https://git.example:8443")),
            ("http://user:pw@git.example:80/it", Some("http://git.example")),
            ("ssh://git@git.example:2222/it.git", Some("ssh://git.example:2222")),
            ("git@git.example:team/it.git", Some("ssh://git.example")),
            ("git://git.example/it.git", Some("git://git.example")),
            ("https://[::1]:3000/it.git", Some("https://[::1]:3000")),
            ("file:///etc", None),
            ("ext::sh -c id", None),
            ("/etc", None),
            ("-oProxyCommand=id:x", None),
            ("ssh://-oProxyCommand=id/x", None),
            ("https://git.example/a\nb", None),
        ] {
            assert_eq!(Place::of(url).ok().map(|place| place.origin).as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn addresses_inside() {
        for (ip, expected) in [
            ("127.0.0.1", true),
            ("10.1.2.3", true),
            ("169.254.169.254", true),
            ("100.64.0.1", true),
            ("0.0.0.0", true),
            ("::1", true),
            ("fe80::1", true),
            ("fd00::1", true),
            ("::ffff:192.168.0.1", true),
            ("64:ff9b::a00:1", true),
            ("8.8.8.8", false),
            ("100.128.0.1", false),
            ("2606:4700::1111", false),
        ] {
            assert_eq!(is_private(ip.parse().unwrap()), expected, "{ip}");
        }
    }

    #[tokio::test]
    async fn inside_only_if_allowed_and_passwords_only_encrypted() {
        let (strict, open) =
            (GitPolicy::default(), GitPolicy { private_addresses: true, ..GitPolicy::default() });
        let local = Place::of("http://127.0.0.1:3000/it.git").unwrap();
        let refused = local.address(&strict).await.unwrap_err();
        assert!(refused.contains("127.0.0.1, an address inside the network"), "{refused}");
        let address = local.address(&open).await.unwrap();
        assert!(local.check_credentials(address, &open).is_ok(), "it does not leave the machine");
        let plain = Place::of("http://git.example/it.git").unwrap();
        let public: IpAddr = "93.184.216.34".parse().unwrap();
        assert!(plain.check_credentials(public, &open).unwrap_err().contains("unencrypted"));
        assert!(Place::of("https://git.example/it").unwrap().check_credentials(public, &strict).is_ok());
        assert_eq!(plain.helper("x"), "credential.http://git.example.helper=x");
    }
}
