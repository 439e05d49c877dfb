//! Without mount namespaces: mount paths become paths under the pod's own directory.
//!
//! Two ways lead to a volume then. `BALLAST_ROOT` names a directory in which every mount path exists
//! (`$BALLAST_ROOT/etc/config`); it is empty where there are mount namespaces, so that one manifest serves both. And
//! mount paths that stand in `command`, `args` and `env` are rewritten, so that most manifests need not care.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use crate::launch::Bind;

/// Mount paths and where they really are; the longest first, so that an inner mount wins over the outer.
#[derive(Debug, Default)]
pub struct Paths(Vec<(String, String)>);

/// Makes a tree of links under `root` in which each mount path leads to its volume.
pub fn lay_out(root: &Path, binds: &[Bind]) -> io::Result<Paths> {
    let mut binds: Vec<&Bind> = binds.iter().collect();
    binds.sort_by_key(|bind| bind.target.components().count());
    let mut paths = Vec::new();
    for bind in binds {
        let link = root.join(bind.target.strip_prefix("/").unwrap_or(&bind.target));
        if fs::symlink_metadata(&link).is_err() {
            if let Some(parent) = link.parent() {
                fs::create_dir_all(parent)?;
            }
            symlink(&bind.source, &link)?;
        } else if fs::read_link(&link).is_ok_and(|target| target != bind.source) {
            fs::remove_file(&link)?;
            symlink(&bind.source, &link)?;
        }
        paths.push((text(&bind.target), text(&link)));
    }
    paths.reverse();
    Ok(Paths(paths))
}

fn text(path: &Path) -> String {
    path.components().collect::<PathBuf>().to_string_lossy().into_owned()
}

// === impl Paths ===

impl Paths {
    /// Rewrites each mount path that stands as a path of its own: `/data` and `/data/x`, but not `/database` or `/a/data`.
    pub fn rewrite(&self, words: &str) -> String {
        let mut out = String::with_capacity(words.len());
        let mut rest = words;
        let mut before = None;
        'scan: while let Some(next) = rest.chars().next() {
            if next == '/' && !before.is_some_and(is_path_char) {
                for (from, to) in &self.0 {
                    if let Some(after) = rest.strip_prefix(from.as_str())
                        && !after.chars().next().is_some_and(|c| c != '/' && is_path_char(c))
                    {
                        out.push_str(to);
                        before = to.chars().next_back();
                        rest = after;
                        continue 'scan;
                    }
                }
            }
            out.push(next);
            before = Some(next);
            rest = &rest[next.len_utf8()..];
        }
        out
    }
}

fn is_path_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-')
}
