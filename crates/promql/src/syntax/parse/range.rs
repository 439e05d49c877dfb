//! What follows a selector or a subquery: a range, `@`, `offset`.

use super::{Parser, Result};
use crate::plan::{At, Kind};
use crate::syntax::ast::{Expr, Node, When};
use crate::syntax::place::{Fault, Span, What};
use crate::syntax::token::Token;

/// Times and durations stay below this, so that sums of some of them cannot overflow: about 285,000 years.
const MAX_MILLIS: f64 = (1_i64 << 53) as f64;

const DURATION: &str = "number or duration";
const ARITHMETIC: &str = "arithmetic in durations";

impl Parser {
    /// Ranges, `@` and `offset`, which belong to what stands right before them.
    pub(super) fn postfixed(&mut self) -> Result<Expr> {
        let mut expr = self.primary()?;
        loop {
            if self.is("[") {
                expr = self.range(expr)?;
            } else if self.accept("@").is_some() {
                self.at_modifier(&mut expr)?;
            } else if self.peek().is_word("offset") {
                self.take();
                self.offset(&mut expr)?;
            } else if self.peek().is_word("anchored") || self.peek().is_word("smoothed") {
                return Err(Fault::experimental(self.span(), "anchored and smoothed ranges"));
            } else {
                return Ok(expr);
            }
            expr.span.end = self.tokens[self.at - 1].1.end;
        }
    }

    pub(super) fn range(&mut self, expr: Expr) -> Result<Expr> {
        const SELECTOR: &str = "subquery or range selector";
        let open = self.expect("[", SELECTOR)?;
        let range = self.positive_duration(SELECTOR, DURATION)?;
        if self.accept(":").is_none() {
            let close = self.expect("]", "subquery or range").map_err(|fault| Fault {
                what: match fault.what {
                    What::Wrong(_) => What::Wrong(format!(
                        "unexpected {} in subquery or range, expected \":\" or \"]\"",
                        self.peek().shown()
                    )),
                    other => other,
                },
                ..fault
            })?;
            let span = expr.span.to(close);
            let wrong = |message: &str| Err(Fault::new(open.to(close), message));
            return match expr.node {
                Node::Select(select) if select.when.at.is_some() => {
                    wrong("no @ modifiers allowed before range")
                }
                Node::Select(select) if select.when.offset != 0 => {
                    wrong("no offset modifiers allowed before range")
                }
                Node::Select(select) => {
                    Ok(Expr { node: Node::Window { select, range }, span, kind: Kind::Matrix })
                }
                _ => wrong("ranges only allowed for vector selectors"),
            };
        }
        let step = match self.is("]") {
            true => None,
            false => {
                let expected = "number, duration or \"]\"";
                Some(self.positive_duration("subquery selector", expected)?)
            }
        };
        let close = self.expect("]", "subquery selector")?;
        let span = expr.span.to(close);
        if expr.kind != Kind::Vector {
            let message =
                format!("subquery is only allowed on instant vector, got {} instead", expr.kind.documented());
            return Err(Fault::new(span, message));
        }
        let node = Node::Subquery { expr: Box::new(expr), range, step, when: When::default() };
        Ok(Expr { node, span, kind: Kind::Matrix })
    }

    pub(super) fn positive_duration(&mut self, context: &str, expected: &str) -> Result<i64> {
        let span = self.span();
        while self.accept("+").is_some() {}
        if matches!(self.peek(), Token::Sign("(" | "-") | Token::Word(_)) {
            return Err(Fault::experimental(span, ARITHMETIC));
        }
        let seconds = self.signed_number(context, expected)?;
        if let Token::Sign("+" | "-" | "*" | "/" | "%" | "^") = self.peek() {
            return Err(Fault::experimental(self.span(), ARITHMETIC));
        }
        if seconds <= 0.0 {
            return Err(Fault::new(span, "duration must be greater than 0"));
        }
        millis(seconds, span)
    }

    pub(super) fn at_modifier(&mut self, expr: &mut Expr) -> Result<()> {
        let span = self.span();
        let at = if self.is_at(1, "(") && (self.peek().is_word("start") || self.peek().is_word("end")) {
            let at = if self.peek().is_word("start") { At::Start } else { At::End };
            self.take();
            self.expect("(", "@")?;
            self.expect(")", "@")?;
            at
        } else {
            let seconds = self.signed_number("@", "timestamp")?;
            let time = (seconds * 1000.0).round();
            if time.is_nan() || time.abs() > MAX_MILLIS {
                return Err(Fault::new(span, format!("timestamp out of bounds for @ modifier: {seconds:e}")));
            }
            At::Time(time as i64)
        };
        let when = modified(expr, "@ modifier")?;
        match when.at.replace(at) {
            None => Ok(()),
            Some(_) => Err(Fault::new(expr.span, "@ <timestamp> may not be set multiple times")),
        }
    }

    pub(super) fn offset(&mut self, expr: &mut Expr) -> Result<()> {
        let span = self.span();
        // of several signs, all count
        let mut factor = 1.0;
        while (self.is("-") || self.is("+")) && (self.is_at(1, "-") || self.is_at(1, "+")) {
            factor = if self.is("-") { -factor } else { factor };
            self.take();
        }
        let signed = usize::from(self.is("-") || self.is("+"));
        if self.is_at(signed, "(") || matches!(self.peek_at(signed), Token::Word(_)) {
            let is_function = self.is_at(signed + 1, "(") || self.is_at(signed, "(");
            return Err(match is_function {
                true => Fault::experimental(span, ARITHMETIC),
                false => self.unexpected("offset", DURATION),
            });
        }
        let offset = millis(factor * self.signed_number("offset", DURATION)?, span)?;
        let when = modified(expr, "offset modifier")?;
        if when.offset != 0 {
            return Err(Fault::new(expr.span, "offset may not be set multiple times"));
        }
        when.offset = offset;
        Ok(())
    }
}

fn millis(seconds: f64, span: Span) -> Result<i64> {
    // Prometheus counts nanoseconds in 64 bits.
    if seconds.is_nan() || seconds.abs() > i64::MAX as f64 / 1e9 {
        return Err(Fault::new(span, "duration out of range"));
    }
    Ok(((seconds * 1e9).round() / 1e6) as i64)
}

/// What `@` and `offset` change.
fn modified<'e>(expr: &'e mut Expr, what: &str) -> Result<&'e mut When> {
    let span = expr.span;
    match &mut expr.node {
        Node::Select(select) | Node::Window { select, .. } => Ok(&mut select.when),
        Node::Subquery { when, .. } => Ok(when),
        _ => Err(Fault::new(
            span,
            format!(
                "{what} must be preceded by an instant vector selector or range vector selector or a subquery"
            ),
        )),
    }
}
