//! Label selectors: `app=web,tier in (a,b),!legacy`.

use std::fmt;

use serde_json::Value;

use crate::storage::Labels;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    Exists,
    DoesNotExist,
    In(Vec<String>),
    NotIn(Vec<String>),
    GreaterThan(i64),
    LessThan(i64),
}

/// What is wrong with a selector, in the words of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

// === impl Error ===

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

// === impl LabelSelector ===

impl LabelSelector {
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut parser = Parser { tokens: tokens(text), at: 0 };
        let mut requirements = Vec::new();
        if parser.peek() == &Token::End {
            return Ok(Self::default());
        }
        loop {
            if !matches!(parser.peek(), Token::Word(_) | Token::Not) {
                return Err(expected("!, identifier, or 'end of string'", parser.peek()));
            }
            requirements.push(
                parser
                    .requirement()
                    .map_err(|Error(why)| Error(format!("unable to parse requirement: {why}")))?,
            );
            match parser.next() {
                Token::End => return Ok(Self(requirements)),
                Token::Comma => match parser.peek() {
                    Token::Word(_) | Token::Not => {}
                    other => return Err(expected("identifier after ','", other)),
                },
                other => return Err(expected("',' or 'end of string'", &other)),
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|requirement| {
            let value = labels.iter().find(|(key, _)| **key == *requirement.key).map(|(_, value)| &**value);
            requirement.operator.accepts(value)
        })
    }

    /// From the `LabelSelector` of an API object. None if it cannot be understood.
    pub fn structured(selector: &Value) -> Option<Self> {
        Self::parse(&structured_to_text(selector)).ok()
    }

    pub fn matches_object(&self, object: &Value) -> bool {
        self.0.iter().all(|requirement| {
            let value = object["metadata"]["labels"].get(&requirement.key).and_then(Value::as_str);
            requirement.operator.accepts(value)
        })
    }
}

impl Operator {
    fn accepts(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
            Self::In(values) => value.is_some_and(|value| values.iter().any(|one| one == value)),
            Self::NotIn(values) => value.is_none_or(|value| values.iter().all(|one| one != value)),
            Self::GreaterThan(bound) => number().is_some_and(|number| number > *bound),
            Self::LessThan(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

/// `{matchLabels: {app: web}, matchExpressions: […]}` as text: what a Scale's status shows.
pub fn structured_to_text(selector: &Value) -> String {
    let mut parts: Vec<(String, String)> = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        parts.push((key.clone(), format!("{key}={}", value.as_str().unwrap_or_default())));
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> =
            expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let text = match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        parts.push((key.to_owned(), text));
    }
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}

// === the grammar ===

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Not,
    Equals,
    DoubleEquals,
    NotEquals,
    Greater,
    Less,
    Open,
    Close,
    Comma,
    End,
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(&next) = chars.peek() {
        if next.is_whitespace() {
            chars.next();
            continue;
        }
        let token = match next {
            '!' | '=' => {
                chars.next();
                let doubled = chars.next_if_eq(&'=').is_some();
                match (next, doubled) {
                    ('!', true) => Token::NotEquals,
                    ('!', false) => Token::Not,
                    (_, true) => Token::DoubleEquals,
                    (_, false) => Token::Equals,
                }
            }
            '>' | '<' | '(' | ')' | ',' => {
                chars.next();
                match next {
                    '>' => Token::Greater,
                    '<' => Token::Less,
                    '(' => Token::Open,
                    ')' => Token::Close,
                    _ => Token::Comma,
                }
            }
            _ => {
                let mut word = String::new();
                while let Some(c) = chars
                    .next_if(|c| !c.is_whitespace() && !matches!(c, '!' | '=' | '>' | '<' | '(' | ')' | ','))
                {
                    word.push(c);
                }
                Token::Word(word)
            }
        };
        tokens.push(token);
    }
    tokens.push(Token::End);
    tokens
}

fn expected(what: &str, found: &Token) -> Error {
    Error(format!("found '{}', expected: {what}", found.text()))
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Not => "!",
            Self::Equals => "=",
            Self::DoubleEquals => "==",
            Self::NotEquals => "!=",
            Self::Greater => ">",
            Self::Less => "<",
            Self::Open => "(",
            Self::Close => ")",
            Self::Comma => ",",
            Self::End => "",
        }
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, Error> {
        let negated = *self.peek() == Token::Not;
        if negated {
            self.next();
        }
        let key = match self.next() {
            Token::Word(word) => word,
            other => return Err(expected("identifier", &other)),
        };
        check_key(&key)?;
        let ends = matches!(self.peek(), Token::Comma | Token::End);
        if negated || ends {
            if negated && !ends {
                return Err(expected("',' or 'end of string'", self.peek()));
            }
            let operator = if negated { Operator::DoesNotExist } else { Operator::Exists };
            return Ok(Requirement { key, operator });
        }
        let operator = match self.next() {
            Token::Equals | Token::DoubleEquals => Operator::In(vec![self.value(&key)?]),
            Token::NotEquals => Operator::NotIn(vec![self.value(&key)?]),
            Token::Greater => Operator::GreaterThan(self.number(&key)?),
            Token::Less => Operator::LessThan(self.number(&key)?),
            Token::Word(word) if word == "in" => Operator::In(self.values(&key)?),
            Token::Word(word) if word == "notin" => Operator::NotIn(self.values(&key)?),
            other => return Err(expected("in, notin, =, ==, !=, gt, lt", &other)),
        };
        Ok(Requirement { key, operator })
    }

