//! One readv(2) at a time, scattered over parts of the buffer.

use std::io::{self, IoSliceMut};
use std::os::fd::BorrowedFd;

use crate::base::about::About;
use crate::base::feature::Feature;
use crate::sys::descriptor;
use crate::transfer::inbox::Inbox;
use crate::transfer::primitive::{Primitive, Received, Receiver, Want, receive_once};

pub static ENTRY: Primitive = Primitive::receiving::<Readv>(
    About { summary: "One readv at a time, scattered over parts of the buffer", source: "readv(2)" },
    &[&READV],
);

const READV: Feature = Feature::everywhere("readv(2)");

/// Bytes per part: a page.
const PART: usize = 4096;

#[derive(Default)]
struct Readv;

impl Receiver for Readv {
    fn receive(&mut self, socket: BorrowedFd<'_>, want: Want, inbox: &mut Inbox) -> io::Result<Received> {
        receive_once(
            inbox,
            |inbox| {
                inbox.receive(want.most(), |room| {
                    let mut parts: Vec<_> = room.chunks_mut(PART).map(IoSliceMut::new).collect();
                    descriptor::readv(socket, &mut parts)
                })
            },
            Received::Bytes,
        )
    }
}
