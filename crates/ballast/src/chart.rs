//! What of `deploy/chart` follows from the table of components. UPDATE_EXPECT=1 writes it.

use std::collections::BTreeSet;

use controllers::{Component, Reach, Runs};
use expect_test::expect_file;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::ResourceExt;
use serde::Serialize;
use serde_json::Value;

use crate::components::{all, on_cluster};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/chart");

/// A row of the table, as the chart's templates read it.
#[derive(Serialize)]
struct Row {
    name: &'static str,
    about: &'static str,
    runs: &'static str,
    reach: &'static str,
    crds: Vec<String>,
    rules: Vec<PolicyRule>,
}

#[derive(Serialize)]
struct Table {
    components: Vec<Row>,
}

/// Without those that a cluster has kube-controller-manager for.
fn rows() -> Vec<Component> {
    all().into_iter().filter(|row| !matches!(row.runs, Runs::Embedded)).collect()
}

fn row(component: Component) -> Row {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let rule = |rule: &controllers::Rule| PolicyRule {
        api_groups: Some(owned(&[rule.group])),
        resources: Some(owned(rule.resources)),
        verbs: owned(rule.verbs),
        ..PolicyRule::default()
    };
    Row {
        name: component.name,
        about: component.about,
        runs: match component.runs {
            Runs::Everywhere => "everywhere",
            Runs::WithControllers => "with-controllers",
            Runs::Leading(_) => "leading",
            Runs::Embedded => "embedded",
        },
        reach: match component.reach {
            Reach::Served => "served",
            Reach::Chosen => "chosen",
            Reach::Cluster => "cluster",
        },
        crds: (component.crds)().iter().map(ResourceExt::name_any).collect(),
        rules: component.rules.iter().map(rule).collect(),
    }
}

#[test]
fn the_charts_roles_are_those_of_the_table() {
    let table = Table { components: rows().into_iter().map(row).collect() };
    let head = "# The table of components, for the templates: UPDATE_EXPECT=1 cargo test -p ballast --bin ballast chart\n";
    let text = serde_saphyr::to_string(&table).unwrap();
    expect_file![format!("{CHART}/files/components.yaml")].assert_eq(&(head.to_owned() + &text));
}

/// They stay when a release is deleted: with a kind go all its objects.
#[test]
fn the_charts_kinds_are_those_of_the_program() {
    let mut names = BTreeSet::new();
    for mut crd in on_cluster("*").unwrap().crds() {
        crd.annotations_mut().insert("helm.sh/resource-policy".to_owned(), "keep".to_owned());
        let name = format!("{}.yaml", crd.name_any());
        expect_file![format!("{CHART}/files/crds/{name}")].assert_eq(&serde_saphyr::to_string(&crd).unwrap());
        names.insert(name);
    }
    let files = std::fs::read_dir(format!("{CHART}/files/crds")).unwrap();
    let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    assert_eq!(files.collect::<BTreeSet<_>>(), names);
    // The chart installs the kinds of components, so there may be no others.
    assert!(on_cluster("").unwrap().crds().is_empty());
}

#[test]
fn values_and_their_schema_have_the_same_keys() {
    let values = std::fs::read_to_string(format!("{CHART}/values.yaml")).unwrap();
    let values: Value = serde_saphyr::from_str(&values).unwrap();
    let schema = std::fs::read_to_string(format!("{CHART}/values.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    same_keys("", &values, &schema);

    let optional = rows().into_iter().filter(Component::is_optional);
    let optional: BTreeSet<String> = optional.map(|row| row.name.to_owned()).collect();
    let switches = values["controllers"].as_object().unwrap();
    assert_eq!(switches.keys().cloned().collect::<BTreeSet<_>>(), optional);
    assert!(switches.values().all(|is_on| *is_on == true), "all controllers run by default: {switches:?}");
}

/// An object whose properties the schema lists has these and no others; a free one may have any.
fn same_keys(at: &str, values: &Value, schema: &Value) {
    let Some(properties) = schema["properties"].as_object() else { return };
    assert_eq!(schema["additionalProperties"], false, "values.schema.json lets anything into {at:?}");
    let values = values.as_object().unwrap_or_else(|| panic!("{at} is no object in values.yaml"));
    // What Helm itself hands to every chart.
    let listed: BTreeSet<&String> = properties.keys().filter(|key| *key != "global").collect();
    assert_eq!(values.keys().collect::<BTreeSet<_>>(), listed, "values.yaml and its schema differ at {at:?}");
    for (key, value) in values {
        same_keys(&format!("{at}.{key}"), value, &properties[key]);
    }
}

#[test]
fn the_chart_has_the_programs_version() {
    let chart = std::fs::read_to_string(format!("{CHART}/Chart.yaml")).unwrap();
    let chart: Value = serde_saphyr::from_str(&chart).unwrap();
    for field in ["version", "appVersion"] {
        assert_eq!(chart[field], env!("CARGO_PKG_VERSION"), "{field} in Chart.yaml");
    }
}
