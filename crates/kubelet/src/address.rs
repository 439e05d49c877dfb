//! Each pod's own loopback address.
//!
//! Linux answers on all of 127.0.0.0/8 without any set-up, so a pod's address costs nothing. Addresses come from
//! 127.64.0.0/10 and start at a hash of the pod's uid: a restarted node, or two nodes on one machine that know
//! nothing of each other, arrive at the same answer or at different ones without asking anybody
//! (4 million addresses: two nodes of 100 pods each share one with a chance of about 1 in 400).

use std::{
    collections::HashMap,
    net::Ipv4Addr,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// 127.64.0.0/10.
const BASE: u32 = 0x7f40_0000;
const SIZE: u32 = 1 << 22;

#[derive(Debug, Default)]
pub struct Addresses {
    owners: Mutex<HashMap<Ipv4Addr, String>>,
}

// === impl Addresses ===

impl Addresses {
    /// The pod's address: `wanted` (what it had before) if nobody else holds it, else the first free one from its hash on.
    pub fn claim(&self, uid: &str, wanted: Option<Ipv4Addr>) -> Option<Ipv4Addr> {
        let mut owners = self.owners();
        let offset = fnv1a(uid) % SIZE;
        let by_hash = (0..SIZE).map(|i| Ipv4Addr::from(BASE + (offset + i) % SIZE)).filter(|a| usable(*a));
        let free = wanted
            .filter(|a| (u32::from(*a) & !(SIZE - 1)) == BASE)
            .into_iter()
            .chain(by_hash)
            .find(|a| owners.get(a).is_none_or(|owner| owner == uid))?;
        owners.insert(free, uid.to_owned());
        Some(free)
    }

    pub fn release(&self, uid: &str) {
        self.owners().retain(|_, owner| owner != uid);
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<Ipv4Addr, String>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// People take .0 and .255 for network and broadcast addresses.
fn usable(address: Ipv4Addr) -> bool {
    !matches!(address.octets()[3], 0 | 255)
}

fn fnv1a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_by_uid_and_never_shared() {
        let addresses = Addresses::default();
        let first = addresses.claim("a", None).unwrap();
        assert_eq!(addresses.claim("a", None), Some(first), "asking again changes nothing");
        assert_eq!(Addresses::default().claim("a", None), Some(first), "a restarted node finds the same one");

        let other = addresses.claim("b", Some(first)).unwrap();
        assert_ne!(other, first, "a wish for somebody else's address is not granted");
        addresses.release("a");
        assert_eq!(addresses.claim("c", Some(first)), Some(first), "a released address is free again");
        assert_ne!(addresses.claim("d", Some(Ipv4Addr::LOCALHOST)), Some(Ipv4Addr::LOCALHOST));
    }

    #[test]
    fn all_in_range_and_distinct() {
        let addresses = Addresses::default();
        let all: std::collections::HashSet<_> =
            (0..2000).filter_map(|i| addresses.claim(&format!("pod-{i}"), None)).collect();
        assert_eq!(all.len(), 2000);
        assert!(all.iter().all(|a| a.octets()[0] == 127 && (64..128).contains(&a.octets()[1]) && usable(*a)));
    }
}
