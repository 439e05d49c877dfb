//! Threads that serve connections. Each has an event loop of its own, so that a call is read, sent on and answered by one
//! thread: no other has to be woken for it, and no lock of a shared event loop is waited for.

use std::{
    cell::Cell,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::FutureExt as _;
use tokio::{net::TcpStream, runtime, sync::mpsc};

use crate::{admission::Admitted, gateway::Gateway, server::serve};

pub(crate) struct Workers(Vec<Worker>);

struct Worker {
    inbox: mpsc::UnboundedSender<Accepted>,
    connections: Arc<AtomicUsize>,
}

/// A connection, and what it holds until it ends.
struct Accepted {
    stream: std::net::TcpStream,
    peer: SocketAddr,
    admitted: Admitted,
    counted: Counted,
}

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// Numbers the worker that runs this, from 1. All that runs elsewhere is 0.
///
/// A connection to a pod belongs to the event loop that made it, and should be used by that worker only.
pub(crate) fn current() -> usize {
    CURRENT.get()
}

impl Workers {
    /// They end once this is dropped and the last task of the gateway has ended.
    pub(crate) fn start(gateway: &Gateway) -> io::Result<Self> {
        let workers = 1..=gateway.options().workers;
        workers.map(|number| Worker::start(gateway.clone(), number)).collect::<io::Result<_>>().map(Workers)
    }

    /// Serves the connection where there are the fewest.
    pub(crate) fn serve(
        &self,
        gateway: &Gateway,
        stream: TcpStream,
        peer: SocketAddr,
        admitted: Admitted,
    ) -> io::Result<()> {
        let Some(worker) = self.0.iter().min_by_key(|worker| worker.connections.load(Ordering::Relaxed))
        else {
            spawn(gateway, stream, peer, admitted, ());
            return Ok(());
        };
        let counted = Counted::new(&worker.connections);
        let accepted = Accepted { stream: stream.into_std()?, peer, admitted, counted };
        worker
            .inbox
            .send(accepted)
            .map_err(|_| io::Error::other("a thread that serves connections has ended"))
    }
}

impl Worker {
    fn start(gateway: Gateway, number: usize) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (inbox, mut accepted) = mpsc::unbounded_channel();
        std::thread::Builder::new().name(format!("gateway-{number}")).spawn(move || {
            CURRENT.set(number);
            runtime.block_on(async {
                while let Some(Accepted { stream, peer, admitted, counted }) = accepted.recv().await {
                    match TcpStream::from_std(stream) {
                        Ok(stream) => spawn(&gateway, stream, peer, admitted, counted),
                        Err(error) => tracing::warn!(%error, "a connection could not be served"),
                    }
                }
                gateway.tasks().wait().await;
            });
        })?;
        Ok(Worker { inbox, connections: Arc::default() })
    }
}

fn spawn(
    gateway: &Gateway,
    stream: TcpStream,
    peer: SocketAddr,
    admitted: Admitted,
    counted: impl Send + 'static,
) {
    gateway.tasks().spawn(serve(gateway.clone(), stream, peer, admitted).map(move |()| drop(counted)));
}

struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(counter: &Arc<AtomicUsize>) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Counted(counter.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
