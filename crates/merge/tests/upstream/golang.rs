//! As much of Go's expression syntax as tables of test cases are written in.

#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    Text(String),
    Number(f64),
    /// `true`, `nil`, `pkg.Name`.
    Name(String),
    Call(String, Vec<Expr>),
    /// A composite literal: its type ("" where elided) and elements with their keys.
    Literal(String, Vec<(Option<Expr>, Expr)>),
}

impl Expr {
    /// The expression that begins at the start of `source`.
    pub fn parse(source: &str) -> Result<Expr, String> {
        Parser { rest: source }.expr()
    }

    pub fn field(&self, name: &str) -> Option<&Expr> {
        let Expr::Literal(_, elements) = self else { return None };
        elements.iter().find(|(key, _)| *key == Some(Expr::Name(name.into()))).map(|(_, value)| value)
    }

    /// A string, also inside of a conversion: `[]byte("…")`.
    pub fn text(&self) -> Option<&str> {
        match self {
            Expr::Text(text) => Some(text),
            Expr::Call(_, arguments) => arguments.first()?.text(),
            _ => None,
        }
    }

    /// With its variables replaced, and `fmt.Sprintf` of them done.
    pub fn bind(&self, variables: &[(&str, &str)]) -> Expr {
        let value_of = |name: &str| variables.iter().find(|(v, _)| *v == name).map(|(_, value)| *value);
        match self {
            Expr::Name(name) => value_of(name).map_or(self.clone(), |value| Expr::Text(value.to_owned())),
            Expr::Call(name, arguments) => {
                let arguments: Vec<_> = arguments.iter().map(|a| a.bind(variables)).collect();
                match (name.as_str(), arguments.split_first()) {
                    ("fmt.Sprintf", Some((Expr::Text(format), values))) => Expr::Text(
                        values
                            .iter()
                            .filter_map(Expr::text)
                            .fold(format.clone(), |f, v| f.replacen("%s", v, 1)),
                    ),
                    _ => Expr::Call(name.clone(), arguments),
                }
            }
            Expr::Literal(of, elements) => Expr::Literal(
                of.clone(),
                // the keys of a struct literal are names of fields
                elements.iter().map(|(key, value)| (key.clone(), value.bind(variables))).collect(),
            ),
            other => other.clone(),
        }
    }

    pub fn elements(&self) -> &[(Option<Expr>, Expr)] {
        match self {
            Expr::Literal(_, elements) => elements,
            _ => &[],
        }
    }
}

struct Parser<'s> {
    rest: &'s str,
}

impl Parser<'_> {
    fn expr(&mut self) -> Result<Expr, String> {
        let mut value = self.operand()?;
        while self.eat("+") {
            match (value, self.operand()?) {
                (Expr::Text(a), Expr::Text(b)) => value = Expr::Text(a + &b),
                (a, b) => return Err(format!("cannot add {a:?} and {b:?}")),
            }
        }
        Ok(value)
    }

    fn operand(&mut self) -> Result<Expr, String> {
        self.skip_space();
        match self.rest.chars().next() {
            Some('&') => {
                self.rest = &self.rest[1..];
                self.operand()
            }
            Some('`') => {
                let end = self.rest[1..].find('`').ok_or("unterminated string")?;
                let text = self.rest[1..=end].to_owned();
                self.rest = &self.rest[end + 2..];
                Ok(Expr::Text(text))
            }
            Some('"') => self.quoted(),
            Some('{') => self.literal(String::new()),
            Some(c) if c.is_ascii_digit() || c == '-' => {
                let text = self.take_while(|c| c.is_ascii_digit() || "-.e".contains(c));
                text.parse().map(Expr::Number).map_err(|e| format!("{text}: {e}"))
            }
            Some(c) if c.is_alphabetic() || "_[*".contains(c) => self.named(),
            other => Err(format!("unexpected {other:?}")),
        }
    }

    /// What begins with a name or a type.
    fn named(&mut self) -> Result<Expr, String> {
        let mut name = String::new();
        loop {
            self.skip_space();
            match self.rest.chars().next() {
                Some('[') => {
                    let end = self.rest.find(']').ok_or("unterminated type")?;
                    name += &self.rest[..=end];
                    self.rest = &self.rest[end + 1..];
                }
                Some('*') => {
                    name.push('*');
                    self.rest = &self.rest[1..];
                }
                _ => {
                    let part = self.take_while(|c| c.is_alphanumeric() || "_.".contains(c));
                    if part.is_empty() {
                        return Err(format!("no name after {name:?}"));
                    }
                    name += &part;
                    if part != "map" {
                        break;
                    }
                }
            }
        }
        if name == "func" || name == "struct" {
            return Err(format!("{name} is not data"));
        }
        if self.rest.starts_with('(') {
            self.rest = &self.rest[1..];
            let mut arguments = Vec::new();
            while !self.eat(")") {
                arguments.push(self.expr()?);
                self.eat(",");
                self.eat("...");
            }
            return Ok(Expr::Call(name, arguments));
        }
        if self.rest.starts_with('{') { self.literal(name) } else { Ok(Expr::Name(name)) }
    }

    fn literal(&mut self, of: String) -> Result<Expr, String> {
        self.eat("{");
        let mut elements = Vec::new();
        while !self.eat("}") {
            let first = self.expr()?;
            elements.push(if self.eat(":") { (Some(first), self.expr()?) } else { (None, first) });
            self.eat(",");
        }
        Ok(Expr::Literal(of, elements))
    }

    fn quoted(&mut self) -> Result<Expr, String> {
        let mut end = 1;
        let bytes = self.rest.as_bytes();
        while bytes.get(end).ok_or("unterminated string")? != &b'"' {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        let text = serde_json::from_str(&self.rest[..=end]).map_err(|e| e.to_string())?;
        self.rest = &self.rest[end + 1..];
        Ok(Expr::Text(text))
    }

    fn eat(&mut self, token: &str) -> bool {
        self.skip_space();
        let found = self.rest.starts_with(token);
        if found {
            self.rest = &self.rest[token.len()..];
        }
        found
    }

    fn skip_space(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            if !self.rest.starts_with("//") {
                return;
            }
            self.rest = self.rest.split_once('\n').map_or("", |(_, rest)| rest);
        }
    }

    fn take_while(&mut self, accepts: impl Fn(char) -> bool) -> String {
        let end = self.rest.find(|c| !accepts(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken.to_owned()
    }
}
