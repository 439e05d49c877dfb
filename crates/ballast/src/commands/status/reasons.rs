//! Why vertices have as many pods as they have.

use std::collections::HashMap;

use scaling::{Object, Record};

use crate::{operator::OperatorPort, running::Running, scaled::Scaled};

/// Those whose objects do not say it themselves, as a Set does.
pub const KINDS: [&str; 2] = ["Vertex", "MonoVertex"];

/// None if they cannot be had: what is wrong is among the report's troubles.
pub async fn last_decisions(running: &Running) -> Vec<Record> {
    let port = OperatorPort::new(&running.operator, None);
    let mut all = Vec::new();
    for kind in KINDS {
        all.extend(port.decisions(&[("kind", kind), ("each", "1")]).await.unwrap_or_default());
    }
    all
}

pub fn explain(scaled: &mut [Scaled], decisions: &[Record]) {
    let known: HashMap<&Object, &Record> = decisions.iter().map(|record| (&record.object, record)).collect();
    for one in scaled {
        let Scaled { kind, namespace, name, .. } = &one;
        let object = Object { kind: kind.clone(), namespace: namespace.clone(), name: name.clone() };
        one.reason = known.get(&object).map(|record| format!("{}: {}", record.reason, record.why));
    }
}

#[cfg(test)]
mod tests {
    use engine::{effect::Target, kind::Kind};
    use expect_test::expect;
    use scaling::Outcome;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_vertex_is_shown_with_the_reason_of_its_last_decision() {
        let kind = Kind::namespaced("numaflow.numaproj.io", "v1alpha1", "Vertex", "vertices");
        let vertex = |name: &str| {
            let object = json!({
                "metadata": {"name": name, "namespace": "shop"},
                "spec": {"replicas": 3}, "status": {"readyReplicas": 2},
            });
            let meta = serde_json::from_value(object["metadata"].clone()).expect("test data");
            Scaled::read(&kind, &meta, &object)
        };
        let mut scaled = [vertex("orders-map"), vertex("orders-out")];
        let at = "2026-03-02T12:00:00Z".parse().expect("test data");
        let decision = scaling::fixed(1, 3, "somebody");
        let target = Target::absent(&kind, Some("shop"), "orders-map");
        let record = Record::new(at, "vertex", &target, &decision, Outcome::Written);
        explain(&mut scaled, &[record]);
        expect![[r#"
            Vertex       shop/orders-map: 2 of 3 ready  FixedCount: somebody fixes the count to 3
            Vertex       shop/orders-out: 2 of 3 ready"#]]
        .assert_eq(&scaled.map(|one| one.line()).join("\n"));
    }
}
