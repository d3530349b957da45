//! A relay before the emulator that counts requests, and cuts connections on request.

use std::sync::{Arc, Mutex, PoisonError};

use leasehold_testkit::servers::Azurite;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// What becomes of a request, and of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// It never arrives.
    Request,
    /// It arrives, and its answer does not.
    Answer,
}

#[derive(Debug, Default)]
struct State {
    /// The first line of each request.
    requests: Vec<String>,
    /// What becomes of the requests to come, the next one first.
    plan: Vec<Option<Cut>>,
}

pub(crate) struct Relay {
    endpoint: String,
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

impl Relay {
    pub(crate) async fn before(azurite: &Azurite) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let (_, rest) = azurite.endpoint().split_once("://").expect("a URL");
        let (server, path) = rest.split_once('/').expect("a path");
        let (server, state) = (server.to_owned(), Arc::<Mutex<State>>::default());
        let task = tokio::spawn(accept(listener, server, Arc::clone(&state)));
        Self {
            endpoint: format!("http://127.0.0.1:{port}/{path}"),
            state,
            task,
        }
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// What becomes of the next requests.
    pub(crate) fn plan(&self, plan: Vec<Option<Cut>>) {
        lock(&self.state).plan = plan;
    }

    /// The requests since the last time.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.state).requests)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, server: String, state: Arc<Mutex<State>>) {
    let mut connections = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.expect("a connection");
        let server = TcpStream::connect(&server).await.expect("the emulator");
        connections.spawn(relay(client, server, Arc::clone(&state)));
    }
}

/// One connection. None of our requests has a body, so each ends with its head.
async fn relay(mut client: TcpStream, mut server: TcpStream, state: Arc<Mutex<State>>) {
    let (mut head, mut asked, mut answered) = (Vec::new(), [0; 4096], [0; 4096]);
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(1..) = read else { return };
                head.extend_from_slice(&asked[..read.unwrap_or(0)]);
                if !head.ends_with(b"\r\n\r\n") {
                    continue;
                }
                let request = String::from_utf8_lossy(&head).into_owned();
                let cut = {
                    let mut state = lock(&state);
                    let line = request.lines().next().unwrap_or_default().to_owned();
                    state.requests.push(line);
                    if state.plan.is_empty() { None } else { state.plan.remove(0) }
                };
                if cut == Some(Cut::Request) || server.write_all(&head).await.is_err() {
                    return;
                }
                if cut == Some(Cut::Answer) {
                    // What answers has done it.
                    let _ = server.read(&mut answered).await;
                    return;
                }
                head.clear();
            }
            read = server.read(&mut answered) => {
                let Ok(length @ 1..) = read else { return };
                if client.write_all(&answered[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}
