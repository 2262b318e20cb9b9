//! The server that a load connects to.

use std::io;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::net::address::Address;
use crate::net::source_addresses::Sources;
use crate::net::tcp::TcpOptions;
use crate::sys::memory::shared::SharedArray;
use crate::sys::ring::number;

/// The server that a load connects to, and the options of its sockets.
pub struct Target {
    /// Addresses of the server's name.
    pub addresses: Vec<Address>,
    /// The one that answers.
    pub chosen: Chosen,
    /// Options of TCP sockets; `None` for another family.
    pub tcp: Option<TcpOptions>,
    /// Local addresses of the connections.
    pub sources: Sources,
    /// Time to wait for progress, while connecting and afterwards.
    pub patience: Duration,
}

/// Which of a name's addresses answers, in memory that the load's processes share. The first connection finds it, and the others
/// use it: each of them would pay for the refusals of those before it.
pub struct Chosen {
    /// Its place among the addresses, counted from 1; 0: unknown.
    place: SharedArray<AtomicUsize>,
    /// Error of each address that did not answer; 0: none.
    errors: SharedArray<AtomicI32>,
}

impl Chosen {
    /// None, of this many addresses.
    pub fn none(addresses: usize) -> io::Result<Self> {
        Ok(Chosen { place: SharedArray::new(1)?, errors: SharedArray::new(addresses)? })
    }

    /// Returns the place of the address that answers, counted from 0, if it is known.
    pub fn place(&self) -> Option<usize> {
        self.place[0].load(Relaxed).checked_sub(1)
    }

    /// Notes that the address at this place answers. The first one stays.
    pub fn answers(&self, place: usize) {
        if self.place[0].load(Relaxed) == 0 {
            let _ = self.place[0].compare_exchange(0, place + 1, Relaxed, Relaxed);
        }
    }

    /// Notes that the address at this place does not answer.
    pub fn fails(&self, place: usize, error: &io::Error) {
        self.errors[place].store(number(error).unwrap_or(libc::ETIMEDOUT), Relaxed);
    }

    /// Returns the places before the one that answers, each with its error.
    pub fn failures(&self) -> impl Iterator<Item = (usize, io::Error)> {
        let errors = self.errors.iter().take(self.place().unwrap_or(0)).map(|error| error.load(Relaxed));
        errors
            .enumerate()
            .filter(|(_, error)| *error != 0)
            .map(|(place, error)| (place, io::Error::from_raw_os_error(error)))
    }
}

impl Target {
    /// Returns the places of the addresses to try, from this one on: only that of the one that answers, if it is known.
    pub fn places(&self, first: usize) -> std::ops::Range<usize> {
        match self.chosen.place() {
            Some(place) if first <= place => place..place + 1,
            _ => first..self.addresses.len(),
        }
    }
}
