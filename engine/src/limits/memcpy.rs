//! Copying bytes within memory.

use crate::base::about::About;
use crate::base::limit::{Call, Figure, Limit, ONE_CPU, Point};
use crate::sys::memory::pages::Pages;

pub static ENTRY: Limit = Limit {
    about: About {
        summary: "Copy bytes from one buffer to another, always the same two; small buffers stay in the cache",
        source: "memcpy(3); lmbench's bw_mem bcopy (McVoy and Staelin, USENIX 1996)",
    },
    figure: Figure::BytesPerSecond,
    // From the smallest message to a size beyond any cache, in factors of four.
    sizes: &[1 << 6, 1 << 8, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26],
    places: ONE_CPU,
    prepare: |point: &Point| {
        let size = point.size();
        let (mut from, mut to) = (Pages::of_bytes(size)?, Pages::of_bytes(size)?);
        from.touch();
        to.touch();
        Ok(Box::new(Call(move || {
            to.copy_from(&from, size);
            Ok(())
        })))
    },
};
