//! Child processes that end with the test that started them.

use std::{
    fs::File,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread,
};

use anyhow::{Context, Result};

type Job = (Command, mpsc::Sender<std::io::Result<Child>>);

/// Starts `program` with its output in `log`. When this process dies, however it dies, the kernel ends the child too.
///
/// The death signal is tied to the thread that spawned the child, so all children are spawned by one thread that
/// lives as long as the process (tests run on threads that come and go).
pub fn spawn(program: &Path, args: &[String], log: &Path) -> Result<Running> {
    let output = File::create(log).with_context(|| format!("failed to create {}", log.display()))?;
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL"])
        .arg(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output);
    let (reply, answer) = mpsc::channel();
    spawner().lock().unwrap_or_else(|poisoned| poisoned.into_inner()).send((command, reply))?;
    let child = answer.recv()?.with_context(|| {
        format!("failed to start {} through setpriv (package util-linux)", program.display())
    })?;
    Ok(Running { child: Some(child) })
}

/// The same with a program that finds its API server by `KUBECONFIG`. `env` becomes the program, so that the process that
/// was started is the one to measure.
pub fn spawn_client(program: &Path, kubeconfig: &Path, args: &[String], log: &Path) -> Result<Running> {
    let set = format!("KUBECONFIG={}", kubeconfig.display());
    let mut all = vec![set, program.canonicalize()?.display().to_string()];
    all.extend_from_slice(args);
    spawn(Path::new("/usr/bin/env"), &all, log)
}

/// One node of `ballast serve`, with its store in the directory.
pub fn spawn_ballast(
    program: &Path,
    kubeconfig: &Path,
    directory: &Path,
    flags: &[&str],
    log: &Path,
) -> Result<Running> {
    let usual = ["serve", "--namespace=default", "--node-name=bench"];
    let addresses = ["--gateway-addr=127.0.0.1:0", "--operator-addr=127.0.0.1:0"];
    let all = usual.iter().chain(&addresses).chain(flags).map(|flag| (*flag).to_owned());
    let store = format!("--store=redb:{}", directory.join("ballast.redb").display());
    spawn_client(program, kubeconfig, &all.chain([store]).collect::<Vec<_>>(), log)
}

fn spawner() -> &'static Mutex<mpsc::Sender<Job>> {
    static SPAWNER: OnceLock<Mutex<mpsc::Sender<Job>>> = OnceLock::new();
    SPAWNER.get_or_init(|| {
        let (sender, jobs) = mpsc::channel::<Job>();
        thread::spawn(move || {
            for (mut command, reply) in jobs {
                // the asker may have given up; then the child ends with the process
                let _ = reply.send(command.spawn());
            }
        });
        Mutex::new(sender)
    })
}

/// A process that is killed when dropped.
pub struct Running {
    child: Option<Child>,
}

impl Running {
    pub fn has_exited(&mut self) -> bool {
        self.child.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None)))
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Ports that are free now, all different, and never the same twice in this process.
///
/// They lie below those that the system gives to outgoing connections and to listeners that ask for any port: between
/// here and the start of the server that gets the port, nobody takes it by chance.
pub fn free_ports<const N: usize>() -> Result<[u16; N]> {
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 22_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // processes that run side by side begin at different places
    let begin = std::process::id().wrapping_mul(997);
    let mut ports = [0; N];
    for port in &mut ports {
        *port = (0..COUNT)
            .map(|_| begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT + FIRST)
            .filter_map(|candidate| u16::try_from(candidate).ok())
            .find(|candidate| TcpListener::bind(("127.0.0.1", *candidate)).is_ok())
            .context("no port is free")?;
    }
    Ok(ports)
}
