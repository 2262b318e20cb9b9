//! recv(2) again and again until something has come: spins instead of sleeping, and need not be woken.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::about::About;
use crate::inbox::Inbox;
use crate::primitive::{Primitive, Received, Receiver, Waits, Want, receive_once, receive_stored};
use crate::sys::socket;

pub static ENTRY: Primitive = Primitive {
    waits: &[Waits::InTheCall],
    ..Primitive::receiving::<BusyPoll>(About {
        summary: "Spins until something has come, for 10 ms at most: recv with MSG_DONTWAIT",
        source: "recv(2), MSG_DONTWAIT",
    })
};

/// After so long it sleeps after all: an idle connection does not burn a CPU for ever, and a time limit of the socket is
/// kept.
const LONGEST: Duration = Duration::from_millis(10);

#[derive(Default)]
struct BusyPoll;

impl Receiver for BusyPoll {
    fn receive(&mut self, socket: BorrowedFd<'_>, want: Want, inbox: &mut Inbox) -> io::Result<Received> {
        let until = Instant::now() + LONGEST;
        loop {
            let without_waiting = |room: &mut [u8]| socket::recv(socket, room, libc::MSG_DONTWAIT);
            match receive_once(inbox, |inbox| inbox.receive(want.most(), without_waiting), Received::Bytes)? {
                Received::Blocked if Instant::now() < until => std::hint::spin_loop(),
                Received::Blocked => return receive_stored(socket, want.most(), inbox),
                received => return Ok(received),
            }
        }
    }
}
