//! The table of components, and which of them a node runs.
//!
//! A new controller is a row here and a folder of its own. `--controllers`, the permissions that are checked at start and
//! granted by `deploy/`, `ballast crds`, `/ready` and docs/controllers.md follow from the row.

use controllers::{Component, Lead, Reach, Rule, Runs};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;

const TABLE: &[Component] = &[
    controllers::catalog::COMPONENT,
    controllers::scraping::COMPONENT,
    controllers::roles::COMPONENT,
    controllers::demand::COMPONENT,
    controllers::kyma::COMPONENT,
    controllers::graphs::COMPONENT,
    controllers::hvpa::COMPONENT,
    controllers::pipelines::COMPONENT,
];

/// Those that a node runs.
#[derive(Clone, Debug)]
pub struct Chosen(Vec<Component>);

/// On which Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// `ballast up`.
    Embedded,
    /// `ballast serve`.
    Cluster,
}

/// All of them. The workload controllers are on the table of their crate.
pub fn all() -> Vec<Component> {
    let workload = |name: workloads::Name| Component {
        name: name.as_str(),
        about: name.about(),
        crds: Vec::new,
        rules: &[],
        reach: Reach::Cluster,
        runs: Runs::Embedded,
    };
    TABLE.iter().copied().chain(workloads::Name::ALL.map(workload)).collect()
}

/// Reads `--controllers` of `ballast serve`.
pub fn on_cluster(text: &str) -> Result<Chosen, String> {
    choose(text, Place::Cluster)
}

/// Reads `--controllers` of `ballast up`.
pub fn embedded(text: &str) -> Result<Chosen, String> {
    choose(text, Place::Embedded)
}

/// As kube-controller-manager reads it: `*` is all, `name` one, and `-name` all but one.
fn choose(text: &str, place: Place) -> Result<Chosen, String> {
    let rows: Vec<Component> = all().into_iter().filter(|row| place.has(row)).collect();
    let items: Vec<&str> = text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect();
    for item in &items {
        let name = item.strip_prefix('-').unwrap_or(item);
        let is_known = rows.iter().any(|row| row.name == name && row.is_optional());
        if *item != "*" && !is_known {
            return Err(match rows.iter().find(|row| row.name == name) {
                Some(row) => format!("{} runs on every node and cannot be chosen", row.name),
                None => format!("there is no controller {name:?}: choose of {}", names(&rows).join(", ")),
            });
        }
    }
    let has_star = items.contains(&"*");
    if let Some(off) = items.iter().find(|item| item.starts_with('-')).filter(|_| !has_star) {
        return Err(format!("{off} switches off what is not on: write *,{off} to run all others"));
    }
    let runs = |row: &Component| {
        let is_off = items.iter().any(|item| item.strip_prefix('-') == Some(row.name));
        !row.is_optional() || (!is_off && (has_star || items.contains(&row.name)))
    };
    Ok(Chosen(rows.into_iter().filter(runs).collect()))
}

fn names(rows: &[Component]) -> Vec<&'static str> {
    rows.iter().filter(|row| row.is_optional()).map(|row| row.name).collect()
}

impl Place {
    fn has(self, row: &Component) -> bool {
        self == Place::Embedded || !matches!(row.runs, Runs::Embedded)
    }
}

// === impl Chosen ===

