//! Who calls, and whether they may.

use std::{net::IpAddr, sync::Arc};

use api::slimfaas::Visibility;
use functions::Snapshot;
use http::{HeaderMap, HeaderValue};
use ipnet::IpNet;

use crate::forward::FORWARDED_FOR;

/// The other side of a connection, and whether it may speak for others.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub ip: IpAddr,
    /// The same as a header says it; made once for a connection.
    pub shown: HeaderValue,
    pub is_proxy: bool,
}

impl Peer {
    pub(crate) fn new(ip: IpAddr, proxies: &[IpNet]) -> Self {
        // An IPv4 address dressed as IPv6 is still that address.
        let ip = ip.to_canonical();
        #[expect(clippy::unwrap_used, reason = "an address is written in visible ASCII")]
        let shown = HeaderValue::try_from(ip.to_string()).unwrap();
        Peer { ip, shown, is_proxy: is_any(ip, proxies) }
    }

    /// The client behind the proxies: the last address that no trusted proxy has vouched for.
    fn client(&self, headers: &HeaderMap, proxies: &[IpNet]) -> IpAddr {
        let mut client = self.ip;
        if !self.is_proxy {
            return client;
        }
        let lines: Vec<_> = headers.get_all(FORWARDED_FOR).iter().collect();
        let addresses = lines.iter().rev().filter_map(|line| line.to_str().ok());
        for address in addresses.flat_map(|line| line.rsplit(',')) {
            let Ok(ip) = address.trim().parse::<IpAddr>() else { return client };
            client = ip.to_canonical();
            if !is_any(client, proxies) {
                break;
            }
        }
        client
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
            Visibility::Private => snapshot().trusted.contains(&self.client(headers, proxies)),
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
            ("1.2.3.4", &["10.1.1.1"][..], "1.2.3.4"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["1.2.3.4"], "1.2.3.4"),
            // only the last address was seen by a proxy of ours: what stands before it is hearsay
            ("10.0.0.1", &["10.9.9.9, 1.2.3.4"], "1.2.3.4"),
            ("10.0.0.1", &["1.2.3.4, 192.168.1.1"], "1.2.3.4"),
            ("10.0.0.1", &["5.6.7.8", "1.2.3.4, 192.168.1.1"], "1.2.3.4"),
            ("10.0.0.1", &["10.0.0.7"], "10.0.0.7"),
            ("10.0.0.1", &["1.2.3.4, nonsense"], "10.0.0.1"),
            ("::ffff:10.0.0.1", &["::ffff:1.2.3.4"], "1.2.3.4"),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(FORWARDED_FOR, line.parse().unwrap());
            }
            let client = Peer::new(peer.parse().unwrap(), &proxies).client(&headers, &proxies);
            assert_eq!(client, expected.parse::<IpAddr>().unwrap(), "{peer} {lines:?}");
        }
    }
}
