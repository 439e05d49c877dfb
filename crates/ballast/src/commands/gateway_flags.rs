//! What `up` and `serve` let be chosen of the gateway. What is not chosen is as the gateway itself would have it.

use std::{net::IpAddr, time::Duration};

use clap::builder::RangedU64ValueParser;
use gateway::{Cors, Options};
use http::HeaderValue;
use ipnet::IpNet;
use store::{Bound, Limits};

// To be flattened in as the last: the heading holds for all that follows.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Gateway")]
pub struct GatewayFlags {
    /// Proxies whose X-Forwarded-* headers are believed: networks and addresses, such as 10.0.0.0/8,192.168.1.7
    #[arg(long, value_name = "NETWORKS", default_value = "", hide_default_value = true, value_parser = networks, env = "BALLAST_TRUSTED_PROXIES")]
    trusted_proxies: Networks,
    /// Whose pages may call functions from a browser: *, none, or origins such as https://shop.example,http://localhost:3000
    #[arg(long, value_name = "ORIGINS", default_value = "*", value_parser = cors, env = "BALLAST_CORS_ORIGINS")]
    cors_origins: Cors,
    /// Calls that may wait for a pod, of all functions together; one more is refused
    #[arg(long, value_name = "N", default_value_t = Options::default().held, value_parser = count(), env = "BALLAST_HELD_CALLS")]
    held_calls: usize,
    /// Calls that may wait for a pod of one function
    #[arg(long, value_name = "N", default_value_t = Options::default().held_per_function, value_parser = count(), env = "BALLAST_HELD_CALLS_PER_FUNCTION")]
    held_calls_per_function: usize,
    /// The longest body of a call, in MiB
    #[arg(long, value_name = "MIB", default_value_t = Options::default().body_limit >> 20, value_parser = clap::value_parser!(u64).range(1..=1 << 20), env = "BALLAST_BODY_LIMIT")]
    body_limit: u64,
    /// Bodies of calls that are held or queued, and of events, that may be in memory together, in MiB
    #[arg(long, value_name = "MIB", default_value_t = Options::default().body_memory >> 20, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1 << 20), env = "BALLAST_BODY_MEMORY")]
    body_memory: usize,
    /// Asynchronous calls under way and their answers that may be in memory together, in MiB; more wait in the store
    #[arg(long, value_name = "MIB", default_value_t = Options::default().async_memory >> 20, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1 << 12), env = "BALLAST_ASYNC_MEMORY")]
    async_memory: usize,
    /// Seconds a client has for the head of a request, and its connection may be idle
    #[arg(long, value_name = "SECONDS", default_value_t = Options::default().head_timeout.as_secs(), value_parser = seconds(), env = "BALLAST_HEAD_TIMEOUT")]
    head_timeout: u64,
    /// Seconds a body may stand still, in either direction
    #[arg(long, value_name = "SECONDS", default_value_t = Options::default().body_idle_timeout.as_secs(), value_parser = seconds(), env = "BALLAST_BODY_IDLE_TIMEOUT")]
    body_idle_timeout: u64,
    /// Connections of clients; more are told that there are too many
    #[arg(long, value_name = "N", default_value_t = Options::default().connections, value_parser = count(), env = "BALLAST_CONNECTIONS")]
    connections: usize,
    /// Connections of one client address that is not a trusted proxy's [default: half of all]
    #[arg(long, value_name = "N", value_parser = count(), env = "BALLAST_CONNECTIONS_PER_ADDRESS")]
    connections_per_address: Option<usize>,
    /// Dead letters that are kept, of all functions together; of more the oldest are dropped
    #[arg(long, value_name = "N", default_value_t = Limits::default().dead.items, value_parser = count(), env = "BALLAST_DEAD_LETTERS")]
    dead_letters: usize,
    /// Dead letters that are kept, in MiB
    #[arg(long, value_name = "MIB", default_value_t = Limits::default().dead.bytes >> 20, value_parser = clap::value_parser!(u64).range(1..=1 << 20), env = "BALLAST_DEAD_LETTER_SIZE")]
    dead_letter_size: u64,
    /// Hours that dead letters are kept
    #[arg(long, value_name = "HOURS", default_value_t = Limits::default().dead_age.as_secs() / 3600, value_parser = clap::value_parser!(u64).range(1..=87_600), env = "BALLAST_DEAD_LETTER_AGE")]
    dead_letter_age: u64,
    /// Results of asynchronous calls that are kept, of all functions together; of more the oldest are dropped
    #[arg(long, value_name = "N", default_value_t = Limits::default().results.items, value_parser = count(), env = "BALLAST_RESULTS")]
    results: usize,
    /// Results of asynchronous calls that are kept, in MiB
    #[arg(long, value_name = "MIB", default_value_t = Limits::default().results.bytes >> 20, value_parser = clap::value_parser!(u64).range(1..=1 << 20), env = "BALLAST_RESULT_SIZE")]
    result_size: u64,
    /// Seconds that connections are still accepted after the end was asked for, while /ready says no: until balancers have
    /// heard it
    #[arg(long, value_name = "SECONDS", default_value_t = Options::default().linger.as_secs(), value_parser = RangedU64ValueParser::<u64>::new().range(0..=86_400), env = "BALLAST_LINGER")]
    linger: u64,
    /// Seconds that calls under way may go on after that
    #[arg(long, value_name = "SECONDS", default_value_t = Options::default().grace.as_secs(), value_parser = seconds(), env = "BALLAST_GRACE")]
    grace: u64,
}

