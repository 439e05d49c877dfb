//! Child processes that end with the test that started them.

use std::{
    fs::File,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Mutex, OnceLock, mpsc},
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

/// Ports that are free now, all different.
pub fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut ports = [0; N];
    let mut held = Vec::with_capacity(N);
    for port in &mut ports {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}
