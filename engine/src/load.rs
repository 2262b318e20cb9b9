//! The vocabulary of loads: who asks, and how often.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

use anyhow::Result;

use crate::about::About;
use crate::primitive::Primitive;
use crate::setting::{Kind, Setting, Settings};
use crate::sys::shared::SharedArray;
use crate::tally::Tally;
use crate::workload::Client;

/// A registered load. Its file's name is its name.
pub struct Load {
    /// What it is.
    pub about: About,
    /// Its own settings.
    pub settings: &'static [Setting],
    /// How many workers of it count apart.
    pub workers: fn(&Settings) -> usize,
    /// The settings whose product is the number of requests that it makes when nothing fails.
    pub requests: &'static [Setting],
    /// The setting that ends it by time where it is not 0; the number of requests is not known beforehand then.
    pub duration: Option<&'static Setting>,
    /// Makes them. Only what keeps the load from being run at all is an error; what fails in it is tallied.
    pub run: fn(&'static LoadRun) -> Result<()>,
}

impl Load {
    /// How many requests it makes when nothing fails; `None` where it ends by time.
    pub fn expected_requests(&self, settings: &Settings) -> Option<u64> {
        let timed = self.duration.is_some_and(|duration| settings.integer(duration.name) > 0);
        (!timed).then(|| self.requests.iter().map(|setting| settings.integer(setting.name)).product())
    }
}

/// How long a load waits for progress.
pub const TIMEOUT: Setting = Setting {
    name: "timeout_milliseconds",
    help: "A connection without any progress for so long has failed",
    unit: Some("milliseconds"),
    kind: Kind::Integer { minimum: 1, maximum: 3_600_000, default: 10_000 },
};

/// One life of a load.
pub struct LoadRun {
    /// The addresses of the server's name, the first that answers is used.
    pub target: Vec<SocketAddr>,
    /// The complete settings.
    pub settings: Settings,
    /// Where everything is counted.
    pub tally: &'static Tally,
    /// The asking end of the workload.
    pub client: Box<dyn Client>,
    /// How bytes are moved.
    pub primitive: &'static Primitive,
    /// The first thing that went wrong.
    pub first_error: FirstError,
}

/// The first error of a load, in words, in memory that its processes share.
pub struct FirstError {
    claimed: SharedArray<AtomicBool>,
    text: SharedArray<AtomicU8>,
}

impl FirstError {
    /// Room for one error.
    pub fn new() -> std::io::Result<Self> {
        Ok(FirstError { claimed: SharedArray::new(1)?, text: SharedArray::new(240)? })
    }

    /// Keeps the error if it is the first.
    pub fn note(&self, error: &str) {
        if !self.claimed[0].swap(true, Relaxed) {
            for (place, byte) in self.text.iter().zip(error.bytes()) {
                place.store(byte, Relaxed);
            }
        }
    }

    /// The error, if there was one.
    pub fn get(&self) -> Option<String> {
        let bytes: Vec<u8> = self.text.iter().map(|byte| byte.load(Relaxed)).take_while(|&byte| byte != 0).collect();
        (!bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).into_owned())
    }
}
