//! A watch that loses or repeats events, and ends when its controller's process is gone.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use kube::client::Body;

use crate::{Answer, BoxError, Faults, Gone};

pub fn disturbed(body: Body, faults: Faults) -> Answer {
    let frames = body.into_data_stream().map_err(BoxError::from);
    let events = lines(frames).scan(0, move |count, line| {
        *count += 1;
        let sent = match line {
            _ if faults.has_crashed() => vec![Err(Gone.into())],
            Ok(_) if is_due(faults.plan.lose_event, *count) => Vec::new(),
            Ok(line) if is_due(faults.plan.repeat_event, *count) => vec![Ok(line.clone()), Ok(line)],
            other => vec![other],
        };
        std::future::ready(Some(stream::iter(sent)))
    });
    let frames = events.flatten().map_ok(Frame::data);
    StreamBody::new(frames).boxed_unsync()
}

fn is_due(every: Option<usize>, count: usize) -> bool {
    every.is_some_and(|every| count.is_multiple_of(every))
}

/// The events of a watch, one a line, however the server cut them into frames.
fn lines(
    frames: impl futures::Stream<Item = Result<Bytes, BoxError>> + Send + 'static,
) -> impl futures::Stream<Item = Result<Bytes, BoxError>> + Send + 'static {
    stream::unfold((Box::pin(frames), Vec::new()), |(mut frames, mut pending)| async move {
        loop {
            if let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
                let rest = pending.split_off(end + 1);
                return Some((Ok(Bytes::from(pending)), (frames, rest)));
            }
            match frames.next().await {
                Some(Ok(frame)) => pending.extend_from_slice(&frame),
                Some(Err(error)) => return Some((Err(error), (frames, Vec::new()))),
                None => return None,
            }
        }
    })
}
