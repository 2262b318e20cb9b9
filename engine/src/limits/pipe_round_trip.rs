//! A byte to another process and back, through pipes.

use crate::base::about::About;
use crate::base::limit::{BOTH_PLACES, Figure, Limit, Point};
use crate::base::round_trip::{Ends, RoundTrip};
use crate::sys::descriptor;

pub static ENTRY: Limit = Limit {
    about: About {
        summary: "A byte to another process and back through two pipes; each end sleeps until the other has written",
        source: "pipe(7); lmbench's lat_pipe (McVoy and Staelin, USENIX 1996)",
    },
    figure: Figure::Nanoseconds,
    sizes: &[],
    places: BOTH_PLACES,
    prepare: |point: &Point| {
        let (far_reading, near_writing) = descriptor::pipe()?;
        let (near_reading, far_writing) = descriptor::pipe()?;
        let near = Ends { reading: near_reading, writing: near_writing };
        let far = Ends { reading: far_reading, writing: far_writing };
        Ok(Box::new(RoundTrip::with_process(near, far, point.far)?))
    },
};
