//! One row a function: how it is called and what comes out.

/// What a call makes, as far as it can be told without running it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Result_ {
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    /// A type of the Kubernetes libraries, by name.
    Named(&'static str),
    Strings,
    Ints,
    Optional,
    /// The type of the first argument (or target).
    Same,
    /// The type of the elements of the first argument.
    Element,
    /// What is in the optional that it is called on.
    Inner,
    Dyn,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Signature {
    pub name: &'static str,
    style: Style,
    /// Arguments without the target, at least and at most.
    args: (usize, usize),
    pub result: Result_,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// `f(x)`
    Global,
    /// `x.f()`
    Method,
    /// `f(x)` and `x.f()`; arguments are counted with the target.
    Both,
}

use Result_::*;
use Style::*;

const fn row(name: &'static str, style: Style, least: usize, most: usize, result: Result_) -> Signature {
    Signature { name, style, args: (least, most), result }
}

const SIGNATURES: [Signature; 115] = [
    // the language
    row("size", Both, 1, 1, Int),
    row("string", Both, 1, 1, String),
    row("int", Global, 1, 1, Int),
    row("uint", Global, 1, 1, Uint),
    row("double", Global, 1, 1, Double),
    row("bool", Global, 1, 1, Bool),
    row("bytes", Global, 1, 1, Bytes),
    row("dyn", Global, 1, 1, Dyn),
    row("type", Global, 1, 1, Dyn),
    row("timestamp", Global, 1, 1, Timestamp),
    row("duration", Global, 1, 1, Duration),
    row("contains", Method, 1, 1, Bool),
    row("startsWith", Method, 1, 1, Bool),
    row("endsWith", Method, 1, 1, Bool),
    row("matches", Both, 2, 2, Bool),
    row("getFullYear", Method, 0, 1, Int),
    row("getMonth", Method, 0, 1, Int),
    row("getDate", Method, 0, 1, Int),
    row("getDayOfMonth", Method, 0, 1, Int),
    row("getDayOfWeek", Method, 0, 1, Int),
    row("getDayOfYear", Method, 0, 1, Int),
    row("getHours", Method, 0, 1, Int),
    row("getMinutes", Method, 0, 1, Int),
    row("getSeconds", Method, 0, 1, Int),
    row("getMilliseconds", Method, 0, 1, Int),
    // optionals
    row("optional.of", Global, 1, 1, Optional),
    row("optional.none", Global, 0, 0, Optional),
    row("optional.ofNonZeroValue", Global, 1, 1, Optional),
    row("orValue", Method, 1, 1, Inner),
    row("or", Method, 1, 1, Same),
    row("value", Method, 0, 0, Inner),
    row("hasValue", Method, 0, 0, Bool),
    // strings
    row("charAt", Method, 1, 1, String),
    row("join", Method, 0, 1, String),
    row("lowerAscii", Method, 0, 0, String),
    row("upperAscii", Method, 0, 0, String),
    row("replace", Method, 2, 3, String),
    row("split", Method, 1, 2, Strings),
    row("substring", Method, 1, 2, String),
    row("trim", Method, 0, 0, String),
    row("format", Method, 1, 1, String),
    row("strings.quote", Global, 1, 1, String),
    row("find", Method, 1, 1, String),
    row("findAll", Method, 1, 2, Strings),
    // strings and lists
    row("indexOf", Method, 1, 2, Int),
    row("lastIndexOf", Method, 1, 2, Int),
    row("reverse", Method, 0, 0, Same),
    // lists
    row("slice", Method, 2, 2, Same),
    row("flatten", Method, 0, 1, Dyn),
    row("distinct", Method, 0, 0, Same),
    row("sort", Method, 0, 0, Same),
    row("isSorted", Method, 0, 0, Bool),
    row("sum", Method, 0, 0, Element),
    row("min", Method, 0, 0, Element),
    row("max", Method, 0, 0, Element),
    row("first", Method, 0, 0, Optional),
    row("last", Method, 0, 0, Optional),
    row("lists.range", Global, 1, 1, Ints),
    row("lists.setAtIndex", Global, 3, 3, Same),
    row("lists.insertAtIndex", Global, 3, 3, Same),
    row("lists.removeAtIndex", Global, 2, 2, Same),
    // encoders
    row("base64.encode", Global, 1, 1, String),
    row("base64.decode", Global, 1, 1, Bytes),
    // Kubernetes
    row("quantity", Global, 1, 1, Named("kubernetes.Quantity")),
    row("isQuantity", Global, 1, 1, Bool),
    row("isInteger", Method, 0, 0, Bool),
    row("asInteger", Method, 0, 0, Int),
    row("asApproximateFloat", Method, 0, 0, Double),
    row("sign", Method, 0, 0, Int),
    row("add", Method, 1, 1, Same),
    row("sub", Method, 1, 1, Same),
    row("isGreaterThan", Method, 1, 1, Bool),
    row("isLessThan", Method, 1, 1, Bool),
    row("compareTo", Method, 1, 1, Int),
    row("url", Global, 1, 1, Named("kubernetes.URL")),
    row("isURL", Global, 1, 1, Bool),
    row("getScheme", Method, 0, 0, String),
    row("getHost", Method, 0, 0, String),
    row("getHostname", Method, 0, 0, String),
    row("getPort", Method, 0, 0, String),
    row("getEscapedPath", Method, 0, 0, String),
    row("getQuery", Method, 0, 0, Dyn),
    row("ip", Both, 1, 1, Named("net.IP")),
    row("isIP", Global, 1, 1, Bool),
    row("ip.isCanonical", Global, 1, 1, Bool),
    row("family", Method, 0, 0, Int),
    row("isUnspecified", Method, 0, 0, Bool),
    row("isLoopback", Method, 0, 0, Bool),
    row("isLinkLocalMulticast", Method, 0, 0, Bool),
    row("isLinkLocalUnicast", Method, 0, 0, Bool),
    row("isGlobalUnicast", Method, 0, 0, Bool),
    row("cidr", Global, 1, 1, Named("net.CIDR")),
    row("isCIDR", Global, 1, 1, Bool),
    row("containsIP", Method, 1, 1, Bool),
    row("containsCIDR", Method, 1, 1, Bool),
    row("prefixLength", Method, 0, 0, Int),
    row("masked", Method, 0, 0, Named("net.CIDR")),
    row("semver", Global, 1, 2, Named("kubernetes.Semver")),
    row("isSemver", Global, 1, 2, Bool),
    row("major", Method, 0, 0, Int),
    row("minor", Method, 0, 0, Int),
    row("patch", Method, 0, 0, Int),
    // kro
    row("random.seededString", Global, 2, 2, String),
    row("random.seededInt", Global, 3, 3, Int),
    row("merge", Method, 1, 1, Dyn),
    row("deepMerge", Method, 1, 1, Dyn),
    row("json.marshal", Global, 1, 1, String),
    row("json.unmarshal", Global, 1, 1, Dyn),
    row("hash.fnv64a", Global, 1, 1, Bytes),
    row("hash.sha256", Global, 1, 1, Bytes),
    row("hash.md5", Global, 1, 1, Bytes),
    row("omit", Global, 0, 0, Dyn),
    row("runtime.newCondition", Global, 1, 1, Dyn),
    row("runtime.condition", Global, 2, 2, Dyn),
    // a selector as the scale subresource wants it
    row("labelSelector", Global, 1, 1, String),
];

pub(crate) fn find(name: &str) -> Option<&'static Signature> {
    SIGNATURES.iter().find(|signature| signature.name == name)
}

// === impl Signature ===

impl Signature {
    /// Whether it may be called so; otherwise how it is called.
    pub fn check_call(&self, has_target: bool, n_args: usize) -> Result<(), std::string::String> {
        let (least, most) = self.args;
        let (fits, n_args) = match self.style {
            Global => (!has_target, n_args),
            Method => (has_target, n_args),
            Both => (true, n_args + usize::from(has_target)),
        };
        if fits && (least..=most).contains(&n_args) {
            return Ok(());
        }
        let count = if least == most { least.to_string() } else { format!("{least} or {most}") };
        let call = if self.style == Method { "is called on a value" } else { "is called on its own" };
        Err(format!("{} {call} and takes {count} arguments", self.name))
    }
}
