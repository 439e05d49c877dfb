//! Writes a scenario's chart and page: `cargo run -p sim --example render -- FILE.yaml OUT`, giving OUT.svg and OUT.html.

use std::{env, error::Error, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let (Some(file), Some(out)) = (args.next(), args.next()) else {
        return Err("expected a scenario file and the path to write to, without extension".into());
    };
    let report = sim::run(&sim::Scenario::from_yaml(&fs::read_to_string(file)?)?);
    fs::write(format!("{out}.svg"), report.svg())?;
    fs::write(format!("{out}.html"), report.html())?;
    Ok(())
}
