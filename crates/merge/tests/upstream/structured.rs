use std::collections::{BTreeMap, BTreeSet};

use expect_test::expect;
use merge::apply::{
    fieldpath::{Path, Set},
    managed_fields::Manager,
    ownership::{Failure, Owned, Owners, Ownership, Reset, Versions},
    typed::{self, Duplicates, Type},
};
use schema::Schema;
use serde_json::Value;

use crate::{
    golang::Expr,
    module, read, types,
    values::{Problem, element_of, path_of, set_of, unsupported},
    yaml,
};

#[test]
fn objects_and_owners_end_as_they_do_there() {
    let folder = module("sigs.k8s.io/structured-merge-diff/v6@v6.3.3").join("merge");
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with("_test.go"));
    files.sort();
    let sources: Vec<(String, String)> = files
        .into_iter()
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), read(path)))
        .collect();
    let parsers: BTreeMap<String, Parser> = sources.iter().flat_map(|(_, source)| parsers(source)).collect();

    let mut report = String::new();
    let mut failures = Vec::new();
    for (file, source) in &sources {
        let (mut run, mut total) = (0, 0);
        for table in tables(source) {
            for (name, case) in table.cases.elements() {
                total += 1;
                let name = name.as_ref().and_then(Expr::text).expect("name");
                let run_all =
                    || table.bound(case).iter().try_for_each(|case| run_case(case, &table, &parsers));
                match run_all() {
                    Err(Problem::Unsupported(why)) => report += &format!("  not run: {name}: {why}\n"),
                    Err(Problem::Failed(_)) if table.must_fail => run += 1,
                    Ok(()) if !table.must_fail => run += 1,
                    Ok(()) => failures.push(format!("{file}: {name}: should fail")),
                    Err(Problem::Failed(why)) => failures.push(format!("{file}: {name}: {why}")),
                }
            }
        }
        if total > 0 {
            report += &format!("{file}: {run} of {total}\n");
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n\n"));
    expect![[r#"
        deduced_test.go: 10 of 10
        default_keys_test.go: 8 of 8
        duplicates_test.go: 15 of 15
        extract_apply_test.go: 15 of 15
        field_level_overrides_test.go: 4 of 4
          not run: does_use_ignored_fields_versions: several filters
          not run: update_does_not_steal_ignored: it filters one of several versions; ours are filtered alike
          not run: apply_does_not_steal_ignored: it filters one of several versions; ours are filtered alike
        ignore_test.go: 8 of 11
        key_test.go: 1 of 1
        leaf_test.go: 11 of 11
        multiple_appliers_test.go: 23 of 23
        nested_test.go: 15 of 15
        preserve_unknown_test.go: 1 of 1
        schema_change_test.go: 8 of 8
        set_test.go: 10 of 10
    "#]]
    .assert_eq(&report);
}

// === their tables ===

struct Table {
    cases: Expr,
    parser: String,
    converter: Converter,
    /// The test wants every case to fail.
    must_fail: bool,
    /// The test runs every case with all combinations of three versions for the variables `v1`, `v2` and `v3`.
    any_versions: bool,
}

impl Table {
    fn bound(&self, case: &Expr) -> Vec<Expr> {
        if !self.any_versions {
            return vec![case.clone()];
        }
        let versions = ["v1", "v2", "v3"];
        let mut cases = Vec::new();
        for a in versions {
            for b in versions {
                cases.extend(versions.map(|c| case.bind(&[("v1", a), ("v2", b), ("v3", c)])));
            }
        }
        cases
    }
}

fn tables(source: &str) -> Vec<Table> {
    let mut tables = Vec::new();
    let mut rest = source;
    while let Some(start) =
        rest.find("map[string]TestCase{").or_else(|| rest.find("map[string]fixture.TestCase{"))
    {
        let any_versions = rest[..start].ends_with("v1, v2, v3 fieldpath.APIVersion) {\n\ttests := ");
        let cases = Expr::parse(&rest[start..]).expect("a table");
        rest = &rest[start + 1..];
        let end = rest.find("test.Test").expect("a use of the table");
        let (call, arguments) = rest[end..].split_once('(').expect("a call");
        let arguments =
            &arguments[..arguments.find("; ").or_else(|| arguments.find(" ==")).expect("its end")];
        tables.push(Table {
            cases,
            parser: arguments.split([',', ')']).next().expect("a parser").to_owned(),
            converter: match (call, arguments) {
                ("test.Test", _) => Converter::None,
                (_, arguments) if arguments.contains("repeatingConverter") => Converter::Repeating,
                _ if rest[..end].contains("renamingConverter{") => Converter::Renaming,
                _ => Converter::Reliant,
            },
            must_fail: rest[..end].ends_with("if "),
            any_versions,
        });
    }
    tables
}

enum Parser {
    /// One type for all versions.
    Same(Box<Schema>),
    /// A type of the version's name.
    ByVersion(BTreeMap<String, Schema>),
    Deduced,
}

/// Every schema that the source defines, by the name of its variable.
fn parsers(source: &str) -> Vec<(String, Parser)> {
    let mut found = vec![("DeducedParser".to_owned(), Parser::Deduced)];
    let mut position = 0;
    while let Some(next) = source[position..].find("typed.NewParser(`") {
        let start = position + next;
        let Some((head, _)) = source[..start].rsplit_once("= func()") else { break };
        let name = head.trim().rsplit(char::is_whitespace).next().expect("a name").to_owned();
        let text = &source[start + "typed.NewParser(`".len()..];
        let end = text.find('`').expect("the end of the schema");
        let types = yaml(&text[..end]);
        let tail = &text[end..text.find("}()").expect("the end of the function")];
        let parser = match tail.split_once(".Type(\"") {
            Some((_, tail)) => {
                Parser::Same(Box::new(types::structured(&types, tail.split('"').next().expect("name"))))
            }
            None => {
                let names = types["types"].as_array().expect("types").iter();
                let names = names.map(|t| t["name"].as_str().expect("name").to_owned());
                Parser::ByVersion(
                    names.map(|name| (name.clone(), types::structured(&types, &name))).collect(),
                )
            }
        };
        found.push((name, parser));
        position = start + 1;
    }
    found
}

// === running a case ===

struct State<'p> {
    live: Value,
    version: String,
    owners: Owners,
    reset: Reset,
    parser: &'p Parser,
    converter: Converter,
}

fn run_case(case: &Expr, table: &Table, parsers: &BTreeMap<String, Parser>) -> Result<(), Problem> {
    let find = |name: &str| match parsers.get(name) {
        Some(parser) => Ok(parser),
        None => unsupported(format!("parser {name}")),
    };
    let mut state = State {
        live: Value::Null,
        version: String::new(),
        owners: Owners::new(),
        reset: reset(case)?,
        parser: find(&table.parser)?,
        converter: table.converter,
    };
    for (_, operation) in case.field("Ops").map(Expr::elements).unwrap_or_default() {
        if let (Expr::Literal(kind, _), Some(Expr::Name(name))) = (operation, operation.field("Parser"))
            && kind.ends_with("ChangeParser")
        {
            state.parser = find(name)?;
            let of = state.type_of("v1").expect("a type");
            typed::validate(&state.live, of, Duplicates::Refuse).map_err(|e| e.to_string())?;
            continue;
        }
        state.run(operation)?;
    }
    let version = case.field("APIVersion").and_then(Expr::text).unwrap_or("v1").to_owned();
    if let Some(expected) = case.field("Object").and_then(Expr::text) {
        let live = state.converted(&version)?;
        let expected = yaml(&untabbed(expected));
        if !same(&live, &expected) {
            return Err(Problem::Failed(format!("the object is\n{live}\nand should be\n{expected}")));
        }
    }
    if let Some(expected) = case.field("Managed") {
        let expected = expected.elements().iter().map(|(name, set)| {
            let Expr::Call(_, arguments) = set else { return unsupported("a set") };
            let name = name.as_ref().and_then(Expr::text).expect("a manager");
            let api_version = arguments[1].text().expect("a version").to_owned();
            Ok((manager(name), Owned { set: set_of(&arguments[0])?, api_version }))
        });
        let expected = expected.collect::<Result<Owners, _>>()?;
        if state.owners != expected {
            return Err(Problem::Failed(format!(
                "owners are\n{}\nand should be\n{}",
                show(&state.owners),
                show(&expected)
            )));
        }
    }
    Ok(())
}

impl State<'_> {
    fn run(&mut self, operation: &Expr) -> Result<(), Problem> {
        let Expr::Literal(kind, _) = operation else { return unsupported("an operation") };
        let text = |name: &str| operation.field(name).and_then(Expr::text).unwrap_or_default();
        let object = yaml(&untabbed(text("Object")));
        let kind = kind.rsplit('.').next().expect("a kind");
        let version = text("APIVersion").to_owned();
        let manager = manager(text("Manager"));
        if !self.live.is_null() {
            self.live = self.converted(&version)?;
        }
        self.version = version.clone();
        let Some(of) = self.type_of(&version) else { return unsupported(format!("no type {version:?}")) };
        let duplicates = if kind == "Update" { Duplicates::Allow } else { Duplicates::Refuse };
        typed::validate(&object, of, duplicates).map_err(|e| e.to_string())?;

        let ownership = Ownership { versions: self, reset: &self.reset, api_version: &version };
        let owners = self.owners.clone();
        let (live, owners) = match kind {
            "Update" => {
                let owners =
                    ownership.update(&self.live, &object, owners, &manager).map_err(|e| format!("{e:?}"))?;
                (object, owners)
            }
            "Apply" | "ForceApply" | "ExtractApply" => {
                let mut object = object;
                if kind == "ExtractApply" && !self.live.is_null() {
                    let own = owners.get(&manager);
                    if own.is_some_and(|own| own.api_version != version) {
                        return Err(Problem::Failed("cannot extract from another version".into()));
                    }
                    let set = own.map(|own| own.set.leaves()).unwrap_or_default();
                    object = typed::merge(&typed::extract(&self.live, &set, of), &object, of);
                }
                let result = ownership.apply(&self.live, &object, owners, &manager, kind != "Apply");
                let expected = operation.field("Conflicts").map(Expr::elements);
                match (result, expected) {
                    (Ok(_), Some([_, ..])) => return Err(Problem::Failed("no conflict".into())),
                    (Ok(outcome), _) => (outcome.object.unwrap_or(self.live.clone()), outcome.owners),
                    (Err(Failure::Conflicts(found)), Some(expected)) => {
                        let found: BTreeSet<_> = found.into_iter().map(|c| (c.manager, c.path)).collect();
                        let expected = expected.iter().map(|(_, conflict)| {
                            let name = conflict.field("Manager").and_then(Expr::text).expect("a manager");
                            Ok((self::manager(name), path_of(conflict.field("Path").expect("a path"))?))
                        });
                        if found != expected.collect::<Result<_, Problem>>()? {
                            return Err(Problem::Failed(format!("conflicts are {found:?}")));
                        }
                        return Ok(());
                    }
                    (Err(failure), _) => return Err(Problem::Failed(format!("{failure:?}"))),
                }
            }
            other => return unsupported(other),
        };
        (self.live, self.owners) = (live, owners);
        Ok(())
    }

    fn converted(&self, version: &str) -> Result<Value, Problem> {
        if self.version == version {
            return Ok(self.live.clone());
        }
        Ok(self.convert_from(&self.live, &self.version, version)?)
    }

    fn convert_from(&self, object: &Value, from: &str, to: &str) -> Result<Value, String> {
        match self.converter {
            Converter::None => Ok(object.clone()),
            Converter::Renaming => Ok(rename(object, &|name| match name.strip_suffix(from) {
                Some(stem) => format!("{stem}{to}"),
                None => name.to_owned(),
            })),
            Converter::Repeating => {
                let times = to.trim_start_matches('v').parse().map_err(|e| format!("{to}: {e}"))?;
                let Value::Object(map) = object else { return Ok(object.clone()) };
                let repeat = |name: &str| name[..1].repeat(times);
                Ok(Value::Object(
                    map.iter().map(|(name, value)| (name.clone(), rename(value, &repeat))).collect(),
                ))
            }
            Converter::Reliant => {
                let (in_v1, in_v2) = ("field_foo_rely_on_bar", "required_field_bar");
                if to == "v1" && object.get(in_v2).is_none() && object.get(in_v1).is_none() {
                    return Err("missing required field bar".into());
                }
                let (old, new) = if to == "v1" { (in_v2, in_v1) } else { (in_v1, in_v2) };
                Ok(rename(object, &|name| if name == old { new.to_owned() } else { name.to_owned() }))
            }
        }
    }
}

impl Versions for State<'_> {
    fn type_of(&self, version: &str) -> Option<Type<'_>> {
        let of = |schema| Type::Schema { schema, open: false, object: false };
        match self.parser {
            Parser::Deduced => Some(Type::Deduced),
            Parser::Same(schema) => Some(of(schema)),
            Parser::ByVersion(schemas) => schemas.get(version).map(of),
        }
    }

    fn convert(&self, object: &Value, version: &str) -> Result<Value, String> {
        // an object does not say its version here; the field names do
        let from =
            ["v1", "v2", "v3", "v4"].into_iter().find(|v| has_suffix(object, v)).unwrap_or(&self.version);
        self.convert_from(object, from, version)
    }
}