impl GatewayFlags {
    pub fn options(&self) -> Options {
        Options {
            trusted_proxies: self.trusted_proxies.0.clone(),
            cors: self.cors_origins.clone(),
            held: self.held_calls,
            held_per_function: self.held_calls_per_function,
            body_limit: self.body_limit << 20,
            body_memory: self.body_memory << 20,
            async_memory: self.async_memory << 20,
            head_timeout: Duration::from_secs(self.head_timeout),
            body_idle_timeout: Duration::from_secs(self.body_idle_timeout),
            connections: self.connections,
            connections_per_address: self.connections_per_address,
            linger: Duration::from_secs(self.linger),
            grace: Duration::from_secs(self.grace),
            ..Options::default()
        }
    }

    /// What the store of calls keeps.
    pub fn store_limits(&self) -> Limits {
        Limits {
            dead: Bound { items: self.dead_letters, bytes: self.dead_letter_size << 20 },
            dead_age: Duration::from_secs(self.dead_letter_age * 3600),
            results: Bound { items: self.results, bytes: self.result_size << 20 },
            ..Limits::default()
        }
    }
}

fn count() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=10_000_000)
}

fn seconds() -> RangedU64ValueParser<u64> {
    RangedU64ValueParser::new().range(1..=86_400)
}

/// None at all is a value too, so that a variable may be set to nothing.
#[derive(Clone, Debug)]
struct Networks(Vec<IpNet>);

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

fn networks(text: &str) -> Result<Networks, String> {
    let network = |item: &str| {
        let address = || item.parse::<IpAddr>().map(|ip| IpNet::from(ip.to_canonical()));
        item.parse::<IpNet>()
            .or_else(|_| address())
            .map_err(|_| format!("{item:?} is neither a network (10.0.0.0/8) nor an address (192.168.1.7)"))
    };
    items(text).map(network).collect::<Result<_, _>>().map(Networks)
}

fn cors(text: &str) -> Result<Cors, String> {
    match text.trim() {
        "*" => Ok(Cors::Any),
        "none" => Ok(Cors::Off),
        text => {
            let origins = items(text).map(origin).collect::<Result<Vec<_>, _>>()?;
            match origins.is_empty() {
                true => Err("expected *, none, or origins such as https://shop.example".to_owned()),
                false => Ok(Cors::Only(origins)),
            }
        }
    }
}

/// As a browser writes it: a page's scheme, host and port, and nothing behind; anything else would never match.
fn origin(text: &str) -> Result<HeaderValue, String> {
    let is_host = |host: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
        !host.is_empty() && host.chars().all(fits)
    };
    let is_scheme = |scheme: &str| {
        !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    text.split_once("://")
        .filter(|(scheme, host)| is_scheme(scheme) && is_host(host))
        .and_then(|_| HeaderValue::try_from(text.to_ascii_lowercase()).ok())
        .ok_or_else(|| {
            format!("{text:?} is no origin: write scheme, host and port, such as https://shop.example")
        })
}
