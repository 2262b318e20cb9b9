//! recv(2) again and again until something has come: spins instead of sleeping, and need not be woken.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::about::About;
use crate::inbox::Inbox;
use crate::primitive::{Primitive, Received, Receiver, Waits, Want, receive_once};
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
        receive_once(
            inbox,
            |inbox| {
                inbox.receive(want.most(), |room| {
                    let until = Instant::now() + LONGEST;
                    loop {
                        match socket::recv(socket, room, libc::MSG_DONTWAIT) {
                            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                            Ok(bytes) => return Ok(bytes),
                            Err(_) if Instant::now() >= until => return socket::recv(socket, room, 0),
                            Err(_) => std::hint::spin_loop(),
                        }
                    }
                })
            },
            Received::Bytes,
        )
    }
}
