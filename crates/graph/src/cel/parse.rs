//! Text to tree, by precedence climbing.
//!
//! Written by hand because the parser of the `cel` crate, generated from a grammar, takes 100 to 500 µs for a line
//! (a definition has hundreds), expands macros into loops whose meaning has to be guessed back, and knows no macro of
//! two variables. The tests hold this one to that one.

use kube_cel::cel::Value as Cel;

use super::{
    ast::{Binary, Expr, Kind, Loop, LoopKind, Unary},
    functions,
    lex::{Token, lex},
};

/// Longest source of one expression. kro's own examples stay below 2,000.
const LONGEST: usize = 16 * 1024;
/// Levels of the tree: `a + b + c` has two.
const DEEPEST: u16 = 200;

/// Words of the language: no names, though fields may be called so.
pub(crate) const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Why a text is no expression; `at` counts bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    pub message: String,
    pub at: usize,
}

pub(crate) fn parse(source: &str) -> Result<Expr, SyntaxError> {
    if source.len() > LONGEST {
        let message = format!("the expression is longer than {LONGEST} bytes");
        return Err(SyntaxError { message, at: 0 });
    }
    let tokens = lex(source).map_err(|(message, at)| SyntaxError { message, at })?;
    let mut parser = Parser { tokens: &tokens, next: 0, end: source.len(), depth: 0 };
    let expr = parser.expression()?;
    match parser.peek() {
        None => Ok(expr),
        Some(token) => Err(parser.error(format!("unexpected {}", describe(token)))),
    }
}

struct Parser<'a> {
    tokens: &'a [(Token, usize)],
    next: usize,
    end: usize,
    /// Of the parser's own recursion: brackets in brackets.
    depth: u16,
}

fn describe(token: &Token) -> String {
    match token {
        Token::Literal(_) => "a literal".to_owned(),
        Token::Name(name) => format!("'{name}'"),
        Token::Quoted(name) => format!("'`{name}`'"),
        Token::Sign(sign) => format!("'{sign}'"),
    }
}

