//! The minimum cost of a TCP connection at the accepting end.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{Context, Result};
use socket2::SockRef;

use crate::base::about::About;
use crate::base::limit::{Figure, Limit, ONE_CPU, Point, Probe};
use crate::sys::{clock, socket};

pub static ENTRY: Limit = Limit {
    about: About {
        summary: "Accept a TCP connection over loopback, and close it after the peer has reset it: the minimum cost \
                  of a connection at the accepting end",
        source: "accept(2), close(2), tcp(7)",
    },
    figure: Figure::Nanoseconds,
    sizes: &[],
    places: ONE_CPU,
    prepare: |_: &Point| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot create a listener on loopback")?;
        let address = listener.local_addr()?;
        let (_, room) =
            socket::listen_queue(listener.as_fd()).context("cannot read the size of the listener's queue")?;
        Ok(Box::new(Accepting { listener, address, most: MOST.min(room.into()).max(1) }))
    },
};

/// Maximum connections per round. All of them wait in the listener's queue before the first is accepted, so
/// net.core.somaxconn may allow fewer.
const MOST: u64 = 64;

struct Accepting {
    listener: TcpListener,
    address: SocketAddr,
    most: u64,
}

impl Probe for Accepting {
    /// Timed by the thread's CPU clock, because the result bounds CPU time as charged by the kernel. Closing a reset
    /// connection sends nothing; closing with a FIN costs more, at either end.
    fn round(&mut self, times: u64) -> Result<Duration> {
        let mut asking = Vec::new();
        for _ in 0..times {
            let each = TcpStream::connect(self.address).context("cannot connect over loopback")?;
            SockRef::from(&each).set_linger(Some(Duration::ZERO))?;
            asking.push(each);
        }
        let mut accepted = Vec::with_capacity(asking.len());
        let began = clock::thread_cpu_time();
        for _ in 0..times {
            accepted.push(self.listener.accept()?);
        }
        let accepting = clock::thread_cpu_time() - began;
        drop(asking);
        let began = clock::thread_cpu_time();
        drop(accepted);
        Ok(accepting + clock::thread_cpu_time() - began)
    }

    fn most(&self) -> u64 {
        self.most
    }
}
