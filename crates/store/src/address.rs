//! Where a store is, in words that may be printed: a password in it never is.

use std::{convert::Infallible, fmt, str::FromStr};

/// `memory:`, `redb:PATH`, or `nats://[USER:PASSWORD@]HOST:PORT,…`.
#[derive(Clone, PartialEq, Eq)]
pub struct Address(String);

impl Address {
    /// As it was given, password included.
    pub fn revealed(&self) -> &str {
        &self.0
    }
}

impl FromStr for Address {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Address {
    /// Everything between the scheme and the last `@` of each server is left out: a password may hold an `@` too.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.starts_with("redb:") {
            return f.write_str(&self.0);
        }
        for (index, server) in self.0.split(',').enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match server.rsplit_once('@') {
                Some((before, host)) => {
                    let scheme = before.find("://").map_or("", |end| &before[..end + 3]);
                    write!(f, "{comma}{scheme}***@{host}")?;
                }
                None => write!(f, "{comma}{server}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        for (given, shown) in [
            ("redb:/data/a@b.redb", "redb:/data/a@b.redb"),
            ("nats://one:4222,two:4222", "nats://one:4222,two:4222"),
            ("nats://me:secret@one:4222,tls://me:s@cret@two", "nats://***@one:4222,tls://***@two"),
            ("nats://token@one", "nats://***@one"),
            ("me:secret@one", "***@one"),
        ] {
            let address: Address = given.parse().unwrap();
            assert_eq!(
                (address.to_string(), format!("{address:?}")),
                (shown.to_owned(), format!("{shown:?}"))
            );
        }
    }
}