    fn value(&mut self, key: &str) -> Result<String, Error> {
        let value = match self.peek() {
            Token::Comma | Token::End => String::new(),
            _ => match self.next() {
                Token::Word(word) => word,
                other => return Err(expected("identifier", &other)),
            },
        };
        check_value(key, 0, &value)?;
        Ok(value)
    }

    fn number(&mut self, key: &str) -> Result<i64, Error> {
        let value = self.value(key)?;
        value.parse().map_err(|_| {
            Error(format!(
                "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
            ))
        })
    }

    fn values(&mut self, key: &str) -> Result<Vec<String>, Error> {
        match self.next() {
            Token::Open => {}
            other => return Err(Error(format!("found '{}' expected: '('", other.text()))),
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                Token::Word(word) => {
                    check_value(key, values.len(), &word)?;
                    values.push(word);
                    match self.next() {
                        Token::Comma => {
                            if *self.peek() == Token::Close {
                                values.push(String::new());
                            }
                        }
                        Token::Close => return Ok(values),
                        other => return Err(expected("',' or ')'", &other)),
                    }
                }
                Token::Comma => values.push(String::new()),
                Token::Close => {
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    return Ok(values);
                }
                other => return Err(expected("',', ')' or identifier", &other)),
            }
        }
    }
}

fn is_name(text: &str) -> bool {
    let edge = |c: u8| c.is_ascii_alphanumeric();
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && bytes.first().is_some_and(|c| edge(*c))
        && bytes.last().is_some_and(|c| edge(*c))
        && bytes.iter().all(|c| edge(*c) || matches!(c, b'-' | b'_' | b'.'))
}

fn check_key(key: &str) -> Result<(), Error> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let prefix_fits = prefix.is_none_or(|prefix| {
        !prefix.is_empty()
            && prefix.len() <= 253
            && prefix
                .bytes()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'.'))
    });
    if prefix_fits && is_name(name) {
        return Ok(());
    }
    Err(Error(format!(
        "<nil>: Invalid value: {key:?}: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
    )))
}

fn check_value(key: &str, index: usize, value: &str) -> Result<(), Error> {
    if value.is_empty() || is_name(value) {
        return Ok(());
    }
    Err(Error(format!(
        "values[{index}][{key}]: Invalid value: {value:?}: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
    )))
}
