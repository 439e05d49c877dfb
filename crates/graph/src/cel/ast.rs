//! An expression as a tree, macros included: a loop is one node, so that it is typed, priced and run as one.

use kube_cel::cel::Value as Cel;

#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub kind: Kind,
    /// Where it begins in the source, in bytes.
    pub at: usize,
    /// Levels below it. Bounded by the parser: everything that walks the tree is recursive.
    pub height: u16,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Literal(Cel),
    Name(String),
    /// `a.b`, `a.?b`
    Select {
        of: Box<Expr>,
        field: String,
        optional: bool,
    },
    /// `has(a.b)`
    Has {
        of: Box<Expr>,
        field: String,
    },
    /// `a[b]`, `a[?b]`
    Index {
        of: Box<Expr>,
        index: Box<Expr>,
        optional: bool,
    },
    /// `f(x)`, `x.f(y)`, `lists.range(n)`; the name of the last is `lists.range`, and it has no target.
    Call {
        name: String,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    Unary(Unary, Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    Conditional(Box<[Expr; 3]>),
    /// Elements, `true` for those with `?`.
    List(Vec<(bool, Expr)>),
    Map(Vec<(bool, Expr, Expr)>),
    Loop(Box<Loop>),
    /// `cel.bind(name, value, body)`
    Bind {
        name: String,
        value: Box<Expr>,
        body: Box<Expr>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    Not,
    Negate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// A macro that runs its body for each element.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    pub kind: LoopKind,
    pub over: Expr,
    /// Of one variable: the element of a list, the key of a map. Of two: index and element, key and value.
    pub variables: (String, Option<String>),
    /// `map(x, filter, body)`, `transformList(i, x, filter, body)`
    pub filter: Option<Expr>,
    pub body: Expr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoopKind {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
    TransformList,
    TransformMap,
    TransformMapEntry,
    SortBy,
    /// `x.optMap(v, body)`: runs once, or not at all.
    OptMap,
    OptFlatMap,
}

// === impl Binary ===

impl Binary {
    /// As cel-go calls it in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Or => "_||_",
            Self::And => "_&&_",
            Self::Equal => "_==_",
            Self::NotEqual => "_!=_",
            Self::Less => "_<_",
            Self::LessEqual => "_<=_",
            Self::Greater => "_>_",
            Self::GreaterEqual => "_>=_",
            Self::In => "@in",
            Self::Add => "_+_",
            Self::Subtract => "_-_",
            Self::Multiply => "_*_",
            Self::Divide => "_/_",
            Self::Remainder => "_%_",
        }
    }
}

// === impl Expr ===

impl Expr {
    /// Calls `visit` with every name that is not a variable of a macro around it.
    pub fn free_names<'a>(&'a self, visit: &mut dyn FnMut(&'a str)) {
        self.names(&mut Vec::new(), visit);
    }

    fn names<'a>(&'a self, bound: &mut Vec<&'a str>, visit: &mut dyn FnMut(&'a str)) {
        match &self.kind {
            Kind::Name(name) => {
                if !bound.contains(&name.as_str()) {
                    visit(name);
                }
            }
            Kind::Loop(loop_) => {
                loop_.over.names(bound, visit);
                let before = bound.len();
                bound.push(&loop_.variables.0);
                bound.extend(loop_.variables.1.as_deref());
                if let Some(filter) = &loop_.filter {
                    filter.names(bound, visit);
                }
                loop_.body.names(bound, visit);
                bound.truncate(before);
            }
            Kind::Bind { name, value, body } => {
                value.names(bound, visit);
                bound.push(name);
                body.names(bound, visit);
                bound.pop();
            }
            _ => self.children().into_iter().for_each(|child| child.names(bound, visit)),
        }
    }

    /// Calls `visit` with every expression in it, itself included.
    pub fn each<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        visit(self);
        self.children().into_iter().for_each(|child| child.each(visit));
    }

    pub fn children(&self) -> Vec<&Expr> {
        match &self.kind {
            Kind::Literal(_) | Kind::Name(_) => Vec::new(),
            Kind::Select { of, .. } | Kind::Has { of, .. } => vec![of],
            Kind::Index { of, index, .. } => vec![of, index],
            Kind::Call { target, args, .. } => target.as_deref().into_iter().chain(args).collect(),
            Kind::Unary(_, of) => vec![of],
            Kind::Binary(_, left, right) => vec![left, right],
            Kind::Conditional(parts) => parts.iter().collect(),
            Kind::List(elements) => elements.iter().map(|(_, element)| element).collect(),
            Kind::Map(entries) => entries.iter().flat_map(|(_, key, value)| [key, value]).collect(),
            Kind::Loop(loop_) => {
                [&loop_.over].into_iter().chain(&loop_.filter).chain([&loop_.body]).collect()
            }
            Kind::Bind { value, body, .. } => vec![value, body],
        }
    }

    /// `a.b.c` as `["a", "b", "c"]`; `None` if it is anything else.
    pub fn as_path(&self) -> Option<Vec<&str>> {
        match &self.kind {
            Kind::Name(name) => Some(vec![name]),
            Kind::Select { of, field, optional: false } => {
                let mut path = of.as_path()?;
                path.push(field);
                Some(path)
            }
            _ => None,
        }
    }
}
