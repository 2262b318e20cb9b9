//! A byte to another process and back, through a pair of Unix sockets.

use crate::base::about::About;
use crate::base::limit::{BOTH_PLACES, Figure, Limit, Point};
use crate::base::round_trip::{Ends, RoundTrip};
use crate::sys::descriptor;

pub static ENTRY: Limit = Limit {
    about: About {
        summary: "A byte to another process and back through a pair of Unix sockets; each end sleeps until the other \
                  has written",
        source: "socketpair(2), unix(7); lmbench's lat_unix (McVoy and Staelin, USENIX 1996)",
    },
    figure: Figure::Nanoseconds,
    sizes: &[],
    places: BOTH_PLACES,
    prepare: |point: &Point| {
        let (near, far) = descriptor::stream_pair()?;
        Ok(Box::new(RoundTrip::with_process(Ends::of_socket(near)?, Ends::of_socket(far)?, point.far)?))
    },
};