/// How tightly an operator binds: the larger, the tighter.
fn binary(sign: &Token) -> Option<(Binary, u8)> {
    let Token::Sign(sign) = sign else {
        return (*sign == Token::Name("in".to_owned())).then_some((Binary::In, 3));
    };
    Some(match *sign {
        "||" => (Binary::Or, 1),
        "&&" => (Binary::And, 2),
        "==" => (Binary::Equal, 3),
        "!=" => (Binary::NotEqual, 3),
        "<" => (Binary::Less, 3),
        "<=" => (Binary::LessEqual, 3),
        ">" => (Binary::Greater, 3),
        ">=" => (Binary::GreaterEqual, 3),
        "+" => (Binary::Add, 4),
        "-" => (Binary::Subtract, 4),
        "*" => (Binary::Multiply, 5),
        "/" => (Binary::Divide, 5),
        "%" => (Binary::Remainder, 5),
        _ => return None,
    })
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.next).map(|(token, _)| token)
    }

    fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end, |(_, at)| *at)
    }

    fn error(&self, message: impl Into<String>) -> SyntaxError {
        SyntaxError { message: message.into(), at: self.at() }
    }

    fn take(&mut self, sign: &'static str) -> bool {
        let found = self.peek() == Some(&Token::Sign(sign));
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), SyntaxError> {
        if self.take(sign) {
            return Ok(());
        }
        let found = self.peek().map_or("the end".to_owned(), describe);
        Err(self.error(format!("expected '{sign}', found {found}")))
    }

    /// A node, unless the tree gets too high.
    fn node(&self, kind: Kind, at: usize) -> Result<Expr, SyntaxError> {
        let mut expr = Expr { kind, at, height: 0 };
        let below = expr.children().iter().map(|child| child.height).max().unwrap_or(0);
        expr.height = below + 1;
        if expr.height > DEEPEST {
            return Err(SyntaxError { message: format!("nested more than {DEEPEST} deep"), at });
        }
        Ok(expr)
    }

    fn expression(&mut self) -> Result<Expr, SyntaxError> {
        self.depth += 1;
        if self.depth > DEEPEST / 4 {
            return Err(self.error(format!("brackets are nested more than {} deep", DEEPEST / 4)));
        }
        let at = self.at();
        let condition = self.operators(1)?;
        let expr = if self.take("?") {
            let yes = self.operators(1)?;
            self.expect(":")?;
            let no = self.expression()?;
            self.node(Kind::Conditional(Box::new([condition, yes, no])), at)?
        } else {
            condition
        };
        self.depth -= 1;
        Ok(expr)
    }

    fn operators(&mut self, tightness: u8) -> Result<Expr, SyntaxError> {
        let at = self.at();
        let mut left = self.unary()?;
        while let Some((operator, binds)) = self.peek().and_then(binary) {
            if binds < tightness {
                break;
            }
            self.next += 1;
            let right = self.operators(binds + 1)?;
            left = self.node(Kind::Binary(operator, Box::new(left), Box::new(right)), at)?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr, SyntaxError> {
        let at = self.at();
        let mut signs = Vec::new();
        loop {
            if self.take("!") {
                signs.push(Unary::Not);
            } else if self.take("-") {
                if let Some(negative) = self.peek().and_then(negated) {
                    self.next += 1;
                    let literal = self.node(Kind::Literal(negative), at)?;
                    let expr = self.members(literal)?;
                    return self.signed(signs, expr, at);
                }
                signs.push(Unary::Negate);
            } else {
                break;
            }
            if signs.len() > usize::from(DEEPEST) {
                return Err(self.error("too many signs"));
            }
        }
        let primary = self.primary()?;
        let expr = self.members(primary)?;
        self.signed(signs, expr, at)
    }

    fn signed(&self, signs: Vec<Unary>, expr: Expr, at: usize) -> Result<Expr, SyntaxError> {
        signs.into_iter().rev().try_fold(expr, |expr, sign| self.node(Kind::Unary(sign, Box::new(expr)), at))
    }

    fn members(&mut self, mut expr: Expr) -> Result<Expr, SyntaxError> {
        loop {
            let at = self.at();
            if self.take(".") {
                let optional = self.take("?");
                let field = match self.peek() {
                    Some(Token::Name(name) | Token::Quoted(name)) => name.clone(),
                    // true, false and null are fields too
                    Some(Token::Literal(literal @ (Cel::Bool(_) | Cel::Null))) => match literal {
                        Cel::Bool(flag) => flag.to_string(),
                        _ => "null".to_owned(),
                    },
                    _ => return Err(self.error("expected the name of a field")),
                };
                self.next += 1;
                expr = if !optional && self.take("(") {
                    let args = self.arguments(")")?;
                    self.method(expr, field, args, at)?
                } else {
                    self.node(Kind::Select { of: Box::new(expr), field, optional }, at)?
                };
            } else if self.take("[") {
                let optional = self.take("?");
                let index = Box::new(self.expression()?);
                self.expect("]")?;
                expr = self.node(Kind::Index { of: Box::new(expr), index, optional }, at)?;
            } else if self.peek() == Some(&Token::Sign("{")) && expr.as_path().is_some() {
                return Err(self.error("objects of a named type cannot be made: use a map"));
            } else {
                return Ok(expr);
            }
        }
    }

    fn arguments(&mut self, close: &'static str) -> Result<Vec<Expr>, SyntaxError> {
        let mut args = Vec::new();
        while !self.take(close) {
            if !args.is_empty() {
                self.expect(",")?;
                // `[1, 2, ]`
                if self.take(close) {
                    break;
                }
            }
            args.push(self.expression()?);
        }
        Ok(args)
    }

    fn primary(&mut self) -> Result<Expr, SyntaxError> {
        let at = self.at();
        let Some(token) = self.peek() else { return Err(self.error("the expression ends too early")) };
        self.next += 1;
        match token {
            Token::Literal(value) => self.node(Kind::Literal(value.clone()), at),
            Token::Name(name) if RESERVED.contains(&name.as_str()) => {
                Err(SyntaxError { message: format!("'{name}' is a reserved word"), at })
            }
            Token::Name(name) if self.take("(") => {
                let mut args = self.arguments(")")?;
                match (name.as_str(), args.len()) {
                    ("has", 1) => match args.remove(0).kind {
                        Kind::Select { of, field, optional: false } => self.node(Kind::Has { of, field }, at),
                        _ => Err(SyntaxError { message: "has() takes a field: has(a.b)".into(), at }),
                    },
                    _ => self.node(Kind::Call { name: name.clone(), target: None, args }, at),
                }
            }
            Token::Name(name) => self.node(Kind::Name(name.clone()), at),
            Token::Sign("(") => {
                let expr = self.expression()?;
                self.expect(")")?;
                Ok(expr)
            }
            Token::Sign("[") => {
                let mut elements = Vec::new();
                while !self.take("]") {
                    if !elements.is_empty() {
                        self.expect(",")?;
                        if self.take("]") {
                            break;
                        }
                    }
                    let optional = self.take("?");
                    elements.push((optional, self.expression()?));
                }
                self.node(Kind::List(elements), at)
            }
            Token::Sign("{") => {
                let mut entries = Vec::new();
                while !self.take("}") {
                    if !entries.is_empty() {
                        self.expect(",")?;
                        if self.take("}") {
                            break;
                        }
                    }
                    let optional = self.take("?");
                    let key = self.expression()?;
                    self.expect(":")?;
                    entries.push((optional, key, self.expression()?));
                }
                self.node(Kind::Map(entries), at)
            }
            other => Err(SyntaxError { message: format!("unexpected {}", describe(other)), at }),
        }
    }

    /// `target.name(args)`: a macro, a function of a namespace, or a method.
    fn method(
        &self,
        target: Expr,
        name: String,
        mut args: Vec<Expr>,
        at: usize,
    ) -> Result<Expr, SyntaxError> {
        if let Some(space) = target.as_path().filter(|path| path.len() == 1) {
            if (space[0], name.as_str(), args.len()) == ("cel", "bind", 3) {
                let variable = variable(&args[0], at)?;
                let (body, value) = (args.pop(), args.pop());
                if let (Some(body), Some(value)) = (body, value) {
                    let kind = Kind::Bind { name: variable, value: Box::new(value), body: Box::new(body) };
                    return self.node(kind, at);
                }
            }
            let qualified = format!("{}.{name}", space[0]);
            if functions::is_known(&qualified) {
                if qualified == "runtime.newCondition" {
                    args.iter_mut().for_each(bare_keys);
                }
                return self.node(Kind::Call { name: qualified, target: None, args }, target.at);
            }
        }
        let Some((kind, n_variables, has_filter)) = macro_of(&name, args.len()) else {
            return self.node(Kind::Call { name, target: Some(Box::new(target)), args }, at);
        };
        let mut args = args.into_iter();
        let mut next_variable = || args.next().map(|arg| variable(&arg, at)).transpose();
        let first = next_variable()?.unwrap_or_default();
        let second = if n_variables == 2 { next_variable()? } else { None };
        if second.as_ref() == Some(&first) {
            return Err(SyntaxError { message: format!("{name} has the variable '{first}' twice"), at });
        }
        let filter = if has_filter { args.next() } else { None };
        let Some(body) = args.next() else {
            return Err(SyntaxError { message: format!("{name} has no body"), at });
        };
        let loop_ = Loop { kind, over: target, variables: (first, second), filter, body };
        self.node(Kind::Loop(Box::new(loop_)), at)
    }
}

/// The kind, the number of variables, and whether a filter stands before the body.
fn macro_of(name: &str, n_args: usize) -> Option<(LoopKind, usize, bool)> {
    Some(match (name, n_args) {
        ("all", 2) => (LoopKind::All, 1, false),
        ("all", 3) => (LoopKind::All, 2, false),
        ("exists", 2) => (LoopKind::Exists, 1, false),
        ("exists", 3) => (LoopKind::Exists, 2, false),
        ("exists_one" | "existsOne", 2) => (LoopKind::ExistsOne, 1, false),
        ("exists_one" | "existsOne", 3) => (LoopKind::ExistsOne, 2, false),
        ("map", 2) => (LoopKind::Map, 1, false),
        ("map", 3) => (LoopKind::Map, 1, true),
        ("filter", 2) => (LoopKind::Filter, 1, false),
        ("transformList", 3) => (LoopKind::TransformList, 2, false),
        ("transformList", 4) => (LoopKind::TransformList, 2, true),
        ("transformMap", 3) => (LoopKind::TransformMap, 2, false),
        ("transformMap", 4) => (LoopKind::TransformMap, 2, true),
        ("transformMapEntry", 3) => (LoopKind::TransformMapEntry, 2, false),
        ("transformMapEntry", 4) => (LoopKind::TransformMapEntry, 2, true),
        ("sortBy", 2) => (LoopKind::SortBy, 1, false),
        ("optMap", 2) => (LoopKind::OptMap, 1, false),
        ("optFlatMap", 2) => (LoopKind::OptFlatMap, 1, false),
        _ => return None,
    })
}

fn variable(expr: &Expr, at: usize) -> Result<String, SyntaxError> {
    match &expr.kind {
        Kind::Name(name) => Ok(name.clone()),
        _ => Err(SyntaxError { message: "the variable of a macro must be a simple name".into(), at }),
    }
}

fn negated(token: &Token) -> Option<Cel> {
    match token {
        Token::Literal(Cel::Int(value)) => Some(Cel::Int(-value)),
        Token::Literal(Cel::Float(value)) => Some(Cel::Float(-value)),
        Token::Literal(Cel::UInt(value)) if *value == i64::MIN.unsigned_abs() => Some(Cel::Int(i64::MIN)),
        _ => None,
    }
}

/// `runtime.newCondition({type: 'Ready'})`: keys without quotes.
fn bare_keys(expr: &mut Expr) {
    let Kind::Map(entries) = &mut expr.kind else { return };
    for (_, key, _) in entries {
        if let Kind::Name(name) = &key.kind {
            key.kind = Kind::Literal(Cel::from(name.as_str()));
        }
    }
}
