//! What begins with a word or a brace: calls, aggregations, selectors.

use super::{Parser, Result};
use crate::labels::METRIC_NAME;
use crate::plan::{AggregateOp, Kind, escapes};
use crate::source::{MatchOp, Matcher};
use crate::syntax::ast::{Expr, Grouping, Node, Select, When};
use crate::syntax::place::{Fault, Span};
use crate::syntax::signature::Signature;
use crate::syntax::token::Token;

impl Parser {
    /// An aggregation, a call or a metric.
    pub(super) fn named(&mut self, word: &str, span: Span) -> Result<Expr> {
        let lower = word.to_ascii_lowercase();
        if let Some(op) = AggregateOp::by_name(&lower)
            && (self.is_at(1, "(") || self.peek_at(1).is_word("by") || self.peek_at(1).is_word("without"))
        {
            self.take();
            return self.aggregation(op, span);
        }
        if self.is_at(1, "(") && !word.contains(':') {
            self.take();
            let is_preprocessor = ["step", "range", "max_of", "min_of"].contains(&lower.as_str());
            return self.call(if is_preprocessor { &lower } else { word }, span);
        }
        if ["atan2", "bool", "on", "ignoring", "group_left", "group_right"].contains(&lower.as_str()) {
            return Err(self.unexpected("", "an expression"));
        }
        self.take();
        self.selector(Some(word.to_string()), span)
    }

    pub(super) fn call(&mut self, name: &str, span: Span) -> Result<Expr> {
        let Some(function) = Signature::of(name) else {
            return Err(Fault::new(span, format!("unknown function with name {name:?}")));
        };
        let (args, close) = self.arguments(&format!("call to function {name:?}"), name == "info")?;
        let span = span.to(close);
        if name == "start_timestamp" {
            return Err(Fault::experimental(span, "start timestamps"));
        }
        function.check_count(args.len()).map_err(|message| Fault::new(span, message))?;
        for (at, arg) in args.iter().enumerate() {
            if name == "info" && at == 1 && !matches!(&arg.node, Node::Select(Select { name: None, .. })) {
                return Err(Fault::new(arg.span, "expected label selectors only"));
            }
            let wanted = function.arg(at).unwrap_or(arg.kind);
            if arg.kind != wanted {
                let message = format!(
                    "expected type {} in call to function {name:?}, got {}",
                    wanted.documented(),
                    arg.kind.documented()
                );
                return Err(Fault::new(arg.span, message));
            }
        }
        Ok(Expr { node: Node::Call { function, args }, span, kind: function.result })
    }

    /// `(a, b)`
    pub(super) fn arguments(&mut self, context: &str, is_info: bool) -> Result<(Vec<Expr>, Span)> {
        self.expect("(", context)?;
        let mut args = Vec::new();
        if let Some(close) = self.accept(")") {
            return Ok((args, close));
        }
        loop {
            self.takes_any = is_info && args.len() == 1;
            args.push(self.expression(0)?);
            self.takes_any = false;
            if let Some(close) = self.accept(")") {
                return Ok((args, close));
            }
            let Some(comma) = self.accept(",") else {
                return Err(self.unexpected(context, "\",\" or \")\""));
            };
            if self.is(")") {
                return Err(Fault::new(comma, "trailing commas not allowed in function call args"));
            }
        }
    }

    pub(super) fn aggregation(&mut self, op: AggregateOp, span: Span) -> Result<Expr> {
        const CONTEXT: &str = "aggregation";
        let mut grouping = self.grouping()?;
        let (mut args, mut close) = self.arguments(CONTEXT, false)?;
        if grouping.is_none() {
            grouping = self.grouping()?;
            close = if grouping.is_some() { self.tokens[self.at - 1].1 } else { close };
        }
        let span = span.to(close);
        let parameter = match op {
            AggregateOp::CountValues => Some(Kind::String),
            op if op.has_parameter() => Some(Kind::Scalar),
            _ => None,
        };
        let wanted = 1 + usize::from(parameter.is_some());
        if args.is_empty() {
            return Err(Fault::new(span, "no arguments for aggregate expression provided"));
        }
        if args.len() != wanted {
            let message = format!(
                "wrong number of arguments for aggregate expression provided, expected {wanted}, got {}",
                args.len()
            );
            return Err(Fault::new(span, message));
        }
        let check = |expr: &Expr, wanted: Kind, context: &str| match expr.kind == wanted {
            true => Ok(()),
            false => Err(Fault::new(
                expr.span,
                format!("expected type {} in {context}, got {}", wanted.documented(), expr.kind.documented()),
            )),
        };
        let expr = args.pop().map(Box::new);
        let param = args.pop().map(Box::new);
        let Some(expr) = expr else { return Err(self.unexpected(CONTEXT, "an expression")) };
        check(&expr, Kind::Vector, "aggregation expression")?;
        if let (Some(param), Some(kind)) = (&param, parameter) {
            check(param, kind, "aggregation parameter")?;
        }
        let node = Node::Aggregate { op, param, expr, grouping: grouping.unwrap_or_default() };
        Ok(Expr { node, span, kind: Kind::Vector })
    }

