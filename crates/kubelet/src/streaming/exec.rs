//! `kubectl exec`: another command in the surroundings of a running container.

use std::{
    fs::File,
    future::pending,
    io::{self, Read},
    os::fd::{AsRawFd, OwnedFd},
    path::PathBuf,
    pin::pin,
    process::ExitStatus,
    time::Duration,
};

use rustix::process::Signal;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    net::unix::pipe,
    process::Child,
    time,
};
use tokio_util::sync::CancellationToken;

use super::{remote::Remote, status};
use crate::{
    launch::{Spec, Streams},
    process::{self, Launcher, StartError},
    registry::Site,
    terminal::Terminal,
};

/// What may be left in a pipe or terminal when the command has ended; a process that it leaves behind may go on
/// writing for ever.
const LEFT_OVER: usize = 1 << 20;
/// How long a command has to end after its terminal hung up.
const HANG_UP: Duration = Duration::from_secs(2);

/// Runs the command for as long as the client and the container are there, and says how it ended.
pub async fn run(
    launcher: &Launcher,
    site: &Site,
    command: Vec<String>,
    tty: bool,
    remote: &mut Remote,
    over: &CancellationToken,
) -> Value {
    let mut spec = Spec { argv: command, record: None, ..site.spec.clone() };
    let result = if tty {
        spec.env.entry("TERM".to_owned()).or_insert_with(|| "xterm".to_owned());
        in_terminal(launcher, spec, remote, over).await
    } else {
        with_pipes(launcher, spec, remote, over).await
    };
    match result {
        Ok(Some(ending)) => status::of_exit(ending),
        Ok(None) => status::failure("the command was ended with its container or its client"),
        Err(error) => status::failure(&format!("error executing command in container: {error}")),
    }
}

async fn with_pipes(
    launcher: &Launcher,
    mut spec: Spec,
    remote: &mut Remote,
    over: &CancellationToken,
) -> Result<Option<ExitStatus>, StartError> {
    let cannot_start = |error: io::Error| StartError::Command(format!("cannot make a pipe: {error}"));
    // The command's ends are kept until it has opened them by their paths.
    let mut ends: Vec<OwnedFd> = Vec::new();
    let mut path_of = |end: OwnedFd| {
        let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), end.as_raw_fd()));
        ends.push(end);
        path
    };
    let (client_in, client_out, client_err) =
        (remote.stdin.take(), remote.stdout.take(), remote.stderr.take());
    let mut input = None;
    let mut paths = [None, None, None];
    if client_in.is_some() {
        let (read, write) = io::pipe().map_err(cannot_start)?;
        input = Some(pipe::Sender::from_owned_fd(write.into()).map_err(cannot_start)?);
        paths[0] = Some(path_of(read.into()));
    }
    let mut output = |client: Option<DuplexStream>, path: &mut Option<PathBuf>| {
        let Some(client) = client else { return Ok(None) };
        let (read, write) = io::pipe()?;
        *path = Some(path_of(write.into()));
        Ok(Some((pipe::Receiver::from_owned_fd(read.into())?, client)))
    };
    let out = output(client_out, &mut paths[1]).map_err(cannot_start)?;
    let err = output(client_err, &mut paths[2]).map_err(cannot_start)?;
    let [stdin, stdout, stderr] = paths;
    spec.streams = Streams::Pipes { stdin, stdout, stderr };
    let mut child = launcher.spawn(&spec).await?;
    drop(ends);

    let exited = CancellationToken::new();
    let feed = async {
        if let (Some(mut from), Some(mut to)) = (client_in, input) {
            // A command need not read all it is given.
            let _ = tokio::io::copy(&mut from, &mut to).await;
            drop(to);
        }
        pending().await
    };
    let relay = async {
        tokio::join!(relay(out, &exited), relay(err, &exited));
    };
    Ok(attend(&mut child, feed, relay, &exited, over).await)
}

async fn in_terminal(
    launcher: &Launcher,
    mut spec: Spec,
    remote: &mut Remote,
    over: &CancellationToken,
) -> Result<Option<ExitStatus>, StartError> {
    let opened = Terminal::open();
    let (terminal, path) =
        opened.map_err(|error| StartError::Command(format!("cannot open a terminal: {error}")))?;
    spec.streams = Streams::Terminal(path);
    let mut child = launcher.spawn(&spec).await?;
    let (client_in, client_out, sizes) = (remote.stdin.take(), remote.stdout.take(), remote.resize.take());
    let Terminal { output, mut input, window } = terminal;
    let exited = CancellationToken::new();
    let feed = async {
        let input = async {
            if let Some(mut from) = client_in {
                let _ = tokio::io::copy(&mut from, &mut input).await;
            }
        };
        let resize = async {
            if let Some(sizes) = sizes {
                window.follow(sizes).await;
            }
        };
        tokio::join!(input, resize);
        pending().await
    };
    let relay = relay(client_out.map(|client| (output, client)), &exited);
    Ok(attend(&mut child, feed, relay, &exited, over).await)
}

/// Stays with the command until it has ended and its output is through; ends it when nobody wants it any more.
async fn attend(
    child: &mut Child,
    feed: impl Future<Output = ()>,
    relay: impl Future<Output = ()>,
    exited: &CancellationToken,
    over: &CancellationToken,
) -> Option<ExitStatus> {
    let session = child.id().and_then(|pid| i32::try_from(pid).ok());
    {
        let ending = async {
            let ending = child.wait().await;
            exited.cancel();
            ending
        };
        let mut done = pin!(async { tokio::join!(ending, relay).0 });
        tokio::select! {
            ending = &mut done => return ending.ok(),
            () = feed => {}
            () = over.cancelled() => {}
        }
    }
    let session = session?;
    signal(session, Signal::HUP).await;
    let ending = time::timeout(HANG_UP, child.wait()).await;
    // What it has left in its session goes too.
    signal(session, Signal::KILL).await;
    match ending {
        Ok(ending) => ending.ok(),
        Err(_) => child.wait().await.ok(),
    }
}

async fn signal(session: i32, signal: Signal) {
    let _ = tokio::task::spawn_blocking(move || process::signal_session(session, signal)).await;
}

/// Copies a pipe or terminal to the client until its end, or once the command has `exited`, until it is empty.
async fn relay(stream: Option<(pipe::Receiver, DuplexStream)>, exited: &CancellationToken) {
    let Some((mut from, mut to)) = stream else { return };
    let mut buffer = vec![0; 16 << 10];
    loop {
        let length = tokio::select! {
            length = from.read(&mut buffer) => length,
            () = exited.cancelled() => break,
        };
        match length {
            // The command need not end with its output.
            Ok(length @ 1..) if to.write_all(&buffer[..length]).await.is_ok() => {}
            _ => return,
        }
    }
    let Ok(mut rest) = from.into_nonblocking_fd().map(File::from) else { return };
    let mut left = LEFT_OVER;
    while left > 0 {
        match rest.read(&mut buffer) {
            Ok(length @ 1..) if to.write_all(&buffer[..length]).await.is_ok() => {
                left = left.saturating_sub(length);
            }
            _ => return,
        }
    }
}
