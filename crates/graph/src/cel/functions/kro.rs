//! What kro adds to the language.

use std::sync::Arc;

use kube_cel::cel::{
    Value as Cel,
    objects::{Key, Map},
};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{md5, no_overload};
use crate::cel::{
    Budget, Failure,
    value::{Omit, from_json, list, map, string, to_json},
};

/// The longest text `random.seededString` makes.
const LONGEST_RANDOM: i64 = 10_000;

/// `None` if the function is not one of these.
pub(super) fn call(name: &str, args: &[Cel], budget: &Budget) -> Option<Result<Cel, Failure>> {
    Some(match (name, args) {
        ("random.seededString", [Cel::Int(length), Cel::String(seed)]) => {
            seeded_string(*length, seed, budget)
        }
        ("random.seededInt", [Cel::Int(least), Cel::Int(most), Cel::String(seed)]) => {
            seeded_int(*least, *most, seed)
        }
        ("merge", [Cel::Map(left), Cel::Map(right)]) => merge(left, right, budget),
        ("deepMerge", [Cel::Map(left), Cel::Map(right)]) => deep_merge(left, right, budget),
        ("json.marshal", [of]) => to_json(of, budget).and_then(|value| {
            let text = value.unwrap_or_default().to_string();
            budget.charge_bytes(text.len()).map(|()| string(text))
        }),
        ("json.unmarshal", [Cel::String(text)]) => budget.charge_bytes(text.len() * 10).and_then(|()| {
            let parsed: Result<Value, _> = serde_json::from_str(text);
            parsed
                .map(|value| from_json(&value, None))
                .map_err(|why| Failure::error(format!("json.unmarshal: {why}")))
        }),
        ("hash.fnv64a", [Cel::String(text)]) => {
            hash(text, budget, |text| fnv64a(text).to_be_bytes().to_vec())
        }
        ("hash.sha256", [Cel::String(text)]) => hash(text, budget, |text| Sha256::digest(text).to_vec()),
        ("hash.md5", [Cel::String(text)]) => hash(text, budget, |text| md5::digest(text).to_vec()),
        ("lists.range", [Cel::Int(count)]) => range(*count, budget),
        ("lists.setAtIndex", [Cel::List(items), Cel::Int(at), item]) => {
            edit(items, *at, items.len(), budget, |items, at| items[at] = item.clone())
        }
        ("lists.insertAtIndex", [Cel::List(items), Cel::Int(at), item]) => {
            edit(items, *at, items.len() + 1, budget, |items, at| items.insert(at, item.clone()))
        }
        ("lists.removeAtIndex", [Cel::List(items), Cel::Int(at)]) => {
            edit(items, *at, items.len(), budget, |items, at| {
                items.remove(at);
            })
        }
        ("omit", []) => Ok(Cel::Opaque(Arc::new(Omit))),
        ("runtime.newCondition", [of @ Cel::Map(_)]) => Ok(of.clone()),
        ("runtime.condition", [Cel::Map(object), Cel::String(wanted)]) => condition(object, wanted, budget),
        ("labelSelector", [Cel::Map(selector)]) => label_selector(selector, budget),
        (
            "random.seededString"
            | "random.seededInt"
            | "merge"
            | "deepMerge"
            | "json.unmarshal"
            | "hash.fnv64a"
            | "hash.sha256"
            | "hash.md5"
            | "lists.range"
            | "lists.setAtIndex"
            | "lists.insertAtIndex"
            | "lists.removeAtIndex"
            | "runtime.newCondition"
            | "runtime.condition"
            | "labelSelector",
            _,
        ) => Err(no_overload(name, args)),
        _ => return None,
    })
}

/// As kro does it, with its flaw: the text repeats after eight characters.
fn seeded_string(length: i64, seed: &str, budget: &Budget) -> Result<Cel, Failure> {
    const ALPHABET: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    if !(1..=LONGEST_RANDOM).contains(&length) {
        return Err(Failure::error(format!(
            "random.seededString: the length must be from 1 to {LONGEST_RANDOM}"
        )));
    }
    budget.charge_bytes(length as usize + seed.len())?;
    let hash = Sha256::digest(seed);
    let text = (0..length as usize).map(|index| {
        let start = 4 * index % 32;
        let word = hash[start..start + 4].iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
        char::from(ALPHABET[word as usize % ALPHABET.len()])
    });
    Ok(string(text.collect::<String>()))
}

