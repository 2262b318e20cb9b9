//! The first access to a page of new memory.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::base::about::About;
use crate::base::limit::{Figure, Limit, ONE_CPU, Probe};
use crate::sys::memory::pages::Pages;

pub static ENTRY: Limit = Limit {
    about: About {
        summary: "The first write to a new page of memory, which the kernel allocates and clears",
        source: "mmap(2), MAP_ANONYMOUS; madvise(2), MADV_NOHUGEPAGE",
    },
    figure: Figure::Nanoseconds,
    sizes: &[],
    places: ONE_CPU,
    prepare: |_| Ok(Box::new(PageFault)),
};

/// Maximum pages per round: 16 MiB if a page has 4 KiB.
const MOST: u64 = 4096;

struct PageFault;

impl Probe for PageFault {
    fn round(&mut self, times: u64) -> Result<Duration> {
        let mut pages = Pages::untouched(times as usize)?;
        let began = Instant::now();
        pages.touch();
        Ok(began.elapsed())
    }

    fn most(&self) -> u64 {
        MOST
    }
}
