//! The grammar, by recursive descent: binary operators by their precedence, everything else by what it begins with.
//! Types are checked where an expression is made, so that an error is about the smallest part that is wrong.

mod named;
mod operator;
mod range;

use super::ast::{Binary, Expr, Node};
use super::place::{Fault, Span, What};
use super::token::{Token, tokens};
use crate::pattern::Allowance;
use crate::plan::{BinaryOp, Kind};

type Result<T> = std::result::Result<T, Fault>;

/// Brackets, calls and signs within each other. The evaluator's own limit is lower; this one keeps the stack small.
const MAX_DEPTH: usize = 200;
/// Operators of the whole query: a chain of them is no nesting, but a tree to walk all the same.
const MAX_OPERATORS: usize = 1_000;

pub(crate) fn parse(text: &str) -> Result<Expr> {
    let mut parser = Parser::new(text)?;
    if parser.peek() == &Token::End {
        return Err(Fault::new(Span::default(), "no expression found in input"));
    }
    let expr = parser.expression(0)?;
    match parser.peek() {
        Token::End => Ok(expr),
        _ => Err(parser.unexpected("", super::TRAILING)),
    }
}

struct Parser {
    tokens: Vec<(Token, Span)>,
    at: usize,
    depth: usize,
    n_operators: usize,
    patterns: Allowance,
    /// The next selector may accept everything: it says which labels info() adds.
    takes_any: bool,
}

/// Lower binds less.
fn precedence(op: BinaryOp) -> u8 {
    match op {
        BinaryOp::Or => 1,
        BinaryOp::And | BinaryOp::Unless => 2,
        op if op.is_comparison() => 3,
        BinaryOp::Add | BinaryOp::Sub => 4,
        BinaryOp::Mul | BinaryOp::Div | BinaryOp::Mod | BinaryOp::Atan2 => 5,
        _ => POWER,
    }
}

const POWER: u8 = 6;

impl Parser {
    fn new(text: &str) -> Result<Self> {
        let (tokens, patterns) = (tokens(text)?, Allowance::default());
        Ok(Self { tokens, at: 0, depth: 0, n_operators: 0, patterns, takes_any: false })
    }

    // === tokens ===

    fn peek(&self) -> &Token {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> &Token {
        let last = self.tokens.len() - 1;
        &self.tokens[(self.at + ahead).min(last)].0
    }

    fn span(&self) -> Span {
        self.tokens[self.at].1
    }

    fn take(&mut self) -> (Token, Span) {
        let taken = self.tokens[self.at].clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        taken
    }

    fn is(&self, sign: &str) -> bool {
        matches!(self.peek(), Token::Sign(s) if *s == sign)
    }

    fn is_at(&self, ahead: usize, sign: &str) -> bool {
        matches!(self.peek_at(ahead), Token::Sign(s) if *s == sign)
    }

    fn accept(&mut self, sign: &str) -> Option<Span> {
        self.is(sign).then(|| self.take().1)
    }

    fn expect(&mut self, sign: &str, context: &str) -> Result<Span> {
        self.accept(sign).ok_or_else(|| self.unexpected(context, &format!("{sign:?}")))
    }

    fn accept_word(&mut self, word: &str) -> Option<Span> {
        self.peek().is_word(word).then(|| self.take().1)
    }

    fn unexpected(&self, context: &str, expected: &str) -> Fault {
        let context = if context.is_empty() { String::new() } else { format!(" in {context}") };
        Fault::new(self.span(), format!("unexpected {}{context}, expected {expected}", self.peek().shown()))
    }

    // === expressions ===

    fn expression(&mut self, least: u8) -> Result<Expr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Fault { span: self.span(), what: What::TooDeep { limit: MAX_DEPTH } });
        }
        let mut lhs = self.prefixed()?;
        while let Some(op) = self.operator()? {
            let binding = precedence(op);
            if binding < least {
                break;
            }
            let (_, op_span) = self.take();
            self.n_operators += 1;
            if self.n_operators > MAX_OPERATORS {
                let message = format!("more than {MAX_OPERATORS} operators: split the query");
                return Err(Fault::new(op_span, message));
            }
            let (return_bool, matching) = self.modifiers()?;
            // Only powers group from the right.
            let rhs = self.expression(if binding == POWER { binding } else { binding + 1 })?;
            lhs = operator::checked(Binary { op, op_span, lhs, rhs, return_bool, matching })?;
        }
        self.depth -= 1;
        Ok(lhs)
    }

    fn signed_number(&mut self, context: &str, expected: &str) -> Result<f64> {
        let sign = match self.accept("-") {
            Some(_) => -1.0,
            None => {
                self.accept("+");
                1.0
            }
        };
        let value = match *self.peek() {
            Token::Number(value) => value,
            Token::Duration(millis) => millis as f64 / 1000.0,
            _ => return Err(self.unexpected(context, expected)),
        };
        self.take();
        Ok(sign * value)
    }

    /// A sign binds like a multiplication: `-a ^ b` is `-(a ^ b)`.
    fn prefixed(&mut self) -> Result<Expr> {
        let Some(sign) = self.accept("-").map(|s| (true, s)).or_else(|| self.accept("+").map(|s| (false, s)))
        else {
            return self.postfixed();
        };
        let (is_minus, span) = sign;
        let expr = self.expression(POWER)?;
        let span = span.to(expr.span);
        if let Node::Number { value, is_duration } = expr.node {
            let value = if is_minus { -value } else { value };
            return Ok(Expr { node: Node::Number { value, is_duration }, span, kind: Kind::Scalar });
        }
        if !matches!(expr.kind, Kind::Scalar | Kind::Vector) {
            let message = format!(
                "unary expression only allowed on expressions of type scalar or instant vector, got {:?}",
                expr.kind.documented()
            );
            return Err(Fault::new(span, message));
        }
        let kind = expr.kind;
        Ok(Expr { node: Node::Unary { is_minus, expr: Box::new(expr) }, span, kind })
    }

    fn primary(&mut self) -> Result<Expr> {
        let span = self.span();
        match self.peek().clone() {
            Token::Number(value) => {
                self.take();
                Ok(Expr { node: Node::Number { value, is_duration: false }, span, kind: Kind::Scalar })
            }
            Token::Duration(millis) => {
                self.take();
                let node = Node::Number { value: millis as f64 / 1000.0, is_duration: true };
                Ok(Expr { node, span, kind: Kind::Scalar })
            }
            Token::Text(text) => {
                self.take();
                Ok(Expr { node: Node::Text(text), span, kind: Kind::String })
            }
            Token::Sign("(") => {
                self.take();
                let expr = self.expression(0)?;
                let close = self.expect(")", "bracketed expression")?;
                let kind = expr.kind;
                Ok(Expr { node: Node::Paren(Box::new(expr)), span: span.to(close), kind })
            }
            Token::Sign("{") => self.selector(None, span),
            Token::Word(word) => self.named(&word, span),
            Token::End if self.at > 0 => Err(self.unexpected("", "an expression")),
            _ => Err(self.unexpected("", "an expression, for example up or sum(up)")),
        }
    }
}
