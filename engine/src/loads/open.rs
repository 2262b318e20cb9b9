//! An open load: requests are due by a schedule that knows nothing of replies, and whichever connection is free takes the
//! next. Its latencies run from the moment at which a request was due, so a server that stalls is seen to stall.

use anyhow::Result;

use crate::about::About;
use crate::crowd::{self, CLOSING, Kind, PIPELINE, Process, REQUESTS_PER_CONNECTION, REQUIREMENTS, Schedule, THREADS};
use crate::load::{BACK_END, CLIENTS, COMPLETIONS, CONNECTIONS, Load, LoadRun, MILLISECONDS, RAMP_UP, WARM_UP};
use crate::mistake::mistake;
use crate::primitive::Waits;
use crate::scheduled::{ARRIVALS, RATE, WAIT};
use crate::setting::{Kind as SettingKind, Setting};
use crate::workload::MeasuredBy;

pub static ENTRY: Load = Load {
    about: About {
        summary: "Requests by a schedule at a given rate, whether or not earlier ones were answered; latency from when each \
                  was due",
        source: "B. Schroeder, A. Wierman, M. Harchol-Balter, Open versus closed: a cautionary tale, NSDI 2006",
    },
    waits: Waits::ForReadiness,
    settings: &[
        RATE,
        ARRIVALS,
        ARRIVAL_SEED,
        CLIENTS,
        CONNECTIONS,
        MILLISECONDS,
        WARM_UP,
        RAMP_UP,
        THREADS,
        PIPELINE,
        REQUESTS_PER_CONNECTION,
        CLOSING,
        BACK_END,
        WAIT,
    ],
    workers: |settings| settings.integer(THREADS.name) as usize,
    requests: &[],
    duration: Some(&MILLISECONDS),
    without_primitives: Some((&BACK_END, COMPLETIONS)),
    requirements: REQUIREMENTS,
    run,
};

/// What the moments follow from.
const ARRIVAL_SEED: Setting = Setting {
    name: "arrival_seed",
    help: "Loads with the same seed, rate and threads have their requests due at the same moments; several loads beside each \
           other need different ones",
    unit: None,
    kind: SettingKind::Integer { minimum: 0, maximum: u64::MAX, default: 1 },
};

fn run(run: &'static LoadRun) -> Result<()> {
    if run.client.measured_by() != MeasuredBy::Requests {
        return Err(mistake(
            "an open load needs requests that are answered one by one, and those of this workload take as long as the load; a \
             closed load makes them",
        ));
    }
    let schedule = Schedule {
        process: if run.settings.word(ARRIVALS.name) == "poisson" { Process::Poisson } else { Process::Constant },
        rate: run.settings.integer(RATE.name),
        seed: run.settings.integer(ARRIVAL_SEED.name),
        ramp: run.ramp(),
    };
    crowd::run(run, Kind::Open { schedule, spins: run.settings.word(WAIT.name) == "spin" })
}
