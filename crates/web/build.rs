//! Makes a table of what `make web` built. Nothing is built here: a build of Rust neither needs Node nor runs it.

#![allow(clippy::print_stdout, reason = "that is how a build script talks to cargo")]

use std::{
    env,
    error::Error,
    fmt::Write,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::Path,
};

fn main() -> Result<(), Box<dyn Error>> {
    let manifest_dir = env::var("CARGO_MANIFEST_DIR")?;
    let dist = Path::new(&manifest_dir).join("../../web/dist").canonicalize()?;
    println!("cargo::rerun-if-changed={}", dist.display());

    let mut table = String::from("&[\n");
    if dist.join("index.html").exists() {
        let mut paths: Vec<_> =
            fs::read_dir(&dist)?.map(|entry| Ok(entry?.path())).collect::<Result<_, std::io::Error>>()?;
        paths.sort();
        for path in paths {
            let name = path.file_name().and_then(|name| name.to_str()).ok_or("a name that is not UTF-8")?;
            let content_type = match name.rsplit_once('.').map(|(_, ending)| ending) {
                Some("html") => "text/html; charset=utf-8",
                Some("js") => "text/javascript; charset=utf-8",
                Some("css") => "text/css; charset=utf-8",
                Some("svg") => "image/svg+xml",
                Some("gitkeep") => continue,
                _ => return Err(format!("{}: no content type is known for it", path.display()).into()),
            };
            let mut hasher = DefaultHasher::new();
            fs::read(&path)?.hash(&mut hasher);
            let tag = format!("\"{:016x}\"", hasher.finish());
            writeln!(
                table,
                "    File {{ name: {name:?}, content_type: {content_type:?}, tag: {tag:?}, bytes: include_bytes!({path:?}) }},"
            )?;
        }
    }
    table.push_str("]\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("files.rs"), table)?;
    Ok(())
}
