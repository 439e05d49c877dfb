//! Watches: the log of a kind as a stream of lines.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use rand::Rng;
use schema::FieldError;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::list::parse_version;
use crate::{
    call::{Call, options_subject},
    convert,
    error::{ApiError, Result},
    http::{IncludeObject, Response, Shape, stream},
    registry::Origin,
    render,
    selectors::Filter,
    storage::{Action, Compacted, Event, ReadAt, Record, Watcher},
    table,
};

/// How long a client that names no timeout is served: at least this, at most twice this.
const MIN_TIMEOUT: u64 = 1800;
const BOOKMARK_PERIOD: Duration = Duration::from_secs(30);
/// Lines are sent together up to this size.
const CHUNK: usize = 64 << 10;

pub fn watch(call: Call) -> Result<Response> {
    let shape = Shape::from_headers(&call.headers).map_err(|_| ApiError::not_acceptable(true))?;
    let include = IncludeObject::parse(call.query.get("includeObject"))?;
    let mut filter = call.filter()?;
    if !call.target.name.is_empty() {
        filter = filter.only(&call.target.name);
    }
    let start = Start::parse(&call)?;
    let asked = parse_version(call.query.get("resourceVersion"))
        .map_err(|error| {
            ApiError::unexplained(error.to_string().replacen("invalid resource version: ", "", 1))
        })?
        .filter(|version| *version > 0);
    let timeout = match call.query.get("timeoutSeconds").parse::<u64>() {
        Ok(seconds) if seconds > 0 => seconds,
        _ => rand::rng().random_range(MIN_TIMEOUT..2 * MIN_TIMEOUT),
    };
    let prefix = call.kind.prefix(&call.target.namespace);
    let bookmarks = call.query.flag("allowWatchBookmarks");

    let mut lines = VecDeque::new();
    let mut header = true;
    let revision = match (start, asked) {
        (Start::Continue, Some(revision)) => revision,
        (Start::Silent, None) => call.store().revision(),
        (Start::Silent, Some(revision)) => revision,
        (Start::Continue | Start::Initial, _) => {
            let listing = call
                .store()
                .list(call.kind.table, &prefix, None, ReadAt::Latest, usize::MAX, |record| {
                    filter.matches(record)
                })
                .map_err(|_| ApiError::internal("the present is always readable"))?;
            let shaper = Shaper { call: &call, shape, include };
            for record in &listing.records {
                lines.push_back(shaper.line("ADDED", record, std::mem::take(&mut header)));
            }
            if start == Start::Initial {
                lines.push_back(shaper.bookmark(listing.revision, true));
            }
            listing.revision
        }
    };
    let now = Instant::now();
    let feed = Feed {
        watcher: call.store().watch(call.kind.table, revision),
        deadline: now + Duration::from_secs(timeout),
        next_bookmark: bookmarks.then(|| now + BOOKMARK_PERIOD),
        seen: revision,
        call,
        shape,
        include,
        filter,
        prefix,
        lines,
        header,
        done: false,
    };
    let lines =
        futures::stream::unfold(feed, async |mut feed| feed.next().await.map(|bytes| (Ok(bytes), feed)));
    Ok(stream(200, "application/json", Box::pin(lines)))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// `sendInitialEvents=true`: the present as ADDED events, then a bookmark that says so.
    Initial,
    /// `sendInitialEvents=false`.
    Silent,
    /// From the given resource version; without one, the present as ADDED events.
    Continue,
}

impl Start {
    fn parse(call: &Call) -> Result<Self> {
        let invalid = |field: &str, why: &str| {
            Err(ApiError::invalid(&options_subject("ListOptions"), "", &[FieldError::forbidden(field, why)]))
        };
        let matching = call.query.get("resourceVersionMatch");
        if !call.query.has("sendInitialEvents") {
            if !matching.is_empty() {
                return invalid(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                );
            }
            return Ok(Self::Continue);
        }
        if matching != "NotOlderThan" {
            return invalid(
                "resourceVersionMatch",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            );
        }
        let initial = call.query.flag("sendInitialEvents");
        if initial && !call.query.flag("allowWatchBookmarks") {
            return invalid(
                "allowWatchBookmarks",
                "sendInitialEvents requires setting allowWatchBookmarks to true",
            );
        }
        Ok(if initial { Self::Initial } else { Self::Silent })
    }
}

struct Feed {
    call: Call,
    watcher: Watcher,
    filter: Filter,
    prefix: String,
    shape: Shape,
    include: IncludeObject,
    lines: VecDeque<Bytes>,
    /// Whether the next table has to carry its columns.
    header: bool,
    /// Up to here the client knows everything.
    seen: u64,
    deadline: Instant,
    next_bookmark: Option<Instant>,
    done: bool,
}

