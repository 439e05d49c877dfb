//! Binary operators: what stands between them and their right side, and what their sides may be.

use super::{Parser, Result};
use crate::plan::{BinaryOp, Cardinality, Kind};
use crate::syntax::ast::{Binary, Expr, Matching, Node};
use crate::syntax::place::{Fault, Span};
use crate::syntax::token::Token;

impl Parser {
    pub(super) fn operator(&self) -> Result<Option<BinaryOp>> {
        Ok(Some(match self.peek() {
            Token::Sign("</" | ">/") => {
                return Err(Fault::experimental(self.span(), "trimming of native histograms"));
            }
            Token::Sign(sign) => match BinaryOp::by_sign(sign) {
                Some(op) => op,
                None => return Ok(None),
            },
            Token::Word(word) => match word.to_ascii_lowercase().as_str() {
                "and" => BinaryOp::And,
                "or" => BinaryOp::Or,
                "unless" => BinaryOp::Unless,
                "atan2" => BinaryOp::Atan2,
                _ => return Ok(None),
            },
            _ => return Ok(None),
        }))
    }

    /// `bool on (…) group_left (…) fill (…)`
    pub(super) fn modifiers(&mut self) -> Result<(bool, Matching)> {
        let return_bool = self.accept_word("bool").is_some();
        let mut matching = Matching {
            cardinality: Cardinality::OneToOne,
            on: false,
            labels: Vec::new(),
            include: Vec::new(),
            fill_left: None,
            fill_right: None,
        };
        matching.on = self.accept_word("on").is_some();
        if matching.on || self.accept_word("ignoring").is_some() {
            matching.labels = self.labels()?;
            for (word, cardinality) in
                [("group_left", Cardinality::ManyToOne), ("group_right", Cardinality::OneToMany)]
            {
                if matching.cardinality == Cardinality::OneToOne && self.accept_word(word).is_some() {
                    matching.cardinality = cardinality;
                    matching.include = if self.is("(") { self.labels()? } else { Vec::new() };
                }
            }
        }
        // Without a bracket it is a metric of that name.
        while self.is_at(1, "(") {
            let both = self.peek().is_word("fill");
            let (left, right) = (self.peek().is_word("fill_left"), self.peek().is_word("fill_right"));
            let twice = (matching.fill_left.is_some() && (both || left))
                || (matching.fill_right.is_some() && (both || right));
            if !(both || left || right) || twice {
                break;
            }
            self.take();
            let value = self.fill_value()?;
            if both || left {
                matching.fill_left = Some(value);
            }
            if both || right {
                matching.fill_right = Some(value);
            }
        }
        Ok((return_bool, matching))
    }

    pub(super) fn fill_value(&mut self) -> Result<f64> {
        self.expect("(", "fill modifier")?;
        let value = self.signed_number("fill modifier", "number")?;
        self.expect(")", "fill modifier")?;
        Ok(value)
    }
}

/// The operation, if its sides and modifiers go together.
pub(super) fn checked(mut b: Binary) -> Result<Expr> {
    let span = b.lhs.span.to(b.rhs.span);
    let wrong = |span: Span, message: String| Err(Fault::new(span, message));
    let sign = b.op.sign();
    if b.return_bool && !b.op.is_comparison() {
        return wrong(b.op_span, "bool modifier can only be used on comparison operators".into());
    }
    for side in [&b.lhs, &b.rhs] {
        if !matches!(side.kind, Kind::Scalar | Kind::Vector) {
            let message = "binary expression must contain only scalar and instant vector types";
            return wrong(side.span, message.into());
        }
    }
    let of_scalars = b.lhs.kind == Kind::Scalar && b.rhs.kind == Kind::Scalar;
    if b.op.is_comparison() && !b.return_bool && of_scalars {
        return wrong(b.op_span, "comparisons between scalars must use BOOL modifier".into());
    }
    let matching = &mut b.matching;
    if matching.on
        && let Some(label) = matching.labels.iter().find(|l| matching.include.contains(l))
    {
        let message = format!("label {label:?} must not occur in ON and GROUP clause at once");
        return wrong(b.op_span, message);
    }
    let fills = matching.fill_left.is_some() || matching.fill_right.is_some();
    let of_vectors = b.lhs.kind == Kind::Vector && b.rhs.kind == Kind::Vector;
    if b.op.is_set() {
        let message = match () {
            () if !of_vectors => format!("set operator {sign:?} not allowed in binary scalar expression"),
            () if matching.cardinality != Cardinality::OneToOne => {
                format!("no grouping allowed for {sign:?} operation")
            }
            () if fills => "filling in missing series not allowed for set operators".into(),
            () => String::new(),
        };
        if !message.is_empty() {
            return wrong(span, message);
        }
    } else if !of_vectors {
        if !matching.labels.is_empty() {
            return wrong(span, "vector matching only allowed between instant vectors".into());
        }
        if fills {
            return wrong(span, "filling in missing series only allowed between instant vectors".into());
        }
    }
    let kind = if of_scalars { Kind::Scalar } else { Kind::Vector };
    Ok(Expr { node: Node::Binary(Box::new(b)), span, kind })
}
