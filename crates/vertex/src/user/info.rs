//! The file by which a container says that it serves, and how.

use std::{collections::HashMap, path::Path, time::Duration};

use serde::Deserialize;

/// Follows the JSON: a file without it is half written.
const END: &str = "U+005C__END__";
const MAX_BYTES: usize = 64 << 10;
/// The version of Numaflow's protocol spoken here.
const SPOKEN: [u64; 3] = [1, 8, 3];

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServerInfo {
    pub protocol: String,
    pub language: String,
    pub minimum_numaflow_version: String,
    pub version: String,
    pub metadata: Option<HashMap<String, String>>,
}

/// How a map container takes messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Unary,
    Batch,
    Stream,
}

impl ServerInfo {
    /// Waits until the container has written it.
    ///
    /// # Errors
    /// When it asks for what is not spoken here.
    pub async fn wait(path: &Path) -> Result<Self, String> {
        let mut n_looks = 0u32;
        loop {
            let text = tokio::fs::read(path).await.unwrap_or_default();
            if let Some(info) = Self::read(&text).map_err(|why| format!("{}: {why}", path.display()))? {
                return Ok(info);
            }
            if n_looks == 10 {
                tracing::info!(path = %path.display(), "waiting for the container to write its server info");
            }
            n_looks = n_looks.saturating_add(1);
            tokio::time::sleep(Duration::from_millis(if n_looks < 20 { 50 } else { 1000 })).await;
        }
    }

    /// None while it is not whole.
    fn read(text: &[u8]) -> Result<Option<Self>, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("longer than {MAX_BYTES} bytes: not written by an SDK of Numaflow"));
        }
        let text = String::from_utf8_lossy(text);
        let Some(json) = text.trim_end().strip_suffix(END) else { return Ok(None) };
        let info: ServerInfo = serde_json::from_str(json)
            .map_err(|error| format!("not the JSON of an SDK of Numaflow: {error}"))?;
        let wanted = version(&info.minimum_numaflow_version);
        if wanted > SPOKEN {
            return Err(format!(
                "the SDK ({} {}) asks for Numaflow {} or newer, and {}.{}.{} is spoken here: use an older SDK",
                info.language, info.version, info.minimum_numaflow_version, SPOKEN[0], SPOKEN[1], SPOKEN[2]
            ));
        }
        Ok(Some(info))
    }

    pub fn map_mode(&self) -> Mode {
        match self.metadata.as_ref().and_then(|metadata| metadata.get("MAP_MODE")).map(String::as_str) {
            Some("batch-map") => Mode::Batch,
            Some("stream-map") => Mode::Stream,
            _ => Mode::Unary,
        }
    }
}

impl Mode {
    pub fn socket(self) -> &'static str {
        match self {
            Mode::Unary => "map.sock",
            Mode::Batch => "batchmap.sock",
            Mode::Stream => "mapstream.sock",
        }
    }
}

/// `1.4.0-z` stands for 1.4.0 and its candidates.
fn version(text: &str) -> [u64; 3] {
    let numbers = text.trim_start_matches('v').split(['-', '+']).next().unwrap_or_default();
    let mut parts = numbers.split('.').map(|part| part.parse().unwrap_or(0));
    std::array::from_fn(|_| parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_when_it_is_whole() {
        let json = r#"{"protocol":"uds","language":"rust","minimum_numaflow_version":"1.4.0-z","version":"0.6.0",
            "metadata":{"MAP_MODE":"batch-map"}}"#;
        assert_eq!(ServerInfo::read(json.as_bytes()), Ok(None));
        let whole = format!("{json}{END}");
        let info = ServerInfo::read(whole.as_bytes()).unwrap().unwrap();
        assert_eq!((info.map_mode(), info.version.as_str()), (Mode::Batch, "0.6.0"));
        let newer = whole.replace("1.4.0-z", "1.9.0");
        assert!(ServerInfo::read(newer.as_bytes()).unwrap_err().contains("use an older SDK"));
        assert!(ServerInfo::read(format!("nonsense{END}").as_bytes()).is_err());
    }
}
