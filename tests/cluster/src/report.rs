//! What benchmarks have in common: figures of processes and times, and tables in a page.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use crate::Running;

/// Puts a table between the markers of this name in a page.
pub fn write_table(page: &Path, name: &str, table: &str) -> Result<()> {
    let [begin, end] = ["begin", "end"].map(|which| format!("<!-- {name}: {which} -->"));
    let text = fs::read_to_string(page)?;
    let place = text.find(&begin).zip(text.find(&end));
    let (from, to) = place.with_context(|| format!("{} has no {begin} and {end}", page.display()))?;
    fs::write(page, format!("{}{begin}\n\n{table}\n{}", &text[..from], &text[to..]))?;
    Ok(())
}

/// When and with what a table was measured. `load` is that of the machine before anything of the benchmark ran.
pub fn heading(load: &str) -> String {
    let date = jiff::Zoned::now().date();
    let build = if cfg!(debug_assertions) { "a debug build" } else { "an optimized build" };
    let asked = Command::new("git").args(["describe", "--always", "--dirty"]).output();
    let commit = asked.map_or_else(
        |_| "unknown".to_owned(),
        |answer| String::from_utf8_lossy(&answer.stdout).trim().to_owned(),
    );
    format!("{date}, commit {commit}, {build}, load of the machine before: {load}.")
}

/// Over the last minute.
pub fn load() -> Result<String> {
    let load = fs::read_to_string("/proc/loadavg")?;
    Ok(load.split(' ').next().unwrap_or_default().to_owned())
}

/// How a target was kept.
pub fn target(text: &str, is_met: bool) -> String {
    if is_met { text.to_owned() } else { format!("{text}: missed") }
}

/// The smallest of times in order, in seconds, that so many percent do not exceed.
pub fn percentile(times: &[Duration], percent: usize) -> f64 {
    let at = (times.len() * percent).div_ceil(100).max(1) - 1;
    times.get(at).map_or(0.0, Duration::as_secs_f64)
}

/// Processor time over a while.
pub async fn cores(running: &Running, time: Duration) -> Result<f64> {
    let (before, begun) = (running.processor_time()?, Instant::now());
    tokio::time::sleep(time).await;
    Ok((running.processor_time()? - before).as_secs_f64() / begun.elapsed().as_secs_f64())
}

/// Where a program writes its log: `BALLAST_LOGS` names a folder that keeps them.
pub fn log(directory: &Path, name: &str) -> Result<PathBuf> {
    let folder = std::env::var_os("BALLAST_LOGS").map_or(directory.to_owned(), PathBuf::from);
    fs::create_dir_all(&folder)?;
    Ok(folder.join(format!("{name}.log")))
}