    pub(super) fn grouping(&mut self) -> Result<Option<Grouping>> {
        let without = self.accept_word("without").is_some();
        if !without && self.accept_word("by").is_none() {
            return Ok(None);
        }
        Ok(Some(Grouping { labels: self.labels()?, without }))
    }

    /// `(a, b)`, names of labels.
    pub(super) fn labels(&mut self) -> Result<Vec<String>> {
        const CONTEXT: &str = "grouping opts";
        self.expect("(", CONTEXT)?;
        let mut labels = Vec::new();
        while self.accept(")").is_none() {
            let span = self.span();
            match self.peek().clone() {
                Token::Word(word) if !word.eq_ignore_ascii_case("without") => labels.push(word),
                Token::Text(text) if !text.is_empty() && escapes::is_text(&text) => labels.push(text),
                Token::Text(text) => {
                    let message = format!("invalid label name for grouping: {}", escapes::show(&text));
                    return Err(Fault::new(span, message));
                }
                _ => return Err(self.unexpected(CONTEXT, "label")),
            }
            self.take();
            if self.accept(",").is_none() && !self.is(")") {
                return Err(self.unexpected(CONTEXT, "\",\" or \")\""));
            }
        }
        Ok(labels)
    }

    pub(super) fn selector(&mut self, name: Option<String>, span: Span) -> Result<Expr> {
        let takes_any = std::mem::take(&mut self.takes_any);
        let mut matchers = Vec::new();
        let mut end = span;
        if self.accept("{").is_some() {
            loop {
                if let Some(close) = self.accept("}") {
                    end = close;
                    break;
                }
                matchers.push(self.matcher()?);
                if self.accept(",").is_none() && !self.is("}") {
                    return Err(self.unexpected("label matching", "\",\" or \"}\""));
                }
            }
        }
        let span = span.to(end);
        if let Some(name) = &name
            && let Some(twice) = matchers.iter().find(|m| m.name == METRIC_NAME)
        {
            let message = format!("metric name must not be set twice: {name:?} or {:?}", twice.value);
            return Err(Fault::new(span, message));
        }
        if name.is_none() && !takes_any && matchers.iter().all(|m| m.matches("")) {
            let message = "vector selector must contain at least one non-empty matcher";
            return Err(Fault::new(span, message));
        }
        let select = Select { name, matchers, when: When::default() };
        Ok(Expr { node: Node::Select(select), span, kind: Kind::Vector })
    }

    pub(super) fn matcher(&mut self) -> Result<Matcher> {
        const CONTEXT: &str = "label matching";
        let (name, is_quoted) = match self.peek() {
            Token::Word(name) => (name.clone(), false),
            Token::Text(name) => (name.clone(), true),
            _ => return Err(self.unexpected(CONTEXT, "identifier or \"}\"")),
        };
        let (_, span) = self.take();
        let op = match self.peek() {
            Token::Sign("=") => MatchOp::Equal,
            Token::Sign("!=") => MatchOp::NotEqual,
            Token::Sign("=~") => MatchOp::Regex,
            Token::Sign("!~") => MatchOp::NotRegex,
            // A lone string is the metric's name.
            _ if is_quoted => return Ok(Matcher::equal(METRIC_NAME, &name)),
            _ => return Err(self.unexpected(CONTEXT, "label matching operator")),
        };
        self.take();
        let Token::Text(value) = self.peek().clone() else { return Err(self.unexpected(CONTEXT, "string")) };
        let (_, end) = self.take();
        Matcher::within(&name, op, &value, &mut self.patterns).map_err(|why| {
            let shown: String = value.chars().take(80).collect();
            Fault::new(span.to(end), format!("invalid regular expression {shown:?}: {why}"))
        })
    }
}
