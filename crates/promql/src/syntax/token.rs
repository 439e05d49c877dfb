//! From text to tokens. What a token is depends on where it stands: between braces there are no keywords, between
//! square brackets no names.

use super::literal;
use super::place::{Fault, Span};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    /// `up`, `sum`, `and`, also `job:rate5m`.
    Word(String),
    Number(f64),
    /// In milliseconds.
    Duration(i64),
    Text(String),
    /// Punctuation and operators.
    Sign(&'static str),
    End,
}

impl Token {
    /// As errors speak of it.
    pub(crate) fn shown(&self) -> String {
        let cut = |text: &str| match text.char_indices().nth(40) {
            Some((at, _)) => format!("{:?}…", &text[..at]),
            None => format!("{text:?}"),
        };
        match self {
            Self::Word(word) if is_keyword(word) => format!("<{}>", word.to_ascii_lowercase()),
            Self::Word(word) => format!("identifier {}", cut(word)),
            Self::Number(n) => format!("number \"{}\"", crate::format::plain(*n)),
            Self::Duration(ms) => format!("duration \"{}\"", literal::show_duration(*ms)),
            Self::Text(text) => format!("string {}", cut(text)),
            Self::Sign(sign) if "+-*/%^==!=<=>=@".contains(sign) => format!("<op:{sign}>"),
            Self::Sign(sign) => format!("{sign:?}"),
            Self::End => "end of input".into(),
        }
    }

    pub(crate) fn is_word(&self, wanted: &str) -> bool {
        matches!(self, Self::Word(word) if word.eq_ignore_ascii_case(wanted))
    }
}

/// Words that cannot name a metric where an operator or a modifier may stand.
const KEYWORDS: [&str; 27] = [
    "and",
    "or",
    "unless",
    "atan2",
    "offset",
    "smoothed",
    "anchored",
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
    "fill",
    "fill_left",
    "fill_right",
    "bool",
    "sum",
    "avg",
    "count",
    "min",
    "max",
    "group",
    "stddev",
    "stdvar",
    "topk",
    "bottomk",
];

pub(crate) fn is_keyword(word: &str) -> bool {
    KEYWORDS.iter().any(|k| k.eq_ignore_ascii_case(word))
        || ["count_values", "quantile", "limitk", "limit_ratio"].iter().any(|k| k.eq_ignore_ascii_case(word))
}

/// Longer ones first.
const SIGNS: [&str; 25] = [
    "==", "!=", "<=", ">=", "=~", "!~", "</", ">/", "=", "<", ">", "+", "-", "*", "/", "%", "^", "(", ")",
    "{", "}", "[", "]", ",", "@",
];

/// All tokens with their places; the last is the end.
pub(crate) fn tokens(text: &str) -> Result<Vec<(Token, Span)>, Fault> {
    let mut lexer = Lexer { text, at: 0, in_braces: false, in_brackets: false };
    let mut all = Vec::new();
    loop {
        lexer.skip_blank();
        let start = lexer.at;
        let token = lexer.next()?;
        let span = Span { start, end: lexer.at };
        let is_end = token == Token::End;
        all.push((token, span));
        if is_end {
            return Ok(all);
        }
    }
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    in_braces: bool,
    in_brackets: bool,
}

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn fault(&self, message: impl Into<String>) -> Fault {
        Fault::new(Span { start: self.at, end: self.text.len() }, message)
    }

    /// Spaces and comments.
    fn skip_blank(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches([' ', '\t', '\n', '\r']);
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with('#') {
                return;
            }
            self.at += trimmed.find(['\n', '\r']).unwrap_or(trimmed.len());
        }
    }

    fn next(&mut self) -> Result<Token, Fault> {
        let rest = self.rest();
        let Some(c) = rest.chars().next() else {
            return match (self.in_braces, self.in_brackets) {
                (true, _) => Err(self.fault("unexpected end of input inside braces, expected \"}\"")),
                (_, true) => Err(self.fault("unclosed left bracket, expected \"]\"")),
                _ => Ok(Token::End),
            };
        };
        if matches!(c, '"' | '\'' | '`') {
            let (text, length) = literal::text(rest).map_err(|why| self.fault(why))?;
            self.at += length;
            return Ok(Token::Text(text));
        }
        if !self.in_braces
            && (c.is_ascii_digit() || (c == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())))
        {
            let (token, length) = literal::number_or_duration(rest).map_err(|why| self.fault(why))?;
            self.at += length;
            return Ok(token);
        }
        let has_colons = !self.in_braces && !self.in_brackets;
        let in_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || (has_colons && c == ':');
        if in_word(c) && !c.is_ascii_digit() {
            let end = rest.find(|c| !in_word(c)).unwrap_or(rest.len());
            let word = &rest[..end];
            self.at += end;
            return Ok(match word.to_ascii_lowercase().as_str() {
                "inf" if !self.in_braces => Token::Number(f64::INFINITY),
                "nan" if !self.in_braces => Token::Number(f64::NAN),
                _ => Token::Word(word.to_string()),
            });
        }
        if self.in_brackets && c == ':' {
            self.at += 1;
            return Ok(Token::Sign(":"));
        }
        let Some(sign) = SIGNS.iter().copied().find(|sign| rest.starts_with(sign)) else {
            return Err(match c {
                '!' => {
                    let next = rest[1..].chars().next().map_or("end of input".into(), |c| format!("{c:?}"));
                    self.fault(format!("unexpected character after '!': {next}, expected '=' or '~'"))
                }
                _ => self.fault(format!("unexpected character: {c:?}")),
            });
        };
        self.open_or_close(sign)?;
        self.at += sign.len();
        Ok(Token::Sign(sign))
    }

    fn open_or_close(&mut self, sign: &str) -> Result<(), Fault> {
        match sign {
            "{" if self.in_braces => return Err(self.fault("unexpected left brace '{' inside braces")),
            "[" if self.in_brackets => return Err(self.fault("unexpected left bracket '[' inside brackets")),
            "]" if !self.in_brackets => return Err(self.fault("unexpected right bracket ']'")),
            "=~" | "!~" if !self.in_braces => {
                return Err(self.fault(format!("unexpected {sign:?} outside of braces")));
            }
            "{" => self.in_braces = true,
            "}" => self.in_braces = false,
            "[" => self.in_brackets = true,
            "]" => self.in_brackets = false,
            _ => {}
        }
        Ok(())
    }
}
