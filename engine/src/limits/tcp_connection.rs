//! Opening and closing a TCP connection, without any data.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::base::about::About;
use crate::base::limit::{Figure, Limit, ONE_CPU, Point, Probe};

pub static ENTRY: Limit = Limit {
    about: About {
        summary: "Connect, accept and close a TCP connection over loopback in one thread: the work of both ends",
        source: "connect(2), accept(2), close(2), tcp(7)",
    },
    figure: Figure::Nanoseconds,
    sizes: &[],
    places: ONE_CPU,
    prepare: |_: &Point| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot create a listener on loopback")?;
        let address = listener.local_addr()?;
        Ok(Box::new(Connection { listener, address }))
    },
};

/// Maximum connections per round: each leaves a port in TIME_WAIT for a minute.
const MOST: u64 = 64;

struct Connection {
    listener: TcpListener,
    address: SocketAddr,
}

impl Probe for Connection {
    fn round(&mut self, times: u64) -> Result<Duration> {
        let began = Instant::now();
        for _ in 0..times {
            let asking = TcpStream::connect(self.address).context("cannot connect over loopback")?;
            let (accepted, _) = self.listener.accept()?;
            drop(asking);
            drop(accepted);
        }
        Ok(began.elapsed())
    }

    fn most(&self) -> u64 {
        MOST
    }
}