#[derive(Clone, Copy)]
enum Converter {
    None,
    /// `name_v1` is `name_v2` in version 2.
    Renaming,
    /// `a` is `aa` in version 2.
    Repeating,
    /// One field has two names, and must be there.
    Reliant,
}

fn has_suffix(value: &Value, suffix: &str) -> bool {
    match value {
        Value::Object(map) => map.iter().any(|(name, v)| name.ends_with(suffix) || has_suffix(v, suffix)),
        Value::Array(items) => items.iter().any(|item| has_suffix(item, suffix)),
        _ => false,
    }
}

fn rename(value: &Value, to: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::Object(map) => Value::Object(map.iter().map(|(name, v)| (to(name), rename(v, to))).collect()),
        Value::Array(items) => items.iter().map(|item| rename(item, to)).collect(),
        scalar => scalar.clone(),
    }
}

// === their values ===

fn reset(case: &Expr) -> Result<Reset, Problem> {
    let Some(filters) = case.field("IgnoreFilter").or_else(|| case.field("IgnoredFields")) else {
        return Ok(Reset::Nothing);
    };
    let [(version, filter)] = filters.elements() else { return unsupported("several filters") };
    let operations = case.field("Ops").map(Expr::elements).unwrap_or_default();
    if operations.iter().any(|(_, operation)| operation.field("APIVersion") != version.as_ref()) {
        return unsupported("it filters one of several versions; ours are filtered alike");
    }
    match filter {
        Expr::Call(name, _) if name == "_NS" => Ok(Reset::Fields(set_of(filter)?)),
        Expr::Call(name, arguments) if name.ends_with("NewExcludeSetFilter") => {
            Ok(Reset::Fields(set_of(&arguments[0])?))
        }
        Expr::Call(name, arguments) if name.ends_with("NewIncludeMatcherFilter") => {
            let paths = arguments.iter().map(|matcher| match matcher {
                Expr::Call(_, parts) => Ok(Path(parts.iter().map(element_of).collect::<Result<_, _>>()?)),
                _ => unsupported("a matcher"),
            });
            Ok(Reset::AllBut(paths.collect::<Result<Set, _>>()?))
        }
        _ => unsupported("a filter"),
    }
}

fn manager(name: &str) -> Manager {
    Manager { name: name.to_owned(), ..Manager::default() }
}

fn same(a: &Value, b: &Value) -> bool {
    a.to_string().eq(&b.to_string())
}

fn show(owners: &Owners) -> String {
    let lines = owners
        .iter()
        .map(|(manager, owned)| format!("{} {}:\n{}", manager.name, owned.api_version, owned.set));
    lines.collect::<Vec<_>>().join("\n")
}

/// Their YAML is indented by the tabs of the Go source around it.
fn untabbed(text: &str) -> String {
    let text = text.strip_prefix('\n').unwrap_or(text);
    let tabs = text.len() - text.trim_start_matches('\t').len();
    text.lines()
        .map(|line| line.strip_prefix(&"\t".repeat(tabs)).unwrap_or(line.trim_start_matches('\t')))
        .collect::<Vec<_>>()
        .join("\n")
}
