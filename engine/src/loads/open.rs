//! An open load: a schedule that is independent of replies decides when requests are due, and any free connection takes
//! the next request. Latency counts from the time a request was due, so a stall of the server shows up in it.

use anyhow::Result;

use crate::base::about::About;
use crate::base::setting::{Kind as Values, Setting};
use crate::base::unit::{HOUR, MILLISECOND, SECOND};
use crate::client::event_loop::{
    self, CLOSING, Kind, PIN_THREADS, PIPELINE, REQUESTS_PER_CONNECTION, REQUIREMENTS, THREADS,
};
use crate::client::load::{self, KEPT, Load, LoadRun, RAMP_UP, WARM_UP};
use crate::requests::schedule::{ARRIVAL_SEED, ARRIVALS, RATE, RECORDING};
use crate::transfer::primitive::Waits;
use crate::transfer::waiting::{BACK_END, COMPLETIONS, WAIT};

/// More clients by default than a closed load has. In a closed load the clients are the load. In an open load they only
/// stand by, and a request that finds no free client is late for lack of clients, which would distort the measurement.
const CLIENTS: Setting =
    Setting { kind: Values::Integer { minimum: 1, maximum: 100_000, default: 64 }, ..load::CLIENTS };

/// An open load always ends by time.
const DURATION: Setting = Setting {
    kind: Values::Integer { minimum: MILLISECOND, maximum: 24 * HOUR, default: 5 * SECOND },
    ..load::DURATION
};

/// Persistent connections by default, if the protocol allows them: at the rates of an open load, one connection per
/// request soon uses up all local ports.
const CONNECTIONS: Setting =
    Setting { kind: Values::Choice { choices: &["per_request", KEPT], default: KEPT }, ..load::CONNECTIONS };

pub static ENTRY: Load = Load {
    about: About {
        summary: "Open load: requests follow a schedule at a given rate, whether or not earlier requests were \
                  answered; latency counts from the time a request was due",
        source: "B. Schroeder, A. Wierman, M. Harchol-Balter, Open versus closed: a cautionary tale, NSDI 2006",
    },
    waits: Waits::ForReadiness,
    settings: &[
        RATE,
        ARRIVALS,
        RECORDING,
        ARRIVAL_SEED,
        CLIENTS,
        CONNECTIONS,
        DURATION,
        WARM_UP,
        RAMP_UP,
        THREADS,
        PIN_THREADS,
        PIPELINE,
        REQUESTS_PER_CONNECTION,
        CLOSING,
        BACK_END,
        WAIT,
    ],
    workers: |settings| settings.integer(THREADS.name) as usize,
    requests: &[],
    duration: Some(&DURATION),
    without_primitives: Some((&BACK_END, COMPLETIONS)),
    requirements: REQUIREMENTS,
    run,
};

fn run(run: &'static LoadRun) -> Result<()> {
    let schedule = run.schedule.expect("the load has the settings of a schedule");
    event_loop::run(run, Kind::Open(schedule))
}
