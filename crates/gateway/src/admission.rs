//! Which connections are served: so many in all, so many of one address, and beyond that a few that learn no more than
//! that the gateway lives.

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

/// Connections beyond the bounds that are heard out. One more, and the oldest of them is hung up on: whoever asks at once
/// is answered, however many hold theirs and ask nothing.
const RESERVE: usize = 64;

#[derive(Clone)]
pub(crate) struct Admission(Arc<Inner>);

struct Inner {
    connections: usize,
    per_address: usize,
    metrics: Metrics,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
    /// The oldest first; some of them may have ended.
    reserve: VecDeque<CancellationToken>,
}

pub(crate) enum Admitted {
    Served(Place),
    /// For as long as the token says, and only to be told how the gateway does.
    HeardOut(CancellationToken),
}

/// A connection that is served, until the last clone is dropped: a WebSocket outlives the HTTP connection it began as.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    _taken: Arc<dyn Send + Sync + std::fmt::Debug>,
}

struct TakenPlace {
    admission: Admission,
    /// None for proxies: many clients come by one address.
    address: Option<IpAddr>,
    _counted: Box<dyn Send + Sync>,
}

impl Admission {
    pub(crate) fn new(connections: usize, per_address: usize, metrics: Metrics) -> Self {
        Admission(Arc::new(Inner { connections, per_address, metrics, taken: Mutex::default() }))
    }

    /// `is_proxy`: whether many clients come by this address.
    pub(crate) fn admit(&self, address: IpAddr, is_proxy: bool) -> Admitted {
        let address = Some(address.to_canonical()).filter(|_| !is_proxy);
        let mut taken = self.taken();
        let of_address = address.and_then(|address| taken.by_address.get(&address)).copied().unwrap_or(0);
        if taken.all >= self.0.connections || of_address >= self.0.per_address {
            self.0.metrics.refuse_connection();
            let token = CancellationToken::new();
            taken.reserve.retain(|token| !token.is_cancelled());
            if taken.reserve.len() >= RESERVE
                && let Some(oldest) = taken.reserve.pop_front()
            {
                oldest.cancel();
            }
            taken.reserve.push_back(token.clone());
            return Admitted::HeardOut(token);
        }
        taken.all += 1;
        if let Some(address) = address {
            *taken.by_address.entry(address).or_default() += 1;
        }
        drop(taken);
        let counted = Box::new(self.0.metrics.connection());
        let place = TakenPlace { admission: self.clone(), address, _counted: counted };
        Admitted::Served(Place { _taken: Arc::new(place) })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TakenPlace {
    fn drop(&mut self) {
        let mut taken = self.admission.taken();
        taken.all -= 1;
        let Some(address) = self.address else { return };
        if let Some(count) = taken.by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                taken.by_address.remove(&address);
            }
        }
    }
}

impl std::fmt::Debug for TakenPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TakenPlace").field(&self.address).finish()
    }
}

impl Place {
    #[cfg(test)]
    pub(crate) fn for_test() -> Self {
        Place { _taken: Arc::new(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(admission: &Admission, address: &str) -> Option<Place> {
        match admission.admit(address.parse().unwrap(), address.starts_with("10.")) {
            Admitted::Served(place) => Some(place),
            Admitted::HeardOut(_) => None,
        }
    }

    #[test]
    fn in_all_and_by_address() {
        let admission = Admission::new(5, 2, Metrics::default());
        let first = served(&admission, "1.1.1.1").unwrap();
        let again = first.clone();
        let _second = served(&admission, "::ffff:1.1.1.1").unwrap();
        assert!(served(&admission, "1.1.1.1").is_none(), "one address has its own bound");
        let _others: Vec<_> = (0..3).map(|_| served(&admission, "10.0.0.1").unwrap()).collect();
        assert!(served(&admission, "2.2.2.2").is_none(), "five are all");
        drop(first);
        assert!(
            served(&admission, "2.2.2.2").is_none(),
            "what goes on under another protocol is still there"
        );
        drop(again);
        assert!(served(&admission, "2.2.2.2").is_some());
        assert_eq!(admission.taken().by_address.len(), 1, "who is gone is forgotten");
    }

    #[test]
    fn the_oldest_of_the_reserve_makes_room() {
        let admission = Admission::new(0, 9, Metrics::default());
        let heard = |_| match admission.admit("1.1.1.1".parse().unwrap(), false) {
            Admitted::HeardOut(token) => token,
            Admitted::Served(_) => panic!("there is no room"),
        };
        let tokens: Vec<_> = (0..RESERVE + 2).map(heard).collect();
        let cancelled: Vec<_> = tokens.iter().map(CancellationToken::is_cancelled).collect();
        assert_eq!(cancelled.iter().filter(|is| **is).count(), 2);
        assert!(cancelled[0] && cancelled[1]);
    }
}
