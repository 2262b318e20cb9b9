//! What an event loop of clients asks of the kernel: channels for its connections, and to be told which of them are ready.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::client::exchange::Caller;
use crate::count::tally::Slot;
use crate::sys::descriptor::PollFlags;
use crate::transfer::channel::Channel;

/// A way of finding, among many sockets, those that are ready.
pub trait BackEnd {
    /// What it keeps of one client's socket; the default is that of a socket which it does not know.
    type Watch: Default;

    /// It waits until a socket is ready; otherwise one that it names may only be worth a try, which is no progress.
    const WAITS: bool = true;

    /// Makes a channel of a socket that has just been connected and that does not block.
    fn open(&mut self, watch: &mut Self::Watch, socket: OwnedFd, slot: &'static Slot) -> io::Result<Channel>;

    /// From now on the client's socket is waited for until it is ready for this, again and again.
    fn watch(
        &mut self,
        client: usize,
        watch: &mut Self::Watch,
        socket: BorrowedFd<'_>,
        flags: PollFlags,
    ) -> io::Result<()>;

    /// The socket, which stays open, is not to wake the loop until it is watched again.
    fn ignore(&mut self, watch: &mut Self::Watch, socket: BorrowedFd<'_>);

    /// A socket that was being connected is about to be given up.
    fn forget(&mut self, watch: &mut Self::Watch, socket: BorrowedFd<'_>);

    /// Closes a connection, and gives its sender the time that the kernel needs for its pieces.
    fn close(&mut self, watch: &mut Self::Watch, caller: Box<Caller<'static>>, patience: Duration);

    /// Waits until a socket is ready, for so long at most and if it waits at all; a signal ends the waiting too.
    fn wait(&mut self, time: Duration) -> io::Result<()>;

    /// Connections that it was given to close, and that are still open.
    fn closing(&self) -> usize {
        0
    }

    /// All connections that it was given to close are to be closed.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// How many of those are looked at before clients whose replies have come ask again.
    fn together(&self) -> usize {
        1
    }

    /// Of the sockets that [`BackEnd::wait`] found ready, the next: its client, and what for.
    fn next(&mut self) -> Option<(usize, PollFlags)>;
}
