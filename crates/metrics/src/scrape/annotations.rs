//! `prometheus.io/*`: whether and where a pod wants to be scraped.

use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub scheme: Scheme,
    pub port: u16,
    pub path: String,
    pub interval: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scheme {
    #[default]
    Http,
    /// With whatever certificate the pod has.
    Https,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnnotationError {
    #[error("prometheus.io/scrape is {0:?}: use \"true\" (or 1, yes) or \"false\" (or 0, no)")]
    Scrape(String),
    #[error("prometheus.io/scheme is {0:?}: use \"http\" or \"https\"")]
    Scheme(String),
    #[error("prometheus.io/port is {0:?}: use a number from 1 to 65535")]
    Port(String),
    #[error("no prometheus.io/port, and the pod declares no container port: set the annotation")]
    NoPort,
    #[error("prometheus.io/path is {0:?}: use a path that starts with \"/\"")]
    Path(String),
    #[error("prometheus.io/interval is {0:?}: use seconds or minutes such as \"15s\", from 1s to 10m")]
    Interval(String),
}

impl Endpoint {
    /// None if the pod does not ask to be scraped. `first_port` is the first port that its containers declare.
    pub fn from_annotations(
        annotations: &BTreeMap<String, String>,
        first_port: Option<u16>,
    ) -> Result<Option<Self>, AnnotationError> {
        let get = |name: &str| annotations.get(&format!("prometheus.io/{name}")).map(|v| v.trim());
        let scrape = get("scrape").unwrap_or_default();
        match scrape.to_ascii_lowercase().as_str() {
            "" | "false" | "0" | "no" => return Ok(None),
            "true" | "1" | "yes" => {}
            _ => return Err(AnnotationError::Scrape(scrape.into())),
        }
        let scheme = match get("scheme").map(str::to_ascii_lowercase).as_deref() {
            None | Some("" | "http") => Scheme::Http,
            Some("https") => Scheme::Https,
            Some(other) => return Err(AnnotationError::Scheme(other.into())),
        };
        let port = match get("port").filter(|p| !p.is_empty()) {
            Some(text) => {
                text.parse().ok().filter(|p| *p > 0).ok_or_else(|| AnnotationError::Port(text.into()))?
            }
            None => first_port.ok_or(AnnotationError::NoPort)?,
        };
        let path = get("path").filter(|p| !p.is_empty()).unwrap_or("/metrics");
        let is_path = path.starts_with('/') && path.parse::<http::uri::PathAndQuery>().is_ok();
        if !is_path {
            return Err(AnnotationError::Path(path.into()));
        }
        let interval = match get("interval").filter(|i| !i.is_empty()) {
            Some(text) => Some(interval(text).ok_or_else(|| AnnotationError::Interval(text.into()))?),
            None => None,
        };
        Ok(Some(Self { scheme, port, path: path.into(), interval }))
    }
}

impl Scheme {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

fn interval(text: &str) -> Option<Duration> {
    let (number, unit) = match (text.strip_suffix('s'), text.strip_suffix('m')) {
        (Some(number), _) => (number, 1),
        (_, Some(number)) => (number, 60),
        _ => (text, 1),
    };
    let seconds = number.parse::<u64>().ok()?.checked_mul(unit)?;
    (1..=600).contains(&seconds).then(|| Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn scrape_is_a_yes_or_a_no() {
        let table = [
            ("true 1 yes TRUE Yes yEs", Some(true)),
            ("false 0 no FALSE No", Some(false)),
            ("on off 2 y t maybe", None),
        ];
        for (words, expected) in table {
            for word in words.split(' ').flat_map(|word| [word.to_string(), format!(" {word} ")]) {
                let annotations = BTreeMap::from([("prometheus.io/scrape".to_string(), word.clone())]);
                let is_scraped = Endpoint::from_annotations(&annotations, Some(5000)).map(|e| e.is_some());
                assert_eq!(is_scraped.ok(), expected, "{word:?}");
            }
        }
    }

    #[test]
    fn annotations_say_where_or_what_is_wrong() {
        let cases: [&[(&str, &str)]; 13] = [
            &[],
            &[("scrape", "false"), ("port", "x")],
            &[("scrape", "true")],
            &[("scrape", "True"), ("port", "9090"), ("path", "/stats?format=prometheus"), ("interval", "1m")],
            &[("scrape", "true"), ("scheme", "http"), ("interval", "15")],
            &[("scrape", "maybe")],
            &[("scrape", "true"), ("scheme", "HTTPS")],
            &[("scrape", "true"), ("scheme", "gopher")],
            &[("scrape", "true"), ("port", "0")],
            &[("scrape", "true"), ("port", "http")],
            &[("scrape", "true"), ("path", "metrics")],
            &[("scrape", "true"), ("path", "/a b")],
            &[("scrape", "true"), ("interval", "500ms")],
        ];
        let mut out = String::new();
        for case in cases {
            let annotations =
                case.iter().map(|(k, v)| (format!("prometheus.io/{k}"), v.to_string())).collect();
            let text = match Endpoint::from_annotations(&annotations, Some(5000)) {
                Ok(Some(e)) => format!("{} {}{} {:?}", e.scheme.as_str(), e.port, e.path, e.interval),
                Ok(None) => "not scraped".into(),
                Err(e) => e.to_string(),
            };
            out += &format!("{text}\n");
        }
        expect![[r#"
            not scraped
            not scraped
            http 5000/metrics None
            http 9090/stats?format=prometheus Some(60s)
            http 5000/metrics Some(15s)
            prometheus.io/scrape is "maybe": use "true" (or 1, yes) or "false" (or 0, no)
            https 5000/metrics None
            prometheus.io/scheme is "gopher": use "http" or "https"
            prometheus.io/port is "0": use a number from 1 to 65535
            prometheus.io/port is "http": use a number from 1 to 65535
            prometheus.io/path is "metrics": use a path that starts with "/"
            prometheus.io/path is "/a b": use a path that starts with "/"
            prometheus.io/interval is "500ms": use seconds or minutes such as "15s", from 1s to 10m
        "#]]
        .assert_eq(&out);
        let wanted = BTreeMap::from([("prometheus.io/scrape".to_string(), "true".to_string())]);
        assert_eq!(Endpoint::from_annotations(&wanted, None), Err(AnnotationError::NoPort));
    }
}
