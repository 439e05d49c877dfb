//! A process node of its own, for tests against any API server: `process-node NAME DATA_DIR`, with the
//! API server from the kubeconfig and the log level from `RUST_LOG`. `process-node pod-exec` is its launcher.

use std::process::ExitCode;

use kubelet::{Node, Options, launch};
use tokio_util::sync::CancellationToken;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().map(String::as_str) == Some("pod-exec") {
        return launch::main();
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // The program's only word to a person.
            #[expect(clippy::print_stderr)]
            {
                eprintln!("process-node: {message}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let usage = || "usage: process-node NAME DATA_DIR [--schedule] [--no-mounts] [--token=TOKEN]".to_owned();
    let [name, data_dir, flags @ ..] = arguments else { return Err(usage()) };
    let mut options = Options::new(name, data_dir);
    options.host_env = std::env::vars().collect();
    for flag in flags {
        match flag.as_str() {
            "--schedule" => options.schedule = true,
            "--no-mounts" => options.mount_namespaces = false,
            flag => match flag.strip_prefix("--token=") {
                Some(token) => options.token = Some(token.to_owned()),
                None => return Err(usage()),
            },
        }
    }
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let client = kube::Client::try_default().await.map_err(|error| error.to_string())?;
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
            .map_err(|error| error.to_string())?;
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            stop.cancel();
        });
        Node::new(options).run(client, shutdown).await.map_err(|error| error.to_string())
    })
}
