//! Who calls, and whether they may.

use std::{net::IpAddr, sync::Arc};

use api::slimfaas::Visibility;
use http::{HeaderMap, HeaderValue};
use ipnet::IpNet;
use ondemand::Snapshot;

use crate::{admission::Place, forward::FORWARDED_FOR};

/// The other side of a connection, and whether it may speak for others.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub ip: IpAddr,
    /// The same as a header says it; made once for a connection.
    pub shown: HeaderValue,
    pub is_proxy: bool,
    /// Of its connection among those of all clients.
    pub place: Place,
}

impl Peer {
    pub(crate) fn new(ip: IpAddr, proxies: &[IpNet], place: Place) -> Self {
        // An IPv4 address dressed as IPv6 is still that address.
        let ip = ip.to_canonical();
        #[expect(clippy::unwrap_used, reason = "an address is written in visible ASCII")]
        let shown = HeaderValue::try_from(ip.to_string()).unwrap();
        Peer { ip, shown, is_proxy: is_any(ip, proxies), place }
    }

    pub(crate) fn is_proxy(ip: IpAddr, proxies: &[IpNet]) -> bool {
        is_any(ip.to_canonical(), proxies)
    }

    /// The client behind the proxies: the last address that no trusted proxy has vouched for. None if a proxy says who it
    /// was in a way that cannot be read: then it was not the proxy itself, and nobody knows who.
    pub(crate) fn client(&self, headers: &HeaderMap, proxies: &[IpNet]) -> Option<IpAddr> {
        let mut client = self.ip;
        if !self.is_proxy {
            return Some(client);
        }
        let lines: Vec<_> = headers.get_all(FORWARDED_FOR).iter().collect();
        for line in lines.iter().rev() {
            for address in line.to_str().ok()?.rsplit(',') {
                client = address.trim().parse::<IpAddr>().ok()?.to_canonical();
                if !is_any(client, proxies) {
                    return Some(client);
                }
            }
        }
        Some(client)
    }

    /// Whether the caller may use what has this visibility. Private is for pods that are trusted.
    pub(crate) fn may_use(
        &self,
        visibility: Visibility,
        headers: &HeaderMap,
        proxies: &[IpNet],
        snapshot: impl FnOnce() -> Arc<Snapshot>,
    ) -> bool {
        match visibility {
            Visibility::Public => true,
            Visibility::Private => {
                self.client(headers, proxies).is_some_and(|client| snapshot().trusted.contains_key(&client))
            }
        }
    }
}

fn is_any(ip: IpAddr, networks: &[IpNet]) -> bool {
    networks.iter().any(|network| network.contains(&ip))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_behind_proxies() {
        let proxies: Vec<IpNet> = ["10.0.0.0/8".parse().unwrap(), "192.168.1.1/32".parse().unwrap()].to_vec();
        for (peer, lines, expected) in [
            // nobody speaks for others unless trusted
            ("1.2.3.4", &[&b"10.1.1.1"[..]][..], Some("1.2.3.4")),
            ("10.0.0.1", &[], Some("10.0.0.1")),
            ("10.0.0.1", &[b"1.2.3.4"], Some("1.2.3.4")),
            // only the last address was seen by a proxy of ours: what stands before it is hearsay
            ("10.0.0.1", &[b"10.9.9.9, 1.2.3.4"], Some("1.2.3.4")),
            ("10.0.0.1", &[b"1.2.3.4, 192.168.1.1"], Some("1.2.3.4")),
            ("10.0.0.1", &[b"5.6.7.8", b"1.2.3.4, 192.168.1.1"], Some("1.2.3.4")),
            ("10.0.0.1", &[b"10.0.0.7"], Some("10.0.0.7")),
            ("::ffff:10.0.0.1", &[b"::ffff:1.2.3.4"], Some("1.2.3.4")),
            // what cannot be read stands for somebody, and what stands before it was not seen by us
            ("10.0.0.1", &[b"1.2.3.4, nonsense"], None),
            ("10.0.0.1", &[b""], None),
            ("10.0.0.1", &[b"10.9.9.9", b"\xff"], None),
            ("10.0.0.1", &[b"\xff", b"1.2.3.4"], Some("1.2.3.4")),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(FORWARDED_FOR, HeaderValue::from_bytes(line).unwrap());
            }
            let client =
                Peer::new(peer.parse().unwrap(), &proxies, Place::for_test()).client(&headers, &proxies);
            let expected = expected.map(|expected| expected.parse::<IpAddr>().unwrap());
            assert_eq!(client, expected, "{peer} {lines:?}");
        }
    }
}
