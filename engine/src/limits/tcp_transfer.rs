//! Bytes through a TCP connection within one thread: the whole path through the stack, and both copies.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::base::about::About;
use crate::base::limit::{Call, Figure, Limit, ONE_CPU, Point};
use crate::sys::descriptor::{self, PollFlags};
use crate::sys::socket;

pub static ENTRY: Limit = Limit {
    about: About {
        summary: "Send and receive bytes through a TCP connection over loopback in one thread: both copies, no \
                  wake-up",
        source: "tcp(7)",
    },
    figure: Figure::Nanoseconds,
    sizes: &[1, 1 << 10, 1 << 14, 1 << 16],
    places: ONE_CPU,
    prepare: |point: &Point| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot create a listener on loopback")?;
        let sending = TcpStream::connect(listener.local_addr()?).context("cannot connect over loopback")?;
        let (receiving, _) = listener.accept()?;
        sending.set_nodelay(true)?;
        sending.set_nonblocking(true)?;
        receiving.set_nonblocking(true)?;
        let mut buffer = vec![0; point.size()];
        Ok(Box::new(Call(move || transfer(&sending, &receiving, &mut buffer))))
    },
};

/// Maximum time for sent data to arrive. Over loopback it is there at once, unless the kernel defers its work.
const PATIENCE: Duration = Duration::from_secs(1);

/// Sends the whole buffer and receives it back. Bytes that the socket cannot take are sent after some were received.
fn transfer(sending: &TcpStream, receiving: &TcpStream, buffer: &mut [u8]) -> Result<()> {
    let (mut sent, mut received) = (0, 0);
    while received < buffer.len() {
        if sent < buffer.len() {
            match socket::send(sending.as_fd(), &buffer[sent..], 0) {
                Ok(bytes) => sent += bytes,
                Err(error) if waits(&error) => {}
                Err(error) => return Err(error).context("cannot send the bytes"),
            }
        }
        match socket::recv(receiving.as_fd(), &mut buffer[received..], 0) {
            Ok(0) => bail!("the connection has ended"),
            Ok(bytes) => received += bytes,
            Err(error) if waits(&error) => {
                let room = if sent < buffer.len() { PollFlags::POLLOUT } else { PollFlags::empty() };
                let ready = descriptor::poll(
                    &[(receiving.as_fd(), PollFlags::POLLIN), (sending.as_fd(), room)],
                    Some(PATIENCE),
                )?;
                ensure!(ready.iter().any(|flags| !flags.is_empty()), "the bytes did not arrive within {PATIENCE:?}");
            }
            Err(error) => return Err(error).context("cannot receive the bytes"),
        }
    }
    Ok(())
}

fn waits(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted)
}