fn seeded_int(least: i64, most: i64, seed: &str) -> Result<Cel, Failure> {
    if least >= most {
        return Err(Failure::error("random.seededInt: min must be below max"));
    }
    let hash = Sha256::digest(seed);
    let word = hash[..8].iter().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
    let span = most.wrapping_sub(least) as u64;
    Ok(Cel::Int(least.wrapping_add((word % span) as i64)))
}

fn merge(left: &Map, right: &Map, budget: &Budget) -> Result<Cel, Failure> {
    budget.charge((left.map.len() + right.map.len()) as u64)?;
    let mut merged = (*left.map).clone();
    merged.extend(right.map.iter().map(|(key, value)| (key.clone(), value.clone())));
    Ok(map(merged))
}

fn deep_merge(left: &Map, right: &Map, budget: &Budget) -> Result<Cel, Failure> {
    budget.charge((left.map.len() + right.map.len()) as u64)?;
    let mut merged = (*left.map).clone();
    for (key, value) in right.map.iter() {
        let both = match (merged.get(key), value) {
            (Some(Cel::Map(left)), Cel::Map(right)) => deep_merge(left, right, budget)?,
            _ => value.clone(),
        };
        merged.insert(key.clone(), both);
    }
    Ok(map(merged))
}

fn hash(text: &str, budget: &Budget, digest: impl FnOnce(&[u8]) -> Vec<u8>) -> Result<Cel, Failure> {
    budget.charge_bytes(text.len())?;
    Ok(Cel::Bytes(Arc::new(digest(text.as_bytes()))))
}

fn fnv64a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn range(count: i64, budget: &Budget) -> Result<Cel, Failure> {
    let Ok(length) = u64::try_from(count) else {
        return Err(Failure::error("lists.range: the number must not be negative"));
    };
    budget.charge(length)?;
    Ok(list((0..count).map(Cel::Int).collect()))
}

fn edit(
    items: &[Cel],
    at: i64,
    end: usize,
    budget: &Budget,
    change: impl FnOnce(&mut Vec<Cel>, usize),
) -> Result<Cel, Failure> {
    budget.charge(items.len() as u64)?;
    let position = usize::try_from(at).ok().filter(|at| *at < end);
    let Some(position) = position else {
        return Err(Failure::Pending(format!("element {at} of a list of {}", items.len())));
    };
    let mut items = items.to_vec();
    change(&mut items, position);
    Ok(list(items))
}

/// The condition of this type, or an empty map.
fn condition(object: &Map, wanted: &Arc<String>, budget: &Budget) -> Result<Cel, Failure> {
    let field = |map: &Map, name: &str| map.get(&Key::String(Arc::new(name.to_owned()))).cloned();
    let conditions = match field(object, "status") {
        Some(Cel::Map(status)) => field(&status, "conditions"),
        _ => None,
    };
    if let Some(Cel::List(conditions)) = conditions {
        for condition in conditions.iter() {
            budget.charge(1)?;
            if let Cel::Map(fields) = condition
                && field(fields, "type") == Some(Cel::String(wanted.clone()))
            {
                return Ok(condition.clone());
            }
        }
    }
    Err(Failure::Pending(format!("the condition {wanted}")))
}

/// `{matchLabels: {a: b}, matchExpressions: […]}` as `a=b,…`, sorted: what the scale subresource wants.
fn label_selector(selector: &Map, budget: &Budget) -> Result<Cel, Failure> {
    budget.charge_walk(&Cel::Map(selector.clone()))?;
    let Some(value) = to_json(&Cel::Map(selector.clone()), budget)? else { return Ok(string("")) };
    crate::selector::to_text(&value).map(string).map_err(Failure::Error)
}
