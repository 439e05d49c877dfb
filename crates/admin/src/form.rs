//! Parameters of a request: of its address and, if it is a form, of its body.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, StatusCode, header};
use http_body::Body;
use http_body_util::BodyExt;
use metrics::Millis;

use crate::reply::{self, Reply};

/// Name and value, those of the body first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Form(Vec<(String, String)>);

/// What is wrong with a parameter.
pub(crate) type Problem = String;

/// Reads a body up to its limit.
pub(crate) async fn read<B>(body: B, limit: usize) -> Result<Bytes, Reply>
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    let mut body = std::pin::pin!(body);
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.as_mut().frame().await {
        let frame = frame.map_err(|error| {
            reply::error(StatusCode::BAD_REQUEST, &format!("reading the body failed: {error}"))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            let message = format!("the body is longer than {limit} bytes");
            return Err(reply::error(StatusCode::PAYLOAD_TOO_LARGE, &message));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.freeze())
}

// === impl Form ===

impl Form {
    pub(crate) fn new(query: Option<&str>, method: &Method, headers: &HeaderMap, body: &[u8]) -> Self {
        let content_type =
            headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let is_form = content_type
            .split(';')
            .next()
            .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded"));
        let body = if method == Method::POST && is_form { body } else { &[] };
        let pairs =
            form_urlencoded::parse(body).chain(form_urlencoded::parse(query.unwrap_or_default().as_bytes()));
        Self(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    pub(crate) fn pairs(&self) -> &[(String, String)] {
        &self.0
    }

    /// The first value of that name, or nothing.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(n, _)| n == name).map_or("", |(_, value)| value)
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// None if the parameter is not given.
    pub(crate) fn time(&self, name: &str) -> Result<Option<Millis>, Problem> {
        match self.get(name) {
            "" => Ok(None),
            text => time(text).map(Some).map_err(|e| format!("invalid time value for '{name}': {e}")),
        }
    }

    /// Milliseconds; none if the parameter is not given.
    pub(crate) fn duration(&self, name: &str) -> Result<Option<Millis>, Problem> {
        match self.get(name) {
            "" => Ok(None),
            text => duration(text).map(Some),
        }
    }

    /// None if results are not to be cut short.
    pub(crate) fn limit(&self) -> Result<Option<usize>, Problem> {
        let text = self.get("limit");
        if text.is_empty() {
            return Ok(None);
        }
        let limit = integer(text)?;
        if limit < 0 {
            return Err("limit must be non-negative".into());
        }
        Ok(usize::try_from(limit).ok().filter(|limit| *limit > 0))
    }
}

pub(crate) fn integer(text: &str) -> Result<i64, Problem> {
    text.parse::<i64>().map_err(|error| {
        let why = match error.kind() {
            std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!("strconv.Atoi: parsing {text:?}: {why}")
    })
}

/// Seconds since the epoch, or RFC 3339.
pub(crate) fn time(text: &str) -> Result<Millis, Problem> {
    let invalid = || format!("cannot parse {text:?} to a valid timestamp");
    if let Ok(seconds) = text.parse::<f64>() {
        // As far as a query's times may reach; what is beyond would be refused there in other words.
        let millis = (seconds * 1000.0).round();
        return if millis.abs() <= 9e15 { Ok(millis as Millis) } else { Err(invalid()) };
    }
    // The widest range, as Prometheus itself writes it.
    match text {
        "-292273086-05-16T16:47:06Z" => return Ok(Millis::MIN),
        "+292277025-08-18T07:12:54.999999999Z" | "292277025-08-18T07:12:54.999999999Z" => {
            return Ok(Millis::MAX);
        }
        _ => {}
    }
    let is_rfc3339 = text.as_bytes().get(10) == Some(&b'T');
    let parsed = text.parse::<jiff::Timestamp>().ok().filter(|_| is_rfc3339);
    parsed.map(|time| time.as_millisecond()).ok_or_else(invalid)
}

/// Seconds, or units such as `1h30m`; in milliseconds.
pub(crate) fn duration(text: &str) -> Result<Millis, Problem> {
    let invalid = || format!("cannot parse {text:?} to a valid duration");
    if let Ok(seconds) = text.parse::<f64>() {
        // Prometheus counts nanoseconds in 64 bits.
        if seconds.is_nan() || (seconds * 1e9).abs() > i64::MAX as f64 {
            return Err(format!("{}. It overflows int64", invalid()));
        }
        return Ok((seconds * 1000.0) as Millis);
    }
    promql::parse_duration(text).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn times_and_durations_are_read_as_prometheus_reads_them() {
        let mut out = String::new();
        for text in [
            "0",
            "1700000000.123",
            "-5.5",
            "1e3",
            "2023-11-14T22:13:20Z",
            "2023-11-14T23:13:20.5+01:00",
            "2023-11-14 22:13:20Z",
            "now",
            "1e300",
            "NaN",
            "-292273086-05-16T16:47:06Z",
        ] {
            out += &format!("{text:?} at {:?}\n", time(text));
        }
        for text in ["15", "0.5", "1h30m", "5", "-3", "x", "1e30", "NaN"] {
            out += &format!("{text:?} for {:?}\n", duration(text));
        }
        expect![[r#"
            "0" at Ok(0)
            "1700000000.123" at Ok(1700000000123)
            "-5.5" at Ok(-5500)
            "1e3" at Ok(1000000)
            "2023-11-14T22:13:20Z" at Ok(1700000000000)
            "2023-11-14T23:13:20.5+01:00" at Ok(1700000000500)
            "2023-11-14 22:13:20Z" at Err("cannot parse \"2023-11-14 22:13:20Z\" to a valid timestamp")
            "now" at Err("cannot parse \"now\" to a valid timestamp")
            "1e300" at Err("cannot parse \"1e300\" to a valid timestamp")
            "NaN" at Err("cannot parse \"NaN\" to a valid timestamp")
            "-292273086-05-16T16:47:06Z" at Ok(-9223372036854775808)
            "15" for Ok(15000)
            "0.5" for Ok(500)
            "1h30m" for Ok(5400000)
            "5" for Ok(5000)
            "-3" for Ok(-3000)
            "x" for Err("cannot parse \"x\" to a valid duration")
            "1e30" for Err("cannot parse \"1e30\" to a valid duration. It overflows int64")
            "NaN" for Err("cannot parse \"NaN\" to a valid duration. It overflows int64")
        "#]]
        .assert_eq(&out);
    }

    #[test]
    fn the_body_comes_before_the_address() {
        let mut headers = HeaderMap::new();
        let form =
            |headers: &HeaderMap, method| Form::new(Some("a=1&b=2&m[]=x"), method, headers, b"a=3&m[]=y+z");
        assert_eq!(form(&headers, &Method::POST).get("a"), "1", "not a form");
        headers.insert(
            header::CONTENT_TYPE,
            "application/x-www-form-urlencoded; charset=utf-8".parse().unwrap(),
        );
        let both = form(&headers, &Method::POST);
        assert_eq!((both.get("a"), both.get("b"), both.get("c")), ("3", "2", ""));
        assert_eq!(both.all("m[]").collect::<Vec<_>>(), ["y z", "x"]);
        assert_eq!(form(&headers, &Method::GET).get("a"), "1");
    }
}
