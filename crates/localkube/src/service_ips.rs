//! Cluster addresses and node ports of Services. Nothing routes to them here; manifests and tools expect them.

use std::{collections::HashSet, net::Ipv4Addr};

use serde_json::{Value, json};

use crate::{
    error::{ApiError, Result},
    object,
    prepare::Context,
    storage::ReadAt,
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
    let taken = Taken::read(context, object::uid(old.unwrap_or(&Value::Null)));
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
        let mut ports = taken.ports;
        let list = spec.get_mut("ports").and_then(Value::as_array_mut);
        for (index, port) in list.into_iter().flatten().enumerate() {
            let old_port = old.and_then(|old| old["spec"]["ports"][index]["nodePort"].as_u64());
            let given = port["nodePort"].as_u64().filter(|port| *port != 0).or(old_port);
            let chosen = given.or_else(|| NODE_PORTS.into_iter().find(|port| !ports.contains(port)));
            if let Some(chosen) = chosen {
                ports.insert(chosen);
                port["nodePort"] = chosen.into();
            }
        }
    }
    Ok(())
}

struct Taken {
    addresses: HashSet<Ipv4Addr>,
    ports: HashSet<u64>,
}

impl Taken {
    /// By all services but the one with this uid.
    fn read(context: &Context<'_>, uid: &str) -> Self {
        let mut taken = Self { addresses: HashSet::new(), ports: HashSet::new() };
        let store = context.server.store();
        let Ok(listing) = store.list(context.kind.table, "", None, ReadAt::Latest, usize::MAX, |_| true)
        else {
            return taken;
        };
        for record in listing.records {
            let service = record.to_value();
            if !uid.is_empty() && object::uid(&service) == uid {
                continue;
            }
            taken
                .addresses
                .extend(service["spec"]["clusterIP"].as_str().and_then(|text| text.parse::<Ipv4Addr>().ok()));
            let ports = service["spec"]["ports"].as_array();
            taken.ports.extend(ports.into_iter().flatten().filter_map(|port| port["nodePort"].as_u64()));
        }
        taken
    }

    fn free_address(&self) -> Option<Ipv4Addr> {
        use rand::Rng;
        let start = rand::rng().random_range(FIRST + 1..=LAST);
        (start..=LAST).chain(FIRST + 1..start).map(Ipv4Addr::from).find(|one| !self.addresses.contains(one))
    }
}
