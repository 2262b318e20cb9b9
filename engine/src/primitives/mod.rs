//! The primitives: a file each, and a line in this list.

use crate::transfer::primitive::Primitive;

#[cfg(test)]
mod buffers_tests;
#[cfg(test)]
mod connection_tests;
#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod receiving_tests;
#[cfg(test)]
mod sending_tests;

crate::register! {
    /// All primitives.
    PRIMITIVES: Primitive {
        send_each,
        write_each,
        writev,
        write_once,
        gather_write,
        sendmsg,
        send_more,
        cork,
        zerocopy,
        sendfile,
        splice,
        vmsplice,
        uring_send,
        uring_send_zc,
        recv,
        recv_exact,
        readv,
        recv_truncate,
        recv_zerocopy,
        busy_poll,
        busy_poll_truncate,
    }
}
