//! The commands of a test file.

use std::sync::LazyLock;

use regex::Regex;

use super::SyntaxError;
use super::series::{self, Item};
use crate::engine::Steps;
use crate::labels::Labels;
use crate::syntax::parse_duration;

#[derive(Debug)]
pub(super) enum Command {
    Clear,
    Load(Load),
    Eval(Box<Eval>),
}

#[derive(Debug)]
pub(super) struct Load {
    pub(super) line: usize,
    pub(super) interval: i64,
    /// Classic histograms also become native ones.
    pub(super) with_native: bool,
    pub(super) series: Vec<Loaded>,
}

#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) labels: Labels,
    pub(super) items: Vec<Item>,
    /// A line before it gave its samples start timestamps.
    pub(super) start_timestamps: bool,
}

#[derive(Debug)]
pub(super) struct Eval {
    pub(super) line: usize,
    pub(super) query: String,
    pub(super) when: When,
    pub(super) expect: Expect,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum When {
    Instant(i64),
    Range(Steps),
}

#[derive(Debug, Default)]
pub(super) struct Expect {
    pub(super) fail: Option<Text>,
    pub(super) ordered: bool,
    pub(super) warn: Vec<Text>,
    pub(super) info: Vec<Text>,
    pub(super) no_warn: bool,
    pub(super) no_info: bool,
    pub(super) string: Option<String>,
    pub(super) scalar: Option<f64>,
    pub(super) series: Vec<(Labels, Vec<Item>)>,
    /// Times of the expected samples of a range vector.
    pub(super) range_vector: Option<Steps>,
}

/// What a message must be like.
#[derive(Debug)]
pub(super) enum Text {
    Any,
    Exactly(String),
    Like(Regex),
}

impl Text {
    pub(super) fn accepts(&self, message: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exactly(text) => text == message,
            Self::Like(regex) => regex.is_match(message),
        }
    }
}

pub(super) fn parse(text: &str) -> Result<Vec<Command>, SyntaxError> {
    let lines: Vec<&str> =
        text.lines().map(str::trim).map(|l| if l.starts_with('#') { "" } else { l }).collect();
    let mut commands = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = at + 1;
        let error = |message: String| SyntaxError { line, message };
        let head = lines[at];
        at += 1;
        if head.is_empty() {
            continue;
        }
        let block = &lines[at..];
        let body = &block[..block.iter().position(|l| l.is_empty()).unwrap_or(block.len())];
        let word = head.split_whitespace().next().unwrap_or("").to_lowercase();
        if word == "clear" {
            commands.push(Command::Clear);
        } else if word.starts_with("load") {
            commands.push(Command::Load(load(line, head, body)?));
            at += body.len();
        } else if word.starts_with("eval") {
            let (eval, used) = eval(line, head, body)?;
            commands.push(Command::Eval(Box::new(eval)));
            at += used;
        } else {
            return Err(error(format!("{head:?} is no command: use load, clear or eval")));
        }
    }
    Ok(commands)
}

fn load(line: usize, head: &str, body: &[&str]) -> Result<Load, SyntaxError> {
    let error = |line: usize, message: String| SyntaxError { line, message };
    let (command, interval) =
        head.split_once(char::is_whitespace).ok_or_else(|| error(line, "load needs an interval".into()))?;
    let interval = duration(interval).map_err(|e| error(line, e))?;
    let mut all = Vec::new();
    let mut start_timestamps = false;
    for (text, line) in body.iter().zip(line + 1..) {
        let first = text.split_whitespace().next().unwrap_or("");
        if first.ends_with("@st") {
            start_timestamps = true;
            continue;
        }
        let (labels, items) = series::parse(text).map_err(|e| error(line, e))?;
        // Within one load the later line of a series replaces the earlier.
        all.retain(|loaded: &Loaded| loaded.labels != labels);
        all.push(Loaded { labels, items, start_timestamps });
        start_timestamps = false;
    }
    Ok(Load { line, interval, with_native: command == "load_with_nhcb", series: all })
}

