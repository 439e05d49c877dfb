use expect_test::expect;
use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::*;

fn crd() -> Value {
    json!(Hvpa::crd())
}

fn spec_schema() -> Value {
    crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
}

/// A whole spec; `over` replaces fields by their path.
fn spec(over: &[(&str, Value)]) -> Value {
    let mut spec = json!({
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "ratioBasedScalingSpec": {"vToHScalingRatio": 1.0},
        "hpa": {
            "template": {"spec": {"minReplicas": 1, "maxReplicas": 10, "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}},
            ]}},
            "scaleUp": {}, "scaleDown": {"stabilizationDuration": "5m"},
        },
        "vpa": {
            "scaleUp": {"minChange": {"cpu": {"value": "100m", "percentage": 20}}},
            "template": {"spec": {"resourcePolicy": {"containerPolicies": [
                {"containerName": "*", "minAllowed": {"cpu": "250m"}, "maxAllowed": {"cpu": 4}},
            ]}}},
        },
    });
    for (path, value) in over {
        let (parent, field) = path.rsplit_once('/').unwrap();
        let parent = spec.pointer_mut(parent).unwrap_or_else(|| panic!("{path}"));
        match value {
            Value::Null => {
                parent.as_object_mut().unwrap().remove(field);
            }
            value => parent[field] = value.clone(),
        }
    }
    spec
}

fn resolved(over: &[(&str, Value)]) -> Result<Resolved, String> {
    let spec: Spec = serde_json::from_value(spec(over)).map_err(|error| error.to_string())?;
    spec.resolve().map_err(|error| error.to_string())
}

#[test]
fn the_kind_is_known_by_its_names() {
    let crd = crd();
    assert_eq!(crd["metadata"]["name"], "hvpas.autoscaling.k8s.io");
    let approved = crd["metadata"]["annotations"]["api-approved.kubernetes.io"].as_str().unwrap();
    assert!(approved.starts_with("unapproved"), "{approved}");
    let version = &crd["spec"]["versions"][0];
    assert_eq!(
        version["subresources"],
        json!({"status": {}, "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.targetSelector",
        }})
    );
    let columns: Vec<&str> = version["additionalPrinterColumns"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|column| column["name"].as_str())
        .collect();
    assert_eq!(columns, ["Mode", "Target", "Replicas", "Ready", "Age"]);
}

/// An API server takes only structural schemas: properties beside additionalProperties are none.
#[test]
fn the_schema_is_structural() {
    fn check(at: &str, value: &Value) {
        if let Value::Object(fields) = value {
            let is_open = fields.contains_key("additionalProperties");
            assert!(!(is_open && fields.contains_key("properties")), "{at}");
            assert!(!fields.contains_key("$ref"), "{at}");
            fields.iter().for_each(|(key, value)| check(&format!("{at}/{key}"), value));
        }
    }
    check("", &crd()["spec"]["versions"][0]["schema"]);
    let schema = spec_schema();
    assert_eq!(
        schema["properties"]["mode"]["enum"],
        json!(["HpaPreferred", "HpaBiased", "VpaBiased", "Mixed", "RatioBased", null])
    );
    assert_eq!(schema["properties"]["updateMode"]["default"], "InPlaceOrRecreate");
    let ratio = &schema["properties"]["ratioBasedScalingSpec"];
    assert_eq!(ratio["properties"]["vToHScalingRatio"]["minimum"], 0.0);
    assert!(ratio["x-kubernetes-validations"][0]["rule"].as_str().unwrap().contains("startReplicaCount"));
    let bounds = &schema["properties"]["hpa"]["properties"]["template"]["properties"]["spec"];
    assert_eq!(
        bounds["x-kubernetes-validations"][0]["rule"],
        "!has(self.minReplicas) || self.minReplicas <= self.maxReplicas"
    );
}

#[test]
fn a_manifest_becomes_a_decision_s_spec() {
    let Resolved { spec, horizontal, has_vertical, update_mode } = resolved(&[]).unwrap();
    assert_eq!((spec.min_replicas, spec.max_replicas, has_vertical), (1, 10, true));
    assert_eq!((spec.coupling, update_mode), (decide::hvpa::Coupling::Auto, UpdateMode::InPlaceOrRecreate));
    assert_eq!(horizontal.metrics.len(), 1);
    assert_eq!(spec.horizontal.scale_down.stabilization_seconds, 300);
    let policy = &spec.vertical.container_policies[0];
    assert_eq!((policy.min_allowed.cpu, policy.max_allowed.cpu), (Some(250), Some(4000)));
    let decide::hvpa::Mode::Ratio(ratio) = &spec.mode else { panic!("{:?}", spec.mode) };
    assert_eq!((ratio.v_to_h_scaling_ratio, ratio.combination), (Some(1.0), decide::hvpa::Combination::Path));
}

