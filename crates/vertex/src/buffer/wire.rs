//! What goes between a pod and the process that has the embedded buffers, as protocol buffers.

use prost::Message;

use super::Error;

#[derive(Clone, PartialEq, Message)]
pub struct Publish {
    #[prost(message, repeated, tag = "1")]
    pub messages: Vec<PublishOne>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PublishOne {
    #[prost(string, optional, tag = "1")]
    pub id: Option<String>,
    #[prost(bytes = "bytes", tag = "2")]
    pub payload: bytes::Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub struct Published {
    #[prost(message, repeated, tag = "1")]
    pub answers: Vec<Answer>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Answer {
    #[prost(bool, tag = "1")]
    pub is_duplicate: bool,
    #[prost(message, optional, tag = "2")]
    pub failure: Option<Failure>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Fetch {
    #[prost(uint64, tag = "1")]
    pub max: u64,
    #[prost(uint64, tag = "2")]
    pub wait_ms: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Fetched {
    #[prost(message, repeated, tag = "1")]
    pub deliveries: Vec<Delivery>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Delivery {
    #[prost(uint64, tag = "1")]
    pub sequence: u64,
    #[prost(uint64, tag = "2")]
    pub attempt: u64,
    #[prost(bytes = "bytes", tag = "3")]
    pub payload: bytes::Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub struct Settle {
    #[prost(uint64, repeated, tag = "1")]
    pub sequences: Vec<u64>,
    #[prost(uint64, tag = "2")]
    pub delay_ms: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Info {
    #[prost(uint64, tag = "1")]
    pub pending: u64,
    #[prost(uint64, tag = "2")]
    pub ack_pending: u64,
    #[prost(uint64, tag = "3")]
    pub ack_wait_ms: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Failure {
    #[prost(enumeration = "Kind", tag = "1")]
    pub kind: i32,
    /// The buffer for those that name one, else what happened.
    #[prost(string, tag = "2")]
    pub words: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Kind {
    Unavailable = 0,
    NotFound = 1,
    Full = 2,
    Refused = 3,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (kind, words) = match error {
            Error::NotFound(name) => (Kind::NotFound, name),
            Error::Full(name) => (Kind::Full, name),
            Error::Refused(words) => (Kind::Refused, words),
            Error::Unavailable(words) => (Kind::Unavailable, words),
        };
        Failure { kind: kind.into(), words }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure.kind() {
            Kind::NotFound => Error::NotFound(failure.words),
            Kind::Full => Error::Full(failure.words),
            Kind::Refused => Error::Refused(failure.words),
            Kind::Unavailable => Error::Unavailable(failure.words),
        }
    }
}
