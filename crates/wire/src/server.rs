//! The server: its address, its limits, its thread, and its end.

use std::fmt;
use std::fmt::Write as _;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::sleep;

use crate::connection::serve_connection;
use crate::exchange::RequestHandler;
use crate::received_body::HeldBytes;

/// The random bytes of a secret path.
const SECRET_BYTES: usize = 20;

/// How long the server waits if the process has too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// The most bytes of a body. The answer to a larger one is 413.
    pub body_bytes: u64,
    /// The most bytes of all bodies that arrive at the same time. The answer to the body above it is 503.
    pub held_bytes: u64,
    /// The most connections; further ones wait.
    pub connections: usize,
    /// How long a client may take to send the head of a request.
    pub head_time: Duration,
    /// How long a client may take to send a body.
    pub body_time: Duration,
    /// How long a connection may last, with the delay of its answer.
    pub exchange_time: Duration,
}

/// Whether the path of a server can be guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// The path is `/`.
    Open,
    /// The path begins with 160 random bits. The answer to all other paths is 404.
    Secret,
}

/// A server of HTTP on 127.0.0.1. On drop, its port, connections and thread end.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    state: Arc<ServerState>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The parts of a server that its connections share.
pub(crate) struct ServerState {
    pub(crate) limits: ServerLimits,
    pub(crate) handler: Arc<dyn RequestHandler>,
    pub(crate) held: HeldBytes,
    /// The number of requests outside the secret path.
    pub(crate) outside: AtomicU64,
    /// The beginning of every path, with its slash; empty if the address is open.
    secret: String,
}

impl fmt::Debug for ServerState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ServerState").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl ServerState {
    /// Returns a path without the secret part, or `None` if it does not begin with that.
    pub(crate) fn strip_secret<'p>(&self, path: &'p str) -> Option<&'p str> {
        let rest = path.strip_prefix(&self.secret)?;
        match rest {
            "" => Some("/"),
            _ => rest.starts_with(['/', '?']).then_some(rest),
        }
    }
}

impl ModelServer {
    /// Serves on a free port of 127.0.0.1.
    pub fn start(
        limits: ServerLimits,
        address: ServerAddress,
        handler: Arc<dyn RequestHandler>,
    ) -> io::Result<Self> {
        let secret = match address {
            ServerAddress::Open => String::new(),
            ServerAddress::Secret => generate_secret()?,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr()?;
        let (held, outside) = (HeldBytes::default(), AtomicU64::new(0));
        let state = Arc::new(ServerState { limits, handler, held, outside, secret });
        let (end, ended) = oneshot::channel::<()>();
        let serving = Arc::clone(&state);
        let thread = thread::Builder::new().name("callsheet-wire".to_owned()).spawn(move || {
            runtime.spawn(accept_connections(listener, serving));
            // It fails when the server is dropped. The port and the connections end with the runtime.
            let _ = runtime.block_on(ended);
        })?;
        Ok(Self { address, state, end: Some(end), thread: Some(thread) })
    }

    /// Returns its address, as `http://127.0.0.1:PORT`, with the secret part of the path if it has one.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.address, self.state.secret)
    }

    /// Returns the number of requests outside its secret path.
    pub fn outside_requests(&self) -> u64 {
        self.state.outside.load(Ordering::SeqCst)
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported by the thread.
            let _ = thread.join();
        }
    }
}

fn generate_secret() -> io::Result<String> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let mut secret = "/".to_owned();
    for byte in bytes {
        write!(secret, "{byte:02x}").map_err(io::Error::other)?;
    }
    Ok(secret)
}

async fn accept_connections(listener: TcpListener, state: Arc<ServerState>) {
    let connections = Arc::new(Semaphore::new(state.limits.connections.max(1)));
    while let Ok(permit) = Arc::clone(&connections).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(serve_connection(stream, Arc::clone(&state), permit))),
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}
