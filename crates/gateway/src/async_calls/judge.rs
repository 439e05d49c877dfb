//! What becomes of a call after an attempt.

use std::time::Duration;

use api::slimfaas::Attempts;
use bytes::Bytes;
use http::HeaderMap;

/// How an attempt ended.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Answered(Answer),
    /// The pod may have seen it.
    Broken(String),
    /// No pod has seen it.
    NotSent(String),
    /// It may not be sent at all any more.
    NotAllowed(String),
    TimedOut,
}

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    /// None if it was too large to keep.
    pub body: Option<Bytes>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Done,
    Again(Duration),
    Dead(String),
}

/// A broken connection counts as status 500. What no pod has seen, or none has answered in time, is always tried again.
pub(crate) fn judge(rules: &Attempts, attempt: u32, outcome: &Outcome) -> Verdict {
    let is_final = |status: u16| !rules.statuses.contains(&status);
    let why = match outcome {
        Outcome::Answered(answer) if is_final(answer.status) => return Verdict::Done,
        Outcome::Broken(_) if is_final(500) => return Verdict::Done,
        Outcome::NotAllowed(why) => return Verdict::Dead(format!("not made: {why}")),
        Outcome::Answered(answer) => format!("the answer was {}", answer.status),
        Outcome::Broken(error) => format!("the connection broke: {error}"),
        Outcome::NotSent(error) => format!("the pod took no connection: {error}"),
        Outcome::TimedOut => format!("there was no answer within {:?}", rules.timeout),
    };
    match rules.delays.get(attempt.saturating_sub(1) as usize) {
        Some(delay) => Verdict::Again(*delay),
        None => Verdict::Dead(format!("given up after attempt {attempt}: {why}")),
    }
}

pub(crate) fn is_last(rules: &Attempts, attempt: u32) -> bool {
    attempt as usize > rules.delays.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16) -> Outcome {
        Outcome::Answered(Answer { status, headers: HeaderMap::new(), body: None })
    }

    #[test]
    fn attempts_and_verdicts() {
        let rules = Attempts::default();
        let again = |seconds| Verdict::Again(Duration::from_secs(seconds));
        for (attempt, outcome, verdict) in [
            (1, answered(200), Verdict::Done),
            (1, answered(404), Verdict::Done),
            (4, answered(200), Verdict::Done),
            (1, answered(500), again(2)),
            (2, answered(503), again(4)),
            (3, answered(502), again(8)),
            (1, Outcome::TimedOut, again(2)),
            (2, Outcome::Broken("reset".into()), again(4)),
            (3, Outcome::NotSent("refused".into()), again(8)),
        ] {
            assert_eq!(judge(&rules, attempt, &outcome), verdict, "{attempt} {outcome:?}");
            assert_eq!(is_last(&rules, attempt), attempt > 3);
        }
        for (outcome, reason) in [
            (answered(500), "given up after attempt 4: the answer was 500"),
            (Outcome::TimedOut, "given up after attempt 4: there was no answer within 120s"),
            (Outcome::Broken("reset".into()), "given up after attempt 4: the connection broke: reset"),
            (Outcome::NotSent("no".into()), "given up after attempt 4: the pod took no connection: no"),
        ] {
            assert_eq!(judge(&rules, 4, &outcome), Verdict::Dead(reason.to_owned()));
        }
    }

    #[test]
    fn only_the_named_statuses_are_tried_again() {
        let rules = Attempts { delays: Vec::new(), statuses: vec![418], ..Attempts::default() };
        assert!(is_last(&rules, 1));
        assert_eq!(judge(&rules, 1, &answered(500)), Verdict::Done);
        assert_eq!(judge(&rules, 1, &Outcome::Broken("reset".into())), Verdict::Done);
        assert!(matches!(judge(&rules, 1, &answered(418)), Verdict::Dead(_)));
        assert!(matches!(judge(&rules, 1, &Outcome::TimedOut), Verdict::Dead(_)));
    }
}