/// Gardener's manifests: metrics as autoscaling/v2beta1 wrote them, weights by interval.
#[test]
fn the_public_form_is_taken() {
    let metrics = json!([
        {"type": "Resource", "resource": {"name": "cpu", "targetAverageUtilization": 70}},
        {"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "1Gi"}},
        {"type": "External", "external": {"metricName": "queue", "targetAverageValue": "30"}},
    ]);
    let public = [
        ("/hpa/template/spec/metrics", metrics),
        ("/ratioBasedScalingSpec", Value::Null),
        (
            "/weightBasedScalingIntervals",
            json!([{"vpaWeight": 0, "startReplicaCount": 1, "lastReplicaCount": 3}, {"vpaWeight": 100}]),
        ),
        ("/maintenanceTimeWindow", json!({"begin": "220000+0100", "end": "230000+0100"})),
        (
            "/vpa/scaleDown",
            json!({"updatePolicy": {"updateMode": "MaintenanceWindow"}, "stabilizationDuration": "15m0s"}),
        ),
        ("/vpa/limitsRequestsGapScaleParams", json!({"cpu": {"value": "1", "percentage": 40}})),
        ("/hpa/selector", json!({"matchLabels": {"role": "hpa"}})),
        ("/hpa/template/metadata", json!({"labels": {"role": "hpa", "app": "web"}})),
        ("/vpa/selector", json!({"matchExpressions": [{"key": "role", "operator": "Exists"}]})),
        ("/vpa/template/metadata", json!({"labels": {"role": "vpa"}})),
    ];
    let Resolved { spec, horizontal, .. } = resolved(&public).unwrap();
    assert_eq!(horizontal.metrics.len(), 3);
    assert_eq!(spec.vertical.scale_down.stabilization_seconds, 900);
    let decide::hvpa::Mode::Ratio(ratio) = &spec.mode else { panic!("{:?}", spec.mode) };
    assert_eq!(ratio.intervals.len(), 2);
}

/// The proposal's own form: both autoscalers as objects.
#[test]
fn the_first_proposal_s_form_is_taken() {
    let embedded = [
        ("/hpa", Value::Null),
        ("/vpa", Value::Null),
        (
            "/hpaSpec",
            json!({"metadata": {"name": "web"}, "spec": {"minReplicas": 2, "maxReplicas": 6, "targetCPUUtilizationPercentage": 50}}),
        ),
        (
            "/vpaSpec",
            json!({"spec": {"resourcePolicy": {"containerPolicies": [{"containerName": "*", "maxAllowed": {"memory": "2Gi"}}]}}}),
        ),
        ("/initialScaling", json!("vertical")),
        ("/finalScaling", json!("horizontal")),
        (
            "/ratioBasedScalingSpec",
            json!({"vToHScalingRatio": 3.0, "startReplicaCount": 3, "finishReplicaCount": 5}),
        ),
    ];
    let Resolved { spec, horizontal, .. } = resolved(&embedded).unwrap();
    assert_eq!((spec.min_replicas, spec.max_replicas, horizontal.metrics.len()), (2, 6, 1));
    assert_eq!(spec.vertical.container_policies[0].max_allowed.memory, Some(2 << 30));
}

#[test]
fn what_cannot_work_is_refused_with_its_path() {
    let cases = [
        vec![(
            "/ratioBasedScalingSpec",
            json!({"vToHScalingRatio": 1.0, "startReplicaCount": 5, "finishReplicaCount": 3}),
        )],
        vec![("/ratioBasedScalingSpec", json!({"vToHScalingRatio": -1.0}))],
        vec![("/ratioBasedScalingSpec", json!({"vToHScalingRatio": 1.0, "startReplicaCount": 3}))],
        vec![("/ratioBasedScalingSpec", Value::Null)],
        vec![("/weightBasedScalingIntervals", json!([{"vpaWeight": 50}]))],
        vec![("/hpa/template/spec/minReplicas", json!(11))],
        vec![("/hpa/template/spec/metrics", json!([{"type": "Resource", "resource": {"name": "cpu"}}]))],
        vec![("/vpa/template/spec/resourcePolicy/containerPolicies/0/minAllowed", json!({"cpu": "lots"}))],
        vec![("/vpa/template/spec/resourcePolicy/containerPolicies/0/minAllowed", json!({"cpu": "8"}))],
        vec![("/vpa/scaleUp/minChange", json!({"cpu": {"value": "-100m"}}))],
        vec![("/vpa/scaleUp/minChange", json!({"memory": {"percentage": -1}}))],
        vec![("/hpa/scaleUp", json!({"stabilizationDuration": "soon"}))],
        vec![("/hpa/scaleUp", json!({"updatePolicy": {"updateMode": "MaintenanceWindow"}}))],
        vec![("/maintenanceTimeWindow", json!({"begin": "25:00", "end": "230000+0100"}))],
        vec![("/mode", json!("Mixed"))],
        vec![("/mixed", json!({"preference": "vertical"}))],
        vec![("/hpa", Value::Null)],
        vec![("/vpaSpec", json!({}))],
        vec![("/vpa", Value::Null), ("/vpaSpec", json!({"spec": {"updatePolicy": {"updateMode": "Auto"}}}))],
        vec![("/hpa/selector", json!({}))],
        vec![("/hpa/selector", json!({"matchLabels": {"role": "hpa"}}))],
        vec![
            ("/vpa/selector", json!({"matchLabels": {"role": "vpa"}})),
            ("/vpa/template/metadata", json!({"labels": {"role": "other"}})),
        ],
        vec![("/vpa/selector", json!({"matchExpressions": [{"key": "role", "operator": "Is"}]}))],
        vec![("/replica", json!(3))],
    ];
    let refused: Vec<String> = cases
        .iter()
        .map(|case| resolved(case).map_or_else(|error| error, |_| format!("taken: {case:?}")))
        .collect();
    expect![[r#"
        ratioBasedScalingSpec.finishReplicaCount: expected 0 or no fewer than startReplicaCount
        ratioBasedScalingSpec.vToHScalingRatio: expected a number of 0 or more
        initialScaling: expected vertical or horizontal, because startReplicaCount is set
        ratioBasedScalingSpec: expected mode, ratioBasedScalingSpec or weightBasedScalingIntervals
        weightBasedScalingIntervals: expected ratioBasedScalingSpec or weightBasedScalingIntervals, found both
        hpa.template.spec.maxReplicas: expected no fewer than minReplicas
        hpa.template.spec.metrics[0].resource: the field target is missing at line 1 column 55
        vpa.template.spec.resourcePolicy.containerPolicies[0].minAllowed.cpu: "lots" is not a quantity; expected a number with an optional suffix, such as 100m, 2 or 1Gi
        vpa.template.spec.resourcePolicy.containerPolicies[0].maxAllowed.cpu: expected no less than minAllowed, which is 8
        vpa.scaleUp.minChange.cpu.value: expected a quantity of 0 or more, found "-100m"
        vpa.scaleUp.minChange.memory.percentage: expected 0 or more
        hpa.scaleUp.stabilizationDuration: expected a length of time such as 3m, found "soon"
        hpa.scaleUp.updatePolicy.updateMode: expected a maintenanceTimeWindow beside it
        maintenanceTimeWindow.begin: expected a time such as 220000+0100, found "25:00"
        mixed: expected it beside mode Mixed
        mixed: expected it only beside mode Mixed
        hpa: expected hpa or hpaSpec, found neither
        vpaSpec: expected vpa or vpaSpec, found both
        vpaSpec.spec.updatePolicy.updateMode: expected Off: an Hvpa applies it, found "Auto"
        hpa.selector: expected matchLabels or matchExpressions, found neither
        hpa.selector: expected it to match the labels of hpa.template.metadata
        vpa.selector: expected it to match the labels of vpa.template.metadata
        vpa.selector: failed to parse value as expression: Invalid expression operator
        unknown field `replica`, expected one of `replicas`, `targetRef`, `mode`, `mixed`, `hpaPreferred`, `vpaBiased`, `updateMode`, `coupling`, `combination`, `ratioBasedScalingSpec`, `initialScaling`, `finalScaling`, `weightBasedScalingIntervals`, `maintenanceTimeWindow`, `oomOverride`, `hpa`, `vpa`, `hpaSpec`, `vpaSpec`"#]].assert_eq(&refused.join("\n"));
    let mut not_a_number: Spec = serde_json::from_value(spec(&[])).unwrap();
    not_a_number.ratio_based_scaling_spec.as_mut().unwrap().v_to_h_scaling_ratio = Some(f64::NAN);
    assert_eq!(not_a_number.resolve().unwrap_err().path, "ratioBasedScalingSpec.vToHScalingRatio");
}

/// What an API server says of the definition and of objects.
#[test]
fn an_api_server_takes_the_kind_and_refuses_what_cannot_work() {
    let mut crd = crd();
    schema::crd::set_defaults(&mut crd);
    let wrong: Vec<String> = schema::crd::validate(&crd, None).iter().map(ToString::to_string).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let kind = schema::Kind::custom(&crd, "v1alpha1").unwrap();
    let answer = |over: &[(&str, Value)]| {
        let mut object = json!({
            "apiVersion": "autoscaling.k8s.io/v1alpha1",
            "kind": "Hvpa",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": spec(over),
        });
        let unknown = kind.decode(&mut object).unwrap();
        kind.set_defaults(&mut object);
        kind.prepare_create(&mut object);
        let errors = kind.validate_create(&object);
        unknown.into_iter().chain(errors.iter().map(ToString::to_string)).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(answer(&[]), "");
    let policy = "/vpa/template/spec/resourcePolicy/containerPolicies/0/minAllowed";
    let refused = [
        answer(&[(
            "/ratioBasedScalingSpec",
            json!({"vToHScalingRatio": 1.0, "startReplicaCount": 5, "finishReplicaCount": 3}),
        )]),
        answer(&[("/ratioBasedScalingSpec", json!({"vToHScalingRatio": -1.0}))]),
        answer(&[("/ratioBasedScalingSpec", json!({"vToHScalingRatio": "NaN"}))]),
        answer(&[("/hpa/template/spec/minReplicas", json!(11))]),
        answer(&[(policy, json!({"cpu": "lots"}))]),
        answer(&[(policy, json!({"cpu": "-1"}))]),
        answer(&[("/hpa/scaleUp", json!({"updatePolicy": {"updateMode": "MaintenanceWindow"}}))]),
        answer(&[("/hpa", Value::Null)]),
        answer(&[("/mode", json!("Mixed"))]),
        answer(&[("/mode", json!("Biased"))]),
        answer(&[("/ratioBasedScalingSpec", Value::Null)]),
        answer(&[("/weightBasedScalingIntervals", json!([{"vpaWeight": 101}]))]),
    ];
    expect![[r#"
        spec.ratioBasedScalingSpec: Invalid value: startReplicaCount must not be above finishReplicaCount
        spec.ratioBasedScalingSpec.vToHScalingRatio: Invalid value: -1: spec.ratioBasedScalingSpec.vToHScalingRatio in body should be greater than or equal to 0
        spec.ratioBasedScalingSpec.vToHScalingRatio: Invalid value: "string": spec.ratioBasedScalingSpec.vToHScalingRatio in body must be of type number: "string"; <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation
        spec.hpa.template.spec: Invalid value: minReplicas must not be above maxReplicas
        spec.vpa.template.spec.resourcePolicy.containerPolicies[0].minAllowed.cpu: Invalid value: "lots": spec.vpa.template.spec.resourcePolicy.containerPolicies[0].minAllowed.cpu in body should match '^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)(([KMGTPE]i)|[numkMGTPE]|[eE][+-]?[0-9]+)?$'
        spec.vpa.template.spec.resourcePolicy.containerPolicies[0].minAllowed.cpu: Invalid value: "-1": spec.vpa.template.spec.resourcePolicy.containerPolicies[0].minAllowed.cpu in body should match '^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)(([KMGTPE]i)|[numkMGTPE]|[eE][+-]?[0-9]+)?$'
        spec: Invalid value: updateMode MaintenanceWindow needs maintenanceTimeWindow
        spec: Invalid value: give exactly one of hpa and hpaSpec
        spec: Invalid value: mode Mixed needs mixed
        spec.mode: Unsupported value: "Biased": supported values: "HpaPreferred", "HpaBiased", "VpaBiased", "Mixed", "RatioBased", "null"
        spec: Invalid value: mode RatioBased needs ratioBasedScalingSpec or weightBasedScalingIntervals
        spec.weightBasedScalingIntervals[0].vpaWeight: Invalid value: 101: spec.weightBasedScalingIntervals[0].vpaWeight in body should be less than or equal to 100; spec: Invalid value: give ratioBasedScalingSpec or weightBasedScalingIntervals, not both"#]].assert_eq(&refused.join("\n"));
}