/// The command and how many lines of the body belong to it.
fn eval(line: usize, head: &str, body: &[&str]) -> Result<(Eval, usize), SyntaxError> {
    static INSTANT: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"^eval(?:_(fail|warn|ordered|info))?\s+instant\s+at\s+(\S+)\s+(.+)$").ok()
    });
    static RANGE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"^eval(?:_(fail|warn|info))?\s+range\s+from\s+(\S+)\s+to\s+(\S+)\s+step\s+(\S+)\s+(.+)$")
            .ok()
    });
    let error = |line: usize, message: String| SyntaxError { line, message };
    let time = |text: &str| duration(text).map_err(|e| error(line, e));
    let captures = |regex: &'static LazyLock<Option<Regex>>| regex.as_ref().and_then(|r| r.captures(head));
    let (kind, when, query) = if let Some(c) = captures(&INSTANT) {
        (c.get(1), When::Instant(time(&c[2])?), c[3].to_string())
    } else if let Some(c) = captures(&RANGE) {
        let steps = Steps { start: time(&c[2])?, end: time(&c[3])?, step: time(&c[4])? };
        (c.get(1), When::Range(steps), c[5].to_string())
    } else {
        let message =
            "expected `eval instant at TIME QUERY` or `eval range from TIME to TIME step TIME QUERY`";
        return Err(error(line, message.into()));
    };
    let mut expect = Expect::default();
    match kind.map(|k| k.as_str()) {
        Some("fail") => expect.fail = Some(Text::Any),
        Some("warn") => expect.warn.push(Text::Any),
        Some("info") => expect.info.push(Text::Any),
        Some("ordered") => expect.ordered = true,
        _ => {}
    }
    let mut used = 0;
    for (text, line) in body.iter().zip(line + 1..) {
        used += 1;
        if expect.line(text).map_err(|e| error(line, e))? == Line::Last {
            break;
        }
    }
    Ok((Eval { line, query, when, expect }, used))
}

#[derive(PartialEq)]
enum Line {
    More,
    Last,
}

impl Expect {
    fn line(&mut self, text: &str) -> Result<Line, String> {
        if let Some(message) = text.strip_prefix("expected_fail_message") {
            self.fail = Some(Text::Exactly(message.trim().to_string()));
            return Ok(Line::Last);
        }
        if let Some(pattern) = text.strip_prefix("expected_fail_regexp") {
            self.fail = Some(like(pattern.trim())?);
            return Ok(Line::Last);
        }
        if let Some(steps) = text.strip_prefix("expect range vector") {
            self.range_vector = Some(range_vector(steps)?);
            return Ok(Line::More);
        }
        if let Some(string) = text.strip_prefix("expect string") {
            self.string = Some(series::unquote(string.trim())?.0);
            return Ok(Line::More);
        }
        if text.split(' ').next() == Some("expect") {
            self.annotation(text.trim_start_matches("expect").trim())?;
            return Ok(Line::More);
        }
        if let Some(value) = series::number(text) {
            self.scalar = Some(value);
            return Ok(Line::Last);
        }
        self.series.push(series::parse(text)?);
        Ok(Line::More)
    }

    fn annotation(&mut self, text: &str) -> Result<(), String> {
        let (what, message) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let message = message.trim();
        let text = match (message.strip_prefix("msg:"), message.strip_prefix("regex:")) {
            (Some(exact), _) => Text::Exactly(without_position(exact.trim())),
            (_, Some(pattern)) => like(&without_position(pattern.trim()))?,
            _ => Text::Any,
        };
        match what {
            "fail" => self.fail = Some(text),
            "warn" => self.warn.push(text),
            "info" => self.info.push(text),
            "no_warn" => self.no_warn = true,
            "no_info" => self.no_info = true,
            "ordered" => self.ordered = true,
            other => return Err(format!("unknown expectation {other:?}")),
        }
        Ok(())
    }
}

/// Cuts ` (1:5)`, or the pattern ` \([0-9]+:[0-9]+\)`, off the end.
fn without_position(text: &str) -> String {
    match text.rfind(" (").or_else(|| text.rfind(r" \(")) {
        Some(at) if text[at..].contains(':') && text.ends_with(')') => text[..at].to_string(),
        _ => text.to_string(),
    }
}

fn like(pattern: &str) -> Result<Text, String> {
    Regex::new(pattern).map(Text::Like).map_err(|e| e.to_string())
}

fn range_vector(text: &str) -> Result<Steps, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let ["from", start, "to", end, "step", step] = words[..] else {
        return Err("expected `expect range vector from TIME to TIME step TIME`".into());
    };
    Ok(Steps { start: duration(start)?, end: duration(end)?, step: duration(step)? })
}

fn duration(text: &str) -> Result<i64, String> {
    // Sums of some of them must not overflow.
    parse_duration(text)
        .filter(|ms| *ms <= 1 << 53)
        .ok_or_else(|| format!("{text:?} is no duration: write for example 30s, 1h30m, 0"))
}
