//! The languages: which image runs a Function's code, and the small server that calls it.
//!
//! Nothing is built. The server comes with the source in a ConfigMap, so that the language's official image is enough,
//! and so that the process node can run it with the host's own `node` or `python3`.

pub(super) struct Runtime {
    pub name: &'static str,
    pub image: &'static str,
    pub language: &'static Language,
}

pub(super) struct Language {
    /// File name and text of the server.
    pub server: (&'static str, &'static str),
    pub handler: &'static str,
    /// File that lists what the code needs.
    pub dependencies: &'static str,
    /// Whether that file is a JSON object.
    pub dependencies_are_json: bool,
    pub interpreter: &'static [&'static str],
}

const NODE_JS: Language = Language {
    server: ("server.js", include_str!("runtimes/server.js")),
    handler: "handler.js",
    dependencies: "package.json",
    dependencies_are_json: true,
    interpreter: &["node"],
};

const PYTHON: Language = Language {
    server: ("server.py", include_str!("runtimes/server.py")),
    handler: "handler.py",
    dependencies: "requirements.txt",
    dependencies_are_json: false,
    // output goes to the log at once
    interpreter: &["python3", "-u"],
};

const ALL: [Runtime; 4] = [
    Runtime { name: "nodejs20", image: "docker.io/library/node:20-alpine", language: &NODE_JS },
    Runtime { name: "nodejs22", image: "docker.io/library/node:22-alpine", language: &NODE_JS },
    Runtime { name: "nodejs24", image: "docker.io/library/node:24-alpine", language: &NODE_JS },
    Runtime { name: "python312", image: "docker.io/library/python:3.12-alpine", language: &PYTHON },
];

pub(super) fn find(name: &str) -> Option<&'static Runtime> {
    static RUNTIMES: [Runtime; 4] = ALL;
    RUNTIMES.iter().find(|runtime| runtime.name == name)
}