impl Feed {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.take_lines() {
                return Some(bytes);
            }
            if self.done {
                return None;
            }
            match self.watcher.poll_events() {
                Ok((events, revision)) => {
                    for event in events {
                        self.add(&event);
                    }
                    self.seen = self.seen.max(revision);
                }
                Err(Compacted { oldest }) => {
                    let error =
                        ApiError::expired(format!("too old resource version: {} ({oldest})", self.seen));
                    self.lines.push_back(line("ERROR", error.to_status().to_string().as_bytes()));
                    self.done = true;
                }
            }
            let kind = &self.call.kind;
            if kind.origin == Origin::Custom
                && self.call.server.registry().resource(&kind.group, &kind.plural).is_none()
            {
                self.done = true;
            }
            if self.done || !self.lines.is_empty() {
                continue;
            }
            let wake = self.next_bookmark.map_or(self.deadline, |at| at.min(self.deadline));
            tokio::select! {
                () = self.watcher.changed() => {}
                () = tokio::time::sleep_until(wake) => {
                    let now = Instant::now();
                    if let Some(at) = &mut self.next_bookmark {
                        *at = now + BOOKMARK_PERIOD;
                        let shaper = Shaper { call: &self.call, shape: self.shape, include: self.include };
                        self.lines.push_back(shaper.bookmark(self.seen, false));
                    }
                    self.done = now >= self.deadline;
                }
            }
        }
    }

    fn take_lines(&mut self) -> Option<Bytes> {
        let first = self.lines.pop_front()?;
        if self.lines.is_empty() {
            return Some(first);
        }
        let mut chunk = Vec::with_capacity(CHUNK.min(first.len() * (self.lines.len() + 1)));
        chunk.extend_from_slice(&first);
        while let Some(next) = self.lines.front()
            && chunk.len() + next.len() <= CHUNK
        {
            chunk.extend_from_slice(next);
            self.lines.pop_front();
        }
        Some(Bytes::from(chunk))
    }

    fn add(&mut self, event: &Event) {
        let concerns = |record: &Record| record.key.starts_with(&self.prefix) && self.filter.matches(record);
        let now = event.action != Action::Deleted && concerns(&event.record);
        let before = event.previous.as_deref().is_some_and(concerns);
        let action = match (before, now) {
            (false, false) => return,
            (false, true) => Action::Added,
            (true, true) => Action::Modified,
            (true, false) => Action::Deleted,
        };
        let shaper = Shaper { call: &self.call, shape: self.shape, include: self.include };
        let line = if action == event.action && shaper.is_plain(&event.record) {
            event.line.get(|| line(action.name(), event.record.json())).clone()
        } else if action == event.action {
            shaper.line(action.name(), &event.record, std::mem::take(&mut self.header))
        } else if let (Action::Deleted, Some(previous)) = (action, &event.previous) {
            // It left the selection: shown as it last was inside, at the revision at which it left.
            let last = previous.at_revision(event.revision);
            shaper.line(action.name(), &last, std::mem::take(&mut self.header))
        } else {
            shaper.line(action.name(), &event.record, std::mem::take(&mut self.header))
        };
        self.lines.push_back(line);
    }
}

fn line(action: &str, object: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(object.len() + 40);
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(action.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    out.extend_from_slice(object);
    out.extend_from_slice(b"}\n");
    Bytes::from(out)
}

struct Shaper<'a> {
    call: &'a Call,
    shape: Shape,
    include: IncludeObject,
}

impl Shaper<'_> {
    fn is_plain(&self, record: &Record) -> bool {
        self.shape == Shape::Object && render::as_stored(record, &self.call.kind, self.call.version)
    }

    fn line(&self, action: &str, record: &Record, header: bool) -> Bytes {
        if self.shape == Shape::Object {
            return line(action, &render::bytes(record, &self.call.kind, self.call.version));
        }
        let object = match self.shape {
            Shape::Table => record.to_value(),
            _ => convert::load(record, &self.call.kind, self.call.version),
        };
        line(action, self.shaped(&object, header).to_string().as_bytes())
    }

    fn shaped(&self, object: &Value, header: bool) -> Value {
        match self.shape {
            Shape::Object => object.clone(),
            Shape::Metadata => render::partial(object),
            Shape::Table => {
                let meta = json!({"resourceVersion": crate::object::resource_version(object)});
                let columns = table::columns(&self.call.kind, self.call.version);
                table::table(columns, &[object], self.include, meta, jiff::Timestamp::now(), header)
            }
        }
    }

    fn bookmark(&self, revision: u64, initial_end: bool) -> Bytes {
        let mut object = json!({
            "kind": self.call.kind.kind,
            "apiVersion": self.call.api_version(),
            "metadata": {"resourceVersion": revision.to_string(), "creationTimestamp": null},
        });
        if initial_end {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        line("BOOKMARK", self.shaped(&object, false).to_string().as_bytes())
    }
}
