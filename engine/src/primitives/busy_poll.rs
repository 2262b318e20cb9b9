//! recv(2) again and again until something has come: spins instead of sleeping, and need not be woken.

use std::ffi::c_int;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::about::About;
use crate::inbox::Inbox;
use crate::primitive::{Primitive, Received, Receiver, Waits, Want, receive_stored};

pub static ENTRY: Primitive = Primitive {
    spins: true,
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
        spin(|flags| receive_stored(socket, want.most(), flags, inbox))
    }
}

/// Receives with the flag not to wait until something has come, at last without it: then the call sleeps.
pub fn spin(mut receive: impl FnMut(c_int) -> io::Result<Received>) -> io::Result<Received> {
    let until = Instant::now() + LONGEST;
    loop {
        match receive(libc::MSG_DONTWAIT)? {
            Received::Blocked if Instant::now() < until => std::hint::spin_loop(),
            Received::Blocked => return receive(0),
            received => return Ok(received),
        }
    }
}
