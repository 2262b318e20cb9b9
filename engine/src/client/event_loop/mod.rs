//! Very many clients in one process: threads with an event loop each, in which clients connect, send requests and get
//! replies. `pace` decides when they send, and `back_end` reports which sockets are ready.
//!
//! All persistent connections are opened before the first request. If the load ends by time, that is before its
//! warm-up.

mod account;
mod back_end;
mod completions;
mod connecting;
mod epoll;
mod member;
mod own_time;
mod pace;
mod polling;
mod settings;
mod start;
mod turns;

use anyhow::{Context, Result, anyhow};

use crate::client::edges::Edges;
use crate::client::live::line::LiveLine;
use crate::client::load::{LoadRun, clients, closing, uses_a_ring};
use crate::count::own_memory;
use crate::sys::{process, signal, thread};
use crate::transfer::waiting::{BACK_END, COMPLETIONS, POLLING};

use back_end::BackEnd;
use completions::Completions;
use epoll::Readiness;
pub use pace::Kind;
use pace::Share;
use polling::Polling;
use settings::ConnectionUse;
pub use settings::{CLOSING, PIN_THREADS, PIPELINE, REQUESTS_PER_CONNECTION, REQUIREMENTS, THREADS};
use start::Start;
use turns::Turns;

/// Runs such a load to its end.
pub fn run(run: &'static LoadRun, kind: Kind) -> Result<()> {
    let threads = run.settings.integer(THREADS.name) as usize;
    let usage = ConnectionUse::of(run);
    if uses_a_ring(&run.settings) {
        Completions::check()?;
    }
    let clients = clients(&run.settings);
    // Before its threads are pinned; the current thread is one of them.
    run.measured().cpus = process::allowed_cpus()?.len();
    // Each thread has a ring or an epoll instance. Polling also uses epoll, for events that cannot be tried.
    let of_threads = threads * (1 + run.way.descriptors());
    run.make_room(clients, closing(clients, &run.settings) + of_threads)?;
    signal::note_interrupts()?;
    let _line = LiveLine::start(run);
    let before = run.keeps().then(own_memory::private_bytes).flatten();
    let start = Start::new(threads);
    let part = |thread| {
        let plan = Plan { run, kind, usage, share: Share { thread, threads }, start: &start, before };
        plan.run_share()
    };
    std::thread::scope(|scope| {
        let mut others = Vec::new();
        for thread in 1..threads {
            let body = move || part(thread);
            match std::thread::Builder::new().spawn_scoped(scope, body) {
                Ok(other) => others.push(other),
                Err(error) => {
                    start.lose();
                    let context = format!("cannot create thread {} of {threads} (use fewer --threads)", thread + 1);
                    return Err(anyhow!(error).context(context));
                }
            }
        }
        let own = part(0);
        let results =
            others.into_iter().map(|other| other.join().unwrap_or_else(|_| Err(anyhow!("a thread panicked"))));
        // The first error with a reason.
        results.fold(own, Result::and)
    })?;
    // Not for connections that the server has closed.
    let kept = run.tally.counts().connections == clients as u64;
    if let Kind::Closed { pause: 0 } = kind {
        run.measured().always_under_way = usage.always_under_way(clients).filter(|_| kept);
    }
    Ok(())
}

/// Context of a thread of the load.
struct Plan<'a> {
    run: &'static LoadRun,
    kind: Kind,
    usage: ConnectionUse,
    share: Share,
    start: &'a Start,
    /// The process's memory before its persistent connections.
    before: Option<u64>,
}

impl Plan<'_> {
    fn run_share(&self) -> Result<()> {
        let guard = Guard(self.start);
        if self.run.settings.boolean(PIN_THREADS.name) {
            let cpus = process::allowed_cpus()?;
            process::pin(&[cpus[self.share.thread % cpus.len()]]).context("--pin-threads: the kernel refused")?;
        }
        thread::set_timer_slack(1).context("cannot set the timer slack")?;
        match self.run.settings.word(BACK_END.name) {
            COMPLETIONS => {
                let connections = clients(&self.run.settings).div_ceil(self.share.threads);
                self.run_with(Completions::new(connections)?)
            }
            POLLING => self.run_with(Polling::new(self.run)?),
            _ => self.run_with(Readiness::new(self.run)?),
        }?;
        std::mem::forget(guard);
        Ok(())
    }

    fn run_with<B: BackEnd>(&self, back_end: B) -> Result<()> {
        let Plan { run, kind, usage, share, start, before } = *self;
        let mut turns = Turns::new(run, back_end, kind, usage, share, clients(&run.settings));
        turns.connect_all(|| !start.is_lost())?;
        let mut edges = None;
        let began = if share.thread == 0 {
            let led = start.lead(|| {
                run.note_connected(before);
                let edges = Edges::begin(run);
                (edges.began(), edges)
            });
            led.map(|(began, own)| {
                edges = Some(own);
                began
            })
        } else {
            start.follow()
        };
        // Another thread has failed, and reports why.
        let Some(began) = began else { return Ok(()) };
        turns.begin(began);
        let mut is_counted = true;
        let mut goes_on = |turns: &Turns<B>| {
            if is_counted && !turns.go_on() {
                is_counted = false;
                start.finished();
            }
            !start.is_lost() && (turns.go_on() || share.thread == 0 && start.goes_on())
        };
        while goes_on(&turns) && !signal::interrupted() {
            turns.step(edges.as_ref().and_then(Edges::next))?;
            if let Some(edges) = &mut edges {
                edges.look(turns.at());
            }
        }
        if let Some(edges) = &mut edges {
            edges.cut();
            start.close();
        }
        while goes_on(&turns) {
            turns.step(None)?;
        }
        start.wait_until_closed();
        let measure = turns.finish()?;
        run.measured().add(&measure);
        Ok(())
    }
}

/// Guard of a thread that ends early, by a panic too: no thread must wait for it.
struct Guard<'a>(&'a Start);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.lose();
    }
}
