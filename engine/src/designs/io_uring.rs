//! One process, one ring: the server submits accepts, receives and sends, and reads their completions.
//!
//! One multishot accept, and one multishot receive per connection, stay in the ring and produce a completion whenever
//! data arrives. Data arrives in buffers that all connections share, and that are returned at once. While a connection
//! has unsent output, the session gets no received data. If more arrives than an inbox holds, the receive is cancelled
//! until the output is sent.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::MutexGuard;

use anyhow::{Context, Result};
use rustc_hash::FxHashMap;

use crate::base::about::About;
use crate::base::feature::{Feature, IO_URING};
use crate::base::setting::{Kind, Setting};
use crate::base::unit::Unit;
use crate::server::connection::{Connection, has_computed};
use crate::server::design::{COMMON, Design, Run, Worker, no_pool};
use crate::server::shares::Shares;
use crate::sys::ring::{Buffer, Completion, Ring};
use crate::transfer::primitive::Waits;
use crate::transfer::ring::{Parcels, ThroughRing};
use crate::transfer::waiting::{WAIT, spins};

pub static ENTRY: Design = Design {
    about: About {
        summary: "One process with io_uring: multishot accept and receive, a ring of provided buffers",
        source: "io_uring(7); io_uring_enter(2), IORING_ACCEPT_MULTISHOT and IORING_RECV_MULTISHOT",
    },
    waits: Waits::ForCompletion,
    shares: Shares::Turns { accepts: None },
    settings: &[RECEIVE_BUFFERS, RECEIVE_BUFFER_SIZE, WAIT],
    workers: no_pool,
    serve,
    rests_on: &[&IO_URING, &MULTISHOT],
    ..COMMON
};

/// Kernel features that this design's ring needs.
const MULTISHOT: Feature = Feature {
    name: "io_uring, multishot with rings of buffers and IORING_SETUP_DEFER_TASKRUN",
    since: Some("6.1"),
    refusal: || Ring::new(1, 64).err().map(|refusal| refusal.to_string()),
};

const RECEIVE_BUFFERS: Setting = Setting {
    name: "receive_buffers",
    help: "Receive buffers, shared by all connections",
    unit: Unit::Of("buffers"),
    kind: Kind::Integer { minimum: 1, maximum: 1 << 15, default: 1024 },
    for_more: None,
};

const RECEIVE_BUFFER_SIZE: Setting = Setting {
    name: "receive_buffer_size",
    help: "Size of each receive buffer",
    unit: Unit::Bytes,
    kind: Kind::Integer { minimum: 64, maximum: 1 << 20, default: 4096 },
    for_more: None,
};

fn serve(run: &'static Run) -> Result<()> {
    let buffers = run.settings.integer(RECEIVE_BUFFERS.name) as u16;
    let mut ring = Ring::new(buffers, run.settings.integer(RECEIVE_BUFFER_SIZE.name) as usize)
        .context("cannot create the ring")?;
    let (acceptor, mut worker) = (run.acceptor(), run.worker()?);
    let listener = run.listener().as_fd();
    let mut clients = FxHashMap::default();
    let mut listening = true;
    let spins = spins(&run.settings);
    ring.accept(listener)?;
    while listening || !clients.is_empty() {
        if spins { ring.look() } else { ring.wait() }?;
        while let Some(completion) = ring.completion() {
            let socket = match completion {
                Completion::Accepted { result: Ok(socket), more } => {
                    if !more {
                        ring.accept(listener)?;
                    }
                    let client = Client::new(&mut worker, socket);
                    let socket = client.connection.as_raw_fd();
                    clients.insert(socket, client);
                    socket
                }
                Completion::Accepted { result: Err(error), .. } => {
                    // An error ends the multishot accept: EINVAL for good, because the listener was shut down.
                    match error.raw_os_error() {
                        Some(libc::EINVAL) => listening = false,
                        Some(libc::EINTR) => ring.accept(listener)?,
                        _ => match acceptor.tally_refusal(&error) {
                            Some(pause) => ring.pause(pause)?,
                            None => ring.accept(listener)?,
                        },
                    }
                    continue;
                }
                Completion::Paused => {
                    ring.accept(listener)?;
                    continue;
                }
                Completion::Ready { .. } => continue,
                Completion::Received { socket, result, more } => {
                    let client = clients.get_mut(&socket).expect("a client stays while its receive is in flight");
                    client.received(&mut ring, result, more);
                    socket
                }
                Completion::Sent { socket, result } => {
                    let client = clients.get_mut(&socket).expect("a client stays while its send is in flight");
                    client.sending = false;
                    client.parcels().sent = Some(result);
                    socket
                }
            };
            let client = clients.get_mut(&socket).expect("it was there just now");
            client.advance(&mut ring)?;
            if has_computed() {
                // Its reply is submitted before another is computed.
                ring.look()?;
            }
            if client.is_over()
                && let Some(client) = clients.remove(&socket)
            {
                client.connection.finish();
            }
        }
    }
    Ok(())
}

/// A connection, and its operations in flight. It stays until none is in flight.
struct Client {
    connection: Connection,
    through: ThroughRing,
    receiving: Receiving,
    sending: bool,
    closing: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Receiving {
    No,
    Yes,
    /// Until its completion arrives.
    Cancelled,
}

impl Client {
    fn new(worker: &mut Worker, socket: OwnedFd) -> Self {
        let through = ThroughRing::default();
        let connection = worker.open_with(socket, Box::new(through.clone()), Box::new(through.clone()));
        Client { connection, through, receiving: Receiving::No, sending: false, closing: false }
    }

    fn received(&mut self, ring: &mut Ring, result: io::Result<Option<Buffer>>, more: bool) {
        if !more {
            self.receiving = Receiving::No;
        }
        // Requested again when it is needed: all buffers have been returned by then.
        self.parcels().take(ring, result);
    }

    /// Advances the connection, and submits the operations that it wants.
    fn advance(&mut self, ring: &mut Ring) -> io::Result<()> {
        // A connection with unsent output waits for nothing else.
        if !self.sending && !self.closing {
            self.closing = self.connection.advance_in_place().is_none();
        }
        let mut parcels = self.through.parcels();
        if let Some((bytes, range)) = parcels.to_send.take() {
            ring.send(self.connection.socket(), bytes, range)?;
            self.sending = true;
        }
        let wanted = !self.closing && parcels.wants_more();
        match self.receiving {
            Receiving::No if wanted => {
                ring.receive(self.connection.socket())?;
                self.receiving = Receiving::Yes;
            }
            Receiving::Yes if !wanted => {
                ring.cancel_receive(self.connection.socket())?;
                self.receiving = Receiving::Cancelled;
            }
            _ => {}
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.closing && !self.sending && self.receiving == Receiving::No
    }

    fn parcels(&self) -> MutexGuard<'_, Parcels> {
        self.through.parcels()
    }
}
