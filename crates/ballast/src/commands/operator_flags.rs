//! Where operators ask, and what they have to present.

use std::{net::SocketAddr, path::PathBuf};

use anyhow::{Context, Result, ensure};

#[derive(Debug, clap::Args)]
pub struct OperatorFlags {
    /// Where operators ask: status, wake-up, dead letters, metrics, debug and query paths
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:5001", env = "BALLAST_OPERATOR_ADDR")]
    pub operator_addr: SocketAddr,
    /// What operators must present as a bearer token. Others on this machine see it in the command line: better set the
    /// variable, or name a file
    #[arg(
        long,
        value_name = "TOKEN",
        env = "BALLAST_OPERATOR_TOKEN",
        hide_env_values = true,
        conflicts_with = "operator_token_file"
    )]
    operator_token: Option<Token>,
    /// A file with that token
    #[arg(long, value_name = "FILE", env = "BALLAST_OPERATOR_TOKEN_FILE")]
    operator_token_file: Option<PathBuf>,
}

/// Not shown by `{:?}`.
#[derive(Clone)]
struct Token(String);

impl std::str::FromStr for Token {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(***)")
    }
}

impl OperatorFlags {
    /// # Errors
    /// When there is a token that nobody could present: an empty one would let everybody in who presents none.
    pub fn token(&self) -> Result<Option<String>> {
        let (token, from) = match (&self.operator_token, &self.operator_token_file) {
            (Some(Token(token)), _) => {
                (token.clone(), "--operator-token (BALLAST_OPERATOR_TOKEN)".to_owned())
            }
            (None, Some(path)) => {
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("failed to read the operator token from {}", path.display()))?;
                (text.trim().to_owned(), path.display().to_string())
            }
            (None, None) => {
                if !self.operator_addr.ip().is_loopback() {
                    tracing::warn!(
                        "operators are served on {} to anybody who reaches it: set --operator-token-file",
                        self.operator_addr
                    );
                }
                return Ok(None);
            }
        };
        ensure!(!token.trim().is_empty(), "the operator token of {from} is empty: leave it out, or give one");
        ensure!(
            token.chars().all(|c| c.is_ascii_graphic()),
            "the operator token of {from} has characters that no Authorization header can have: use letters and digits"
        );
        Ok(Some(token))
    }
}
