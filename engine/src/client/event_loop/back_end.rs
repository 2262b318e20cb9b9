//! Interface of an event loop of clients to the kernel: channels for its connections, and notice of their readiness.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::client::exchange::Caller;
use crate::count::tally::Slot;
use crate::sys::descriptor::PollFlags;
use crate::transfer::channel::Channel;

/// A way of finding the ready sockets among many.
pub trait BackEnd {
    /// State of one client's socket; the default stands for an unknown socket.
    type Watch: Default;

    /// True if it waits for readiness. If not, a socket that it reports may only be worth a try, which does not count
    /// as progress.
    const WAITS: bool = true;

    /// Makes a channel of a newly connected non-blocking socket.
    fn open(&mut self, watch: &mut Self::Watch, socket: OwnedFd, slot: &'static Slot) -> io::Result<Channel>;

    /// Starts to watch the client's socket for this readiness, level-triggered.
    fn watch(
        &mut self,
        client: usize,
        watch: &mut Self::Watch,
        socket: BorrowedFd<'_>,
        flags: PollFlags,
    ) -> io::Result<()>;

    /// Stops watching the socket, which stays open.
    fn ignore(&mut self, watch: &mut Self::Watch, socket: BorrowedFd<'_>);

    /// Notes that a connection attempt of a socket is about to be given up.
    fn forget(&mut self, watch: &mut Self::Watch, socket: BorrowedFd<'_>);

    /// Closes a connection, and gives its sender the time that the kernel needs for its pieces.
    fn close(&mut self, watch: &mut Self::Watch, caller: Box<Caller<'static>>, patience: Duration);

    /// Waits until a socket is ready, for at most this long, if it waits at all; a signal ends the wait too.
    fn wait(&mut self, time: Duration) -> io::Result<()>;

    /// Connections that it is closing and that are still open.
    fn closing(&self) -> usize {
        0
    }

    /// Waits until all connections that it is closing are closed.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Returns the number of ready sockets handled before clients with replies send again.
    fn together(&self) -> usize {
        1
    }

    /// The next socket that [`BackEnd::wait`] found ready: its client, and its readiness.
    fn next(&mut self) -> Option<(usize, PollFlags)>;
}
