//! What is over by itself and what is not: a cluster that elects its leader is waited for, a server without JetStream is
//! not.

use std::error::Error as StdError;

use async_nats::{
    ConnectError, ConnectErrorKind,
    jetstream::{
        self, ErrorCode,
        context::{CreateStreamError, CreateStreamErrorKind},
    },
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Passes without anybody doing anything.
    Temporary(String),
    /// May be either: it lasts if it is still there when a cluster has long had the time to come up.
    Doubtful(String),
    /// Stays until somebody does what the words say.
    Lasting(String),
}

impl Trouble {
    pub fn of_connection(error: &ConnectError) -> Self {
        let words = shown(error);
        match error.kind() {
            ConnectErrorKind::Io
            | ConnectErrorKind::Dns
            | ConnectErrorKind::TimedOut
            | ConnectErrorKind::MaxReconnects => Self::Temporary(words),
            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                Self::Lasting(format!(
                    "{words}; give the account that NATS expects with --nats-credentials-file or --nats-nkey-file"
                ))
            }
            ConnectErrorKind::Tls => Self::Lasting(format!(
                "{words}; name the CA of the servers with --nats-ca-file, and a client certificate if they ask for one"
            )),
            ConnectErrorKind::ServerParse => {
                Self::Lasting(format!("{words}; write nats://HOST:PORT[,HOST:PORT…]"))
            }
        }
    }

    /// Of a stream or bucket that cannot be made, by its causes.
    pub fn of_creation(error: &(dyn StdError + 'static), replicas: usize) -> Self {
        let words = shown(error);
        for cause in causes(error) {
            let kind = cause.downcast_ref::<CreateStreamError>().map(CreateStreamError::kind);
            let refusal = match &kind {
                Some(CreateStreamErrorKind::JetStream(refusal)) => Some(refusal),
                _ => cause.downcast_ref::<jetstream::Error>(),
            };
            if let Some(refusal) = refusal {
                return Self::of_refusal(refusal, words, replicas);
            }
            match kind {
                Some(CreateStreamErrorKind::TimedOut) => return Self::Temporary(words),
                Some(CreateStreamErrorKind::JetStreamUnavailable) => {
                    return Self::Doubtful(format!("{words}; is JetStream enabled there (-js)?"));
                }
                _ => {}
            }
        }
        Self::Doubtful(format!("{words}; it must be NATS 2.12 or newer, with JetStream (-js)"))
    }

    fn of_refusal(refusal: &jetstream::Error, words: String, replicas: usize) -> Self {
        let servers = || format!("{words}; --store-replicas={replicas} needs as many servers with JetStream");
        match (refusal.code(), refusal.error_code()) {
            (503, _) | (_, ErrorCode::CLUSTER_NOT_AVAILABLE | ErrorCode::CLUSTER_NOT_LEADER) => {
                Self::Temporary(words)
            }
            (_, ErrorCode::CLUSTER_NO_PEERS) => Self::Doubtful(servers()),
            (_, ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED) => Self::Lasting(servers()),
            _ => Self::Lasting(words),
        }
    }
}

fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn StdError + 'static)| (*error).source())
}

fn shown(error: &(dyn StdError + 'static)) -> String {
    let mut words = error.to_string();
    for cause in causes(error).skip(1).map(ToString::to_string) {
        if !words.contains(&cause) {
            words.push_str(": ");
            words.push_str(&cause);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn refused(code: usize, error_code: u64, words: &str) -> CreateStreamError {
        let json = serde_json::json!({"code": code, "err_code": error_code, "description": words});
        let refusal: jetstream::Error = serde_json::from_value(json).unwrap();
        CreateStreamError::new(CreateStreamErrorKind::JetStream(refusal))
    }

    #[test]
    fn only_what_will_not_change_ends_it() {
        let mut told = String::new();
        for error in [
            refused(503, 10008, "JetStream system temporarily unavailable"),
            refused(500, 10009, "JetStream cluster not leader"),
            refused(400, 10005, "no suitable peers for placement"),
            refused(500, 10074, "replicas > 1 not supported in non-clustered mode"),
            refused(400, 10058, "stream name already in use with a different configuration"),
            CreateStreamError::new(CreateStreamErrorKind::TimedOut),
            CreateStreamError::new(CreateStreamErrorKind::JetStreamUnavailable),
        ] {
            told.push_str(&format!("{:?}\n", Trouble::of_creation(&error, 3)));
        }
        for kind in
            [ConnectErrorKind::Io, ConnectErrorKind::TimedOut, ConnectErrorKind::AuthorizationViolation]
        {
            told.push_str(&format!("{:?}\n", Trouble::of_connection(&ConnectError::new(kind))));
        }
        expect![[r#"
            Temporary("jetstream error: JetStream system temporarily unavailable (code 503, error code 10008)")
            Temporary("jetstream error: JetStream cluster not leader (code 500, error code 10009)")
            Doubtful("jetstream error: no suitable peers for placement (code 400, error code 10005); --store-replicas=3 needs as many servers with JetStream")
            Lasting("jetstream error: replicas > 1 not supported in non-clustered mode (code 500, error code 10074); --store-replicas=3 needs as many servers with JetStream")
            Lasting("jetstream error: stream name already in use with a different configuration (code 400, error code 10058)")
            Temporary("jetstream request timed out")
            Doubtful("jetstream unavailable; is JetStream enabled there (-js)?")
            Temporary("IO error")
            Temporary("timed out")
            Lasting("authorization violation; give the account that NATS expects with --nats-credentials-file or --nats-nkey-file")
        "#]].assert_eq(&told);
    }
}
