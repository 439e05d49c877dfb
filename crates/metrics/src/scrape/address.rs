//! Which addresses are never asked, whoever says that a pod is there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{ip} is {what}, which is never scraped")]
pub struct Refused {
    pub ip: IpAddr,
    pub what: &'static str,
}

/// Clouds answer on these with credentials of the machine; those on link-local addresses are refused with them.
const METADATA: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

/// Whether a target may be at this address.
pub fn check_address(ip: IpAddr, loopback: bool) -> Result<(), Refused> {
    // An IPv4 address dressed as IPv6 is still that address.
    let plain = ip.to_canonical();
    let is_link_local = match plain {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    let what = if METADATA.contains(&plain) {
        "a cloud's metadata service"
    } else if is_link_local {
        "link-local (metadata services live there)"
    } else if plain.is_unspecified() || plain.is_multicast() || plain == IpAddr::V4(Ipv4Addr::BROADCAST) {
        "no address of a single pod"
    } else if plain.is_loopback() && !loopback {
        "this machine itself"
    } else {
        return Ok(());
    };
    Err(Refused { ip, what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dangerous_addresses_are_refused() {
        let refused = [
            "169.254.169.254",
            "169.254.0.1",
            "fe80::1",
            "fd00:ec2::254",
            "100.100.100.200",
            "192.0.0.192",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "ff02::1",
            "255.255.255.255",
            "::ffff:169.254.169.254",
        ];
        for ip in refused {
            assert!(check_address(ip.parse().unwrap(), true).is_err(), "{ip}");
        }
        for ip in ["10.0.0.7", "192.168.1.1", "172.16.0.1", "100.64.0.9", "fd00::7", "2001:db8::1", "8.8.8.8"]
        {
            assert_eq!(check_address(ip.parse().unwrap(), false), Ok(()), "{ip}");
        }
        for ip in ["127.0.0.1", "127.3.4.5", "::1", "::ffff:127.0.0.1"] {
            assert!(check_address(ip.parse().unwrap(), false).is_err(), "{ip}");
            assert!(check_address(ip.parse().unwrap(), true).is_ok(), "{ip}");
        }
    }
}
