//! The Service: port 80 of the Function's name.

use api::kyma::Function;
use engine::object::name;
use serde_json::{Value, json};

use super::{metadata, selector};

pub(in crate::kyma) const PORT: u16 = 8080;

pub(in crate::kyma) fn wanted(function: &Function) -> Value {
    json!({
        "metadata": metadata(function, name(&function.metadata)),
        "spec": {
            "type": "ClusterIP",
            "selector": selector(function),
            "ports": [{ "name": "http", "port": 80, "targetPort": PORT, "protocol": "TCP" }],
        },
    })
}