impl Chosen {
    /// For a node that only takes calls.
    pub fn gateway_only(self) -> Self {
        Self(self.0.into_iter().filter(|row| matches!(row.runs, Runs::Everywhere)).collect())
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|row| row.name == name)
    }

    /// Those that run while this node is the master.
    pub fn leading(&self) -> impl Iterator<Item = (&'static str, Lead)> {
        self.0.iter().filter_map(|row| match row.runs {
            Runs::Leading(lead) => Some((row.name, lead)),
            _ => None,
        })
    }

    /// The kinds of these components, and those that no component looks after yet.
    pub fn crds(&self) -> Vec<CustomResourceDefinition> {
        let claimed: Vec<String> =
            all().iter().flat_map(|row| (row.crds)()).map(|crd| crd.name_any()).collect();
        let mut crds = api::crds();
        crds.retain(|crd| !claimed.contains(&crd.name_any()));
        crds.extend(self.0.iter().flat_map(|row| (row.crds)()));
        // Two controllers may share a kind.
        crds.sort_by_key(ResourceExt::name_any);
        crds.dedup_by_key(|crd| crd.name_any());
        crds
    }

    /// Whom each permission is for.
    pub fn rules(&self) -> impl Iterator<Item = (&Component, &'static [Rule])> {
        self.0.iter().map(|row| (row, row.rules))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{expect, expect_file};

    use super::*;

    #[test]
    fn controllers_are_chosen_as_kube_controller_manager_does() {
        let rows =
            ["*", "*,-function", "demand", "demand, function", "", "-function", "nmae", "-nmae", "roles"];
        let mut all = String::new();
        for text in rows {
            let answer = match on_cluster(text) {
                Ok(chosen) => names(&chosen.0).join(" "),
                Err(why) => format!("refused: {why}"),
            };
            all += &format!("{text:?} {answer}\n");
        }
        expect![[r#"
            "*" demand function graph hvpa pipelines
            "*,-function" demand graph hvpa pipelines
            "demand" demand
            "demand, function" demand function
            "" 
            "-function" refused: -function switches off what is not on: write *,-function to run all others
            "nmae" refused: there is no controller "nmae": choose of demand, function, graph, hvpa, pipelines
            "-nmae" refused: there is no controller "nmae": choose of demand, function, graph, hvpa, pipelines
            "roles" refused: roles runs on every node and cannot be chosen
        "#]]
        .assert_eq(&all);
    }

    #[test]
    fn workload_controllers_are_for_the_embedded_kubernetes() {
        assert!(embedded("*").unwrap().has("horizontalpodautoscaler"));
        let chosen = embedded("*,-horizontalpodautoscaler").unwrap();
        assert!(!chosen.has("horizontalpodautoscaler") && chosen.has("deployment"));
        assert!(!on_cluster("*").unwrap().has("deployment"));
        assert!(on_cluster("deployment").is_err());
    }

    #[test]
    fn a_gateway_has_what_every_node_has() {
        let chosen = on_cluster("*").unwrap().gateway_only();
        let all: Vec<&str> = chosen.0.iter().map(|row| row.name).collect();
        assert_eq!(all, ["catalog", "scraping"]);
    }

    #[test]
    fn names_are_there_once() {
        let mut names: Vec<_> = all().iter().map(|row| row.name).collect();
        names.sort_unstable();
        let n_rows = names.len();
        names.dedup();
        assert_eq!(names.len(), n_rows);
    }

    /// The page of the documentation is made from the table: UPDATE_EXPECT=1 writes it.
    #[test]
    fn the_documentation_is_the_table() {
        let mut page = String::from(
            "# Controllers\n\n\
             Each controller can be switched on alone. `--controllers` of `ballast serve` and `ballast up` is read as\n\
             kube-controller-manager reads it: `*` (the usual) runs all, `demand,function` runs these two, and\n\
             `*,-function` all but one. An unknown name is refused. The CustomResourceDefinitions of some alone are\n\
             printed by `ballast crds --controllers=…`.\n\n\
             What a node runs decides what it has to be allowed: [deploy/serve.yaml](../deploy/serve.yaml) grants what\n\
             all of them need, one role for each that works in more than the namespace that is served. `/ready` names\n\
             controllers that wait for a kind that is not installed, and `ballast_controller_ready` shows it.\n\n\
             | name | what it does | runs | kinds it brings | permissions hold |\n|---|---|---|---|---|\n",
        );
        for row in all() {
            let runs = match row.runs {
                Runs::Everywhere => "always, on every node",
                Runs::WithControllers => "always, on nodes that may become the master",
                Runs::Leading(_) => "on the master",
                Runs::Embedded => "in `ballast up`",
            };
            let kinds = (row.crds)().iter().map(|crd| format!("`{}`", crd.name_any())).collect::<Vec<_>>();
            let reach = match row.reach {
                _ if row.rules.is_empty() => "",
                Reach::Served => "in the namespace that is served",
                Reach::Chosen => "in all namespaces, or that of `--function-namespace`",
                Reach::Cluster => "in all namespaces",
            };
            page +=
                &format!("| `{}` | {} | {runs} | {} | {reach} |\n", row.name, row.about, kinds.join(", "));
        }
        expect_file!["../../../docs/controllers.md"].assert_eq(&page);
    }
}
