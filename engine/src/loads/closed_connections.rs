//! A closed load of very many connections from one process: one event loop per thread.

use crate::base::about::About;
use crate::client::event_loop::{
    self, CLOSING, Kind, PIN_THREADS, PIPELINE, REQUESTS_PER_CONNECTION, REQUIREMENTS, THREADS,
};
use crate::client::load::{CLIENTS, CONNECTIONS, DURATION, LOOPS, Load, RAMP_UP, THINK, WARM_UP};
use crate::client::state::pause;
use crate::transfer::primitive::Waits;
use crate::transfer::waiting::{BACK_END, COMPLETIONS};

pub static ENTRY: Load = Load {
    about: About {
        summary: "Closed load from one process with event loops: each client waits for its reply before the next \
                  request",
        source: "epoll(7), io_uring(7)",
    },
    waits: Waits::ForReadiness,
    settings: &[
        CLIENTS,
        CONNECTIONS,
        LOOPS,
        DURATION,
        WARM_UP,
        RAMP_UP,
        THINK,
        THREADS,
        PIN_THREADS,
        PIPELINE,
        REQUESTS_PER_CONNECTION,
        CLOSING,
        BACK_END,
    ],
    workers: |settings| settings.integer(THREADS.name) as usize,
    requests: &[CLIENTS, LOOPS],
    duration: Some(&DURATION),
    without_primitives: Some((&BACK_END, COMPLETIONS)),
    requirements: REQUIREMENTS,
    run: |run| event_loop::run(run, Kind::Closed { pause: pause(run) }),
};
