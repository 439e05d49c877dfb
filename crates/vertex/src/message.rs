//! A message on its way, and how it lies in a buffer (`isb.Message` of Numaflow).

use std::{collections::HashMap, fmt};

use bytes::Bytes;
use numaflow::proto::metadata::Metadata;
use prost::Message as _;
use prost_types::Timestamp;

use crate::buffer::Ticket;

/// Messages with this tag go nowhere.
pub const DROP: &str = "U+005C__DROP__";

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    pub id: Id,
    pub keys: Vec<String>,
    pub value: Bytes,
    pub event_time: Option<Timestamp>,
    pub headers: HashMap<String, String>,
    pub metadata: Option<Metadata>,
    /// Decide along which edges it goes; not written anywhere.
    pub tags: Vec<String>,
}

/// Where a message came from: the same after it is delivered again, so that the next buffer keeps it once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Id {
    pub vertex: String,
    pub offset: String,
    /// Among those that came of one message.
    pub index: i32,
}

/// A message that was read, and what to name when it is done.
#[derive(Clone, Debug)]
pub struct Read {
    pub message: Message,
    pub ticket: Ticket,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.vertex, self.offset, self.index)
    }
}

impl Message {
    pub fn encode(self) -> (String, Bytes) {
        let Message { id, keys, value, event_time, headers, metadata, .. } = self;
        let name = id.to_string();
        let header = wire::Header {
            message_info: Some(wire::MessageInfo { event_time, is_late: false }),
            kind: 0,
            id: Some(wire::MessageId { vertex_name: id.vertex, offset: id.offset, index: id.index }),
            keys,
            headers,
            metadata,
        };
        let message = wire::Message { header: Some(header), body: Some(wire::Body { payload: value }) };
        (name, message.encode_to_vec().into())
    }

    /// What a vertex reads is named anew, after where it was read. None for what carries no data: watermarks of other
    /// data planes.
    ///
    /// # Errors
    /// When it is none of Numaflow's messages.
    pub fn decode(payload: Bytes, vertex: &str, offset: String) -> Result<Option<Self>, prost::DecodeError> {
        let message = wire::Message::decode(payload)?;
        let header = message.header.unwrap_or_default();
        if header.kind != 0 {
            return Ok(None);
        }
        Ok(Some(Message {
            id: Id { vertex: vertex.to_owned(), offset, index: 0 },
            keys: header.keys,
            value: message.body.map(|body| body.payload).unwrap_or_default(),
            event_time: header.message_info.and_then(|info| info.event_time),
            headers: header.headers,
            metadata: header.metadata,
            tags: Vec::new(),
        }))
    }

    pub fn is_dropped(&self) -> bool {
        self.tags.iter().any(|tag| tag == DROP)
    }
}

mod wire {
    use std::collections::HashMap;

    use bytes::Bytes;
    use numaflow::proto::metadata::Metadata;
    use prost_types::Timestamp;

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Message {
        #[prost(message, optional, tag = "1")]
        pub header: Option<Header>,
        #[prost(message, optional, tag = "2")]
        pub body: Option<Body>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Header {
        #[prost(message, optional, tag = "1")]
        pub message_info: Option<MessageInfo>,
        #[prost(int32, tag = "2")]
        pub kind: i32,
        #[prost(message, optional, tag = "3")]
        pub id: Option<MessageId>,
        #[prost(string, repeated, tag = "4")]
        pub keys: Vec<String>,
        #[prost(map = "string, string", tag = "5")]
        pub headers: HashMap<String, String>,
        #[prost(message, optional, tag = "6")]
        pub metadata: Option<Metadata>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct MessageInfo {
        #[prost(message, optional, tag = "1")]
        pub event_time: Option<Timestamp>,
        #[prost(bool, tag = "2")]
        pub is_late: bool,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct MessageId {
        #[prost(string, tag = "1")]
        pub vertex_name: String,
        #[prost(string, tag = "2")]
        pub offset: String,
        #[prost(int32, tag = "3")]
        pub index: i32,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Body {
        #[prost(bytes = "bytes", tag = "1")]
        pub payload: Bytes,
    }
}
