//! The command line. Each command is a file of its own.

mod crds;
mod decide;
mod explain;
mod gateway_flags;
mod lint;
mod log_flags;
mod man;
mod operator_flags;
mod promql;
mod serve;
mod simulate;
mod status;
mod store_flags;
mod up;
mod vertex;

use std::{env, ffi::OsString, io, path::Path, process::ExitCode};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::output;

/// One autoscaling control plane for Kubernetes: many signals, one writer.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
pub struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start everything in one process, on an embedded Kubernetes that kubectl can use
    Up(up::Up),
    /// Run as a node of Ballast on a cluster
    Serve(Box<serve::Serve>),
    /// Print the CustomResourceDefinitions, for `kubectl apply -f -`
    Crds(crds::Crds),
    /// Tell what the Ballast in a data directory is doing
    Status(status::Status),
    /// Tell why something has as many replicas as it has: the last decisions about it
    Explain(explain::Explain),
    /// Tell what a policy would do with an input: JSON in, decision out
    Decide(decide::Decide),
    /// Run a scenario on a virtual clock: what would happen, and why
    Simulate(simulate::Simulate),
    /// Check manifests without a cluster
    Lint(lint::Lint),
    /// Run queries without a server
    Promql(promql::Promql),
    /// Print the completion script of a shell
    Completions { shell: clap_complete::Shell },
    /// Write the manual pages
    Man(man::Man),
    /// Move the messages of a pipeline's pod (started by its controller only)
    #[command(hide = true)]
    Vertex(vertex::Vertex),
    /// Become a container's process (started by the process node only)
    #[command(hide = true)]
    PodExec,
}

impl Program {
    /// Ends the process when the arguments are wrong, or help is all that is asked for.
    pub fn read() -> Self {
        let command = match is_plugin(env::args_os().next()) {
            true => Self::command().bin_name("kubectl ballast"),
            false => Self::command(),
        };
        Self::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
    }

    pub fn run(self) -> ExitCode {
        let result = match self.command {
            // no runtime yet: the launcher may have one thread only
            Command::PodExec => return kubelet::launch::main(),
            Command::Up(up) => up.run(),
            Command::Serve(serve) => serve.run(),
            Command::Crds(crds) => crds.run(),
            Command::Status(status) => status.run(),
            Command::Explain(explain) => explain.run(),
            Command::Decide(decide) => decide.run(),
            Command::Simulate(simulate) => simulate.run(),
            Command::Lint(lint) => lint.run(),
            Command::Promql(promql) => promql.run(),
            Command::Vertex(vertex) => vertex.run(),
            Command::Man(man) => man.run(Self::command()),
            Command::Completions { shell } => {
                clap_complete::generate(shell, &mut Self::command(), "ballast", &mut io::stdout());
                Ok(ExitCode::SUCCESS)
            }
        };
        result.unwrap_or_else(|error| output::failure(1, &error))
    }
}

/// kubectl runs the program of this name for `kubectl ballast`.
fn is_plugin(called: Option<OsString>) -> bool {
    let called = called.unwrap_or_default();
    Path::new(&called).file_stem().is_some_and(|name| name == "kubectl-ballast")
}
