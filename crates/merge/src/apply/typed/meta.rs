use std::{collections::BTreeMap, sync::Arc, sync::LazyLock};

use schema::{AdditionalProperties, ListType, MapType, Schema, Type};

/// `metadata`, as far as ownership depends on it, for schemas that do not describe it.
pub(super) fn object_meta() -> &'static Schema {
    static OBJECT_META: LazyLock<Schema> = LazyLock::new(|| {
        let of = |type_| Arc::new(Schema { type_: Some(type_), ..Schema::default() });
        let text_map = || {
            Arc::new(Schema {
                type_: Some(Type::Object),
                additional_properties: Some(AdditionalProperties::Typed(of(Type::String))),
                ..Schema::default()
            })
        };
        let list = |list_type, keys: &[&str], items| {
            Arc::new(Schema {
                type_: Some(Type::Array),
                list_type: Some(list_type),
                list_map_keys: keys.iter().map(|key| (*key).to_owned()).collect(),
                items: Some(items),
                ..Schema::default()
            })
        };
        let owner_reference = Arc::new(Schema {
            type_: Some(Type::Object),
            map_type: Some(MapType::Atomic),
            properties: BTreeMap::from([
                ("apiVersion".into(), of(Type::String)),
                ("kind".into(), of(Type::String)),
                ("name".into(), of(Type::String)),
                ("uid".into(), of(Type::String)),
                ("controller".into(), of(Type::Boolean)),
                ("blockOwnerDeletion".into(), of(Type::Boolean)),
            ]),
            ..Schema::default()
        });
        let mut properties = BTreeMap::from([
            ("labels".into(), text_map()),
            ("annotations".into(), text_map()),
            ("finalizers".into(), list(ListType::Set, &[], of(Type::String))),
            ("ownerReferences".into(), list(ListType::Map, &["uid"], owner_reference)),
            ("managedFields".into(), list(ListType::Atomic, &[], Arc::new(Schema::default()))),
            ("generation".into(), of(Type::Integer)),
            ("deletionGracePeriodSeconds".into(), of(Type::Integer)),
        ]);
        for name in [
            "name",
            "generateName",
            "namespace",
            "selfLink",
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "deletionTimestamp",
        ] {
            properties.insert(name.to_owned(), of(Type::String));
        }
        Schema { type_: Some(Type::Object), properties, ..Schema::default() }
    });
    &OBJECT_META
}
