//! Cluster addresses and node ports of Services. Nothing routes to them here; manifests and tools expect them.

use std::{collections::BTreeSet, net::Ipv4Addr};

use serde_json::{Value, json};

use crate::{
    error::{ApiError, Result},
    prepare::Context,
    storage::{Action, ReadAt, Record, Store, TableId, Watcher},
};

/// 10.96.0.0/16; the first address belongs to the `kubernetes` service.
const FIRST: u32 = u32::from_be_bytes([10, 96, 0, 1]);
const LAST: u32 = u32::from_be_bytes([10, 96, 255, 254]);
const NODE_PORTS: std::ops::RangeInclusive<u64> = 30000..=32767;

pub fn assign(new: &mut Value, old: Option<&Value>, context: &Context<'_>) -> Result<()> {
    let kind = new["spec"]["type"].as_str().unwrap_or("ClusterIP").to_owned();
    if kind == "ExternalName" {
        return Ok(());
    }
    let Some(spec) = new["spec"].as_object_mut() else { return Ok(()) };
    if let Some(old) = old {
        for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            let given = spec.get(key).is_some_and(|value| !value.is_null() && value != "");
            if !given && let Some(value) = old["spec"].get(key) {
                spec.insert(key.to_owned(), value.clone());
            }
        }
    }
    let mut taken = context.server.taken_by_services();
    taken.catch_up(context.server.store(), context.kind.table);
    let address = match spec.get("clusterIP").and_then(Value::as_str).unwrap_or_default() {
        "" => taken
            .free_address()
            .ok_or_else(|| ApiError::internal("every cluster address is in use"))?
            .to_string(),
        given => given.to_owned(),
    };
    // A service without addresses and without pods of its own may list any.
    let anything =
        address == "None" && spec.get("selector").and_then(Value::as_object).is_none_or(|one| one.is_empty());
    let (families, policy) = if anything {
        (json!(["IPv4", "IPv6"]), "RequireDualStack")
    } else {
        (json!(["IPv4"]), "SingleStack")
    };
    spec.insert("clusterIPs".to_owned(), json!([address]));
    spec.insert("clusterIP".to_owned(), address.into());
    spec.entry("ipFamilies").or_insert(families);
    spec.entry("ipFamilyPolicy").or_insert_with(|| policy.into());

    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        let mut chosen_here = BTreeSet::new();
        let list = spec.get_mut("ports").and_then(Value::as_array_mut);
        for (index, port) in list.into_iter().flatten().enumerate() {
            let old_port = old.and_then(|old| old["spec"]["ports"][index]["nodePort"].as_u64());
            let given = port["nodePort"].as_u64().filter(|port| *port != 0).or(old_port);
            let is_free = |port: &u64| !chosen_here.contains(port) && !has(&taken.ports, *port);
            let chosen = given.or_else(|| NODE_PORTS.into_iter().find(is_free));
            if let Some(chosen) = chosen {
                chosen_here.insert(chosen);
                port["nodePort"] = chosen.into();
            }
        }
    }
    Ok(())
}

/// What all Services hold. It follows the store's log, so that one more Service costs the same however many there are.
#[derive(Default)]
pub struct Taken {
    /// Each with the key of the Service that holds it: two may have asked for the same.
    addresses: BTreeSet<(Ipv4Addr, Box<str>)>,
    ports: BTreeSet<(u64, Box<str>)>,
    events: Option<Watcher>,
}

impl Taken {
    fn catch_up(&mut self, store: &Store, services: TableId) {
        match self.events.as_mut().map(Watcher::poll_events) {
            Some(Ok((events, _))) => {
                for event in events {
                    if let Some(previous) = &event.previous {
                        self.forget(previous);
                    }
                    if event.action != Action::Deleted {
                        self.note(&event.record);
                    }
                }
            }
            // Never read, or so long ago that the log no longer tells.
            None | Some(Err(_)) => {
                *self = Self::default();
                let everything = store.list(services, "", None, ReadAt::Latest, usize::MAX, |_| true);
                let Ok(listing) = everything else { return };
                listing.records.iter().for_each(|record| self.note(record));
                self.events = Some(store.watch(services, listing.revision));
            }
        }
    }

    fn note(&mut self, record: &Record) {
        let (address, ports) = held_by(record);
        self.addresses.extend(address.map(|address| (address, record.key.clone())));
        self.ports.extend(ports.into_iter().map(|port| (port, record.key.clone())));
    }

    fn forget(&mut self, record: &Record) {
        let (address, ports) = held_by(record);
        if let Some(address) = address {
            self.addresses.remove(&(address, record.key.clone()));
        }
        for port in ports {
            self.ports.remove(&(port, record.key.clone()));
        }
    }

    fn free_address(&self) -> Option<Ipv4Addr> {
        use rand::Rng;
        let start = rand::rng().random_range(FIRST + 1..=LAST);
        (start..=LAST).chain(FIRST + 1..start).map(Ipv4Addr::from).find(|one| !has(&self.addresses, *one))
    }
}

fn has<T: Copy + Ord>(held: &BTreeSet<(T, Box<str>)>, one: T) -> bool {
    held.range((one, Box::default())..).next().is_some_and(|(next, _)| *next == one)
}

fn held_by(service: &Record) -> (Option<Ipv4Addr>, Vec<u64>) {
    let spec = &service.to_value()["spec"];
    let address = spec["clusterIP"].as_str().and_then(|text| text.parse().ok());
    let ports = spec["ports"].as_array();
    (address, ports.into_iter().flatten().filter_map(|port| port["nodePort"].as_u64()).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::storage::{Change, Draft, Storage};

    fn service(name: &str, address: &str, port: u64) -> Draft {
        let spec = json!({"clusterIP": address, "ports": [{"port": 80, "nodePort": port}]});
        Draft::new(name, &json!({"metadata": {"name": name}, "spec": spec}), &[])
    }

    fn shown(taken: &mut Taken, store: &Store, table: TableId) -> String {
        taken.catch_up(store, table);
        let addresses: Vec<String> = taken.addresses.iter().map(|(address, _)| address.to_string()).collect();
        let ports: Vec<String> = taken.ports.iter().map(|(port, _)| port.to_string()).collect();
        format!("{} / {}", addresses.join(" "), ports.join(" "))
    }

    #[tokio::test]
    async fn what_is_held_follows_creations_changes_and_deletions() {
        let (store, _) = Store::open(&Storage::Memory).unwrap();
        let table = store.table("services");
        let mut taken = Taken::default();
        let a = store.commit(table, Change::Create(service("a", "10.96.0.2", 30000))).await.unwrap();
        assert_eq!(shown(&mut taken, &store, table), "10.96.0.2 / 30000");
        // asked for the same address: it stays taken when one of the two goes
        store.commit(table, Change::Create(service("b", "10.96.0.2", 30001))).await.unwrap();
        let a =
            store.commit(table, Change::Replace(service("a", "10.96.0.3", 30002), a.revision)).await.unwrap();
        assert_eq!(shown(&mut taken, &store, table), "10.96.0.2 10.96.0.3 / 30001 30002");
        store.commit(table, Change::Delete { key: "a".into(), revision: a.revision }).await.unwrap();
        // the log is gone before it was read
        store.compact();
        assert_eq!(shown(&mut taken, &store, table), "10.96.0.2 / 30001");
        assert!(has(&taken.ports, 30001) && !has(&taken.ports, 30002));
    }
}
