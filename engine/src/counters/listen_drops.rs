//! Connections that a listener dropped, mostly because its queue (the backlog) was full.

use std::net::TcpListener;
use std::os::fd::AsFd;

use crate::base::about::About;
use crate::count::counter::Counter;
use crate::sys::socket;

pub static ENTRY: Counter = Counter::elsewhere(
    About {
        summary: "Connections that the listener dropped because its queue was full",
        source: "socket(7), SO_MEMINFO, SK_MEMINFO_DROPS; TcpExtListenDrops counts the same for the whole machine",
    },
    "connections",
    || {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        Ok(socket::listen_drops(listener.as_fd()).map(drop)?)
    },
);
