//! What a process has used, as the kernel counts it.

use std::{fs, time::Duration};

use anyhow::{Context, Result};

use crate::Running;

/// Of the kernel's clock, as it is shown to programs.
const TICKS_A_SECOND: f64 = 100.0;

impl Running {
    /// Processor time since its start.
    pub fn processor_time(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.live_pid()?))?;
        // after the name, which may have spaces
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        let ticks = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
        Ok(Duration::from_secs_f64(ticks as f64 / TICKS_A_SECOND))
    }

    /// Resident memory.
    pub fn rss_mb(&self) -> Result<f64> {
        self.status_mb("VmRSS:")
    }

    /// The most that it ever was.
    pub fn peak_rss_mb(&self) -> Result<f64> {
        self.status_mb("VmHWM:")
    }

    fn status_mb(&self, name: &str) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.live_pid()?))?;
        let line =
            status.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("no {name}"))?;
        Ok(line.split_whitespace().next().context("no figure")?.parse::<f64>()? / 1024.0)
    }

    fn live_pid(&self) -> Result<u32> {
        self.pid().context("it has ended")
    }
}
