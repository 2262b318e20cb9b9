//! A request of one byte and its reply over a TCP connection within one thread.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::base::about::About;
use crate::base::limit::{Figure, Limit, ONE_CPU, Point, Probe};
use crate::sys::clock;

pub static ENTRY: Limit = Limit {
    about: About {
        summary: "A byte each way through a TCP connection over loopback in one thread, with no wake-up; both ends do \
                  the same work, so half of the time is the share of each",
        source: "send(2), recv(2), tcp(7)",
    },
    figure: Figure::Nanoseconds,
    sizes: &[],
    places: ONE_CPU,
    prepare: |_: &Point| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot create a listener on loopback")?;
        let asking = TcpStream::connect(listener.local_addr()?).context("cannot connect over loopback")?;
        let (answering, _) = listener.accept()?;
        asking.set_nodelay(true)?;
        answering.set_nodelay(true)?;
        Ok(Box::new(Exchange { asking, answering }))
    },
};

struct Exchange {
    asking: TcpStream,
    answering: TcpStream,
}

impl Probe for Exchange {
    /// Timed by the thread's CPU clock, because the result bounds CPU time as charged by the kernel.
    fn round(&mut self, times: u64) -> Result<Duration> {
        let Exchange { asking, answering } = self;
        let mut byte = [0];
        let began = clock::thread_cpu_time();
        for _ in 0..times {
            // Written data is readable at once; if the kernel defers its work, the read waits for it.
            asking.write_all(&byte)?;
            answering.read_exact(&mut byte)?;
            answering.write_all(&byte)?;
            asking.read_exact(&mut byte)?;
        }
        Ok(clock::thread_cpu_time() - began)
    }
}
