//! What a request is about, read from its path and query.

/// The query of a request, decoded.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

/// The object, or the collection, that a path names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    pub group: String,
    pub version: String,
    pub namespace: String,
    pub resource: String,
    pub name: String,
    pub subresource: String,
    /// What follows the subresource, as in `…/proxy/rest/of/path`.
    pub rest: String,
    /// The deprecated `/watch/` prefix.
    pub watch: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

// === impl Verb ===

impl Verb {
    /// As roles call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

// === impl Query ===

impl Query {
    pub fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key, true), decode(value, true))
        });
        Self(pairs.collect())
    }

    /// The first value of that name; empty if there is none.
    pub fn get(&self, key: &str) -> &str {
        self.0.iter().find(|(name, _)| name == key).map_or("", |(_, value)| value)
    }

    pub fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(name, _)| name == key)
    }

    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// As Go reads a flag from a query: present without a value is true.
    pub fn flag(&self, key: &str) -> bool {
        self.has(key) && !matches!(self.get(key), "false" | "0" | "False" | "FALSE" | "f" | "F")
    }
}

/// Undoes percent encoding; what is not valid UTF-8 afterwards is replaced.
pub fn decode(text: &str, plus_is_space: bool) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
        match (byte, hex(bytes.get(at + 1)), hex(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
                continue;
            }
            (b'+', ..) if plus_is_space => out.push(b' '),
            _ => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

// === impl Target ===

impl Target {
    /// From the path behind `/api` or `/apis`, with at least a resource in it.
    pub fn parse(path: &str) -> Option<Self> {
        let mut parts = path.split('/').filter(|part| !part.is_empty()).map(|part| decode(part, false));
        let mut target = Self::default();
        match parts.next()?.as_str() {
            "api" => {}
            "apis" => target.group = parts.next()?,
            _ => return None,
        }
        target.version = parts.next()?;
        let mut first = parts.next()?;
        if first == "watch" {
            target.watch = true;
            first = parts.next()?;
        }
        let mut rest: Vec<String> = parts.collect();
        // `namespaces/x` and its subresources are about the namespace itself.
        let about_itself = |rest: &[String]| {
            rest.len() <= 1 || rest.len() == 2 && matches!(rest[1].as_str(), "status" | "finalize")
        };
        if first == "namespaces" && !about_itself(&rest) {
            target.namespace = rest.remove(0);
            first = rest.remove(0);
        }
        target.resource = first;
        let mut rest = rest.into_iter();
        target.name = rest.next().unwrap_or_default();
        target.subresource = rest.next().unwrap_or_default();
        target.rest = rest.collect::<Vec<_>>().join("/");
        Some(target)
    }

    pub fn verb(&self, method: &http::Method, query: &Query) -> Option<Verb> {
        let one = !self.name.is_empty();
        Some(match method.as_str() {
            "GET" | "HEAD" if self.watch || query.flag("watch") && self.subresource.is_empty() => Verb::Watch,
            "GET" | "HEAD" if one => Verb::Get,
            "GET" | "HEAD" => Verb::List,
            "POST" => Verb::Create,
            "PUT" => Verb::Update,
            "PATCH" => Verb::Patch,
            "DELETE" if one => Verb::Delete,
            "DELETE" => Verb::DeleteCollection,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(path: &str, expect: Expect) {
        let shown = match Target::parse(path) {
            Some(t) => format!(
                "{}/{} ns={} {} name={} sub={} rest={}{}",
                t.group,
                t.version,
                t.namespace,
                t.resource,
                t.name,
                t.subresource,
                t.rest,
                if t.watch { " watch" } else { "" }
            ),
            None => "none".to_owned(),
        };
        expect.assert_eq(&shown);
    }

    #[test]
    fn paths() {
        check("/api/v1/namespaces", expect![["/v1 ns= namespaces name= sub= rest="]]);
        check("/api/v1/namespaces/a", expect![["/v1 ns= namespaces name=a sub= rest="]]);
        check("/api/v1/namespaces/a/finalize", expect![["/v1 ns= namespaces name=a sub=finalize rest="]]);
        check("/api/v1/namespaces/a/pods", expect![["/v1 ns=a pods name= sub= rest="]]);
        check("/api/v1/namespaces/a/pods/b%20c/log", expect![["/v1 ns=a pods name=b c sub=log rest="]]);
        check("/apis/apps/v1/deployments", expect![["apps/v1 ns= deployments name= sub= rest="]]);
        check("/api/v1/watch/namespaces/a/pods", expect![["/v1 ns=a pods name= sub= rest= watch"]]);
        check("/apis/apps/v1", expect![["none"]]);
    }

    #[test]
    fn queries() {
        let query = Query::parse("labelSelector=app%3Dweb%2Ctier+in+%28a%29&watch&dryRun=All&follow=false");
        assert_eq!(query.get("labelSelector"), "app=web,tier in (a)");
        assert!(query.flag("watch") && !query.flag("follow") && !query.flag("missing"));
    }
}
