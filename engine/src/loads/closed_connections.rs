//! A closed load of very many connections from one process: an event loop with epoll, level-triggered.

use crate::about::About;
use crate::course::pause;
use crate::crowd::{self, Kind};
use crate::load::{CLIENTS, CONNECTIONS, LOOPS, Load, MILLISECONDS, THINK, WARM_UP};
use crate::primitive::Waits;

pub static ENTRY: Load = Load {
    about: About {
        summary: "One process with an event loop, each connection waiting for its reply before it asks again",
        source: "epoll(7)",
    },
    waits: Waits::ForReadiness,
    settings: &[CLIENTS, CONNECTIONS, LOOPS, MILLISECONDS, WARM_UP, THINK],
    workers: |_| 0,
    requests: &[CLIENTS, LOOPS],
    duration: Some(&MILLISECONDS),
    run: |run| crowd::run(run, Kind::Closed { pause: pause(run) }),
};
