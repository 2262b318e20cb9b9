//! The closed load of a threaded client program: `client N` creates N threads, and each connects, sends its request,
//! waits for the reply, and repeats.
//!
//! All threads start to send together. If the load ends by time, the threads and the persistent connections are created
//! before its warm-up. If it ends by count, its elapsed time covers the whole life, thread creation included, as `time
//! client N` shows it.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Error, Result};

use crate::base::about::About;
use crate::base::mistake::in_words;
use crate::client::blocking::BlockingClient;
use crate::client::edges::Edges;
use crate::client::live::line::LiveLine;
use crate::client::load::{CLIENTS, COMMON, CONNECTIONS, DURATION, LOOPS, Load, LoadRun, THINK, WARM_UP, clients};
use crate::client::measure::Measure;
use crate::client::state::{CONNECT_INTERVAL, ClientState, requests_each};
use crate::count::own_memory;
use crate::count::tally::ErrorKind;
use crate::sys::clock::now;
use crate::sys::{signal, thread};

pub static ENTRY: Load = Load {
    about: About {
        summary: "Closed load from threads: each waits for its reply before the next request; persistent connections, \
                  or one per request",
        source: "the client programs of cse232-a2 and erss-hw4; pthread_create(3)",
    },
    settings: &[CLIENTS, CONNECTIONS, LOOPS, DURATION, WARM_UP, THINK],
    workers: clients,
    requests: &[CLIENTS, LOOPS],
    duration: Some(&DURATION),
    run,
    ..COMMON
};

/// Stack size: several times what a client's buffers need, and small enough for thousands of threads.
const STACK: usize = 256 << 10;

fn run(run: &'static LoadRun) -> Result<()> {
    let clients = clients(&run.settings);
    run.make_room(clients, clients * run.way.descriptors())?;
    signal::note_interrupts()?;
    let _line = LiveLine::start(run);
    let gate: &'static Gate = Box::leak(Box::default());
    let connect_first = run.keeps() && run.is_timed();
    let before = connect_first.then(own_memory::private_bytes).flatten();
    for number in 1..=clients {
        if connect_first {
            std::thread::sleep(CONNECT_INTERVAL);
        }
        let ticket = gate.enter(run);
        let body = move || {
            if let Err(error) = client(run, number, connect_first, &ticket) {
                run.first_error.note(&in_words(&error));
            }
        };
        if let Err(error) = thread::spawn_detached_with_stack(STACK, body) {
            gate.open(Order::GoHome);
            gate.wait_until_empty();
            let help = "use fewer --clients, or raise ulimit -u; kernel.threads-max and vm.max_map_count also limit \
                        threads";
            return Err(Error::new(error).context(format!("cannot create thread {number} of {clients} ({help})")));
        }
    }
    gate.wait_until_ready();
    run.note_connected(before);
    let mut edges = Edges::begin(run);
    gate.open(Order::Start);
    edges.sleep(&gate.clients);
    let left = run.window.awaits_until(run.target.patience.as_nanos() as u64).saturating_sub(now());
    gate.wait_until_empty_for(Duration::from_nanos(left));
    run.window.leave();
    gate.wait_until_empty();
    Ok(())
}

fn client(run: &'static LoadRun, number: usize, connect_first: bool, ticket: &Ticket) -> Result<()> {
    let state = ClientState::new(run, run.tally.worker(number - 1), number, requests_each(run));
    let mut client = BlockingClient::new(state, run.keeps(), Some(Measure::new(&run.window)))?;
    if connect_first {
        client.connect();
    }
    if ticket.gate.wait_for_order() == Order::Start {
        client.take_turns();
    }
    Ok(())
}

/// Gate at which clients wait until all of them have arrived.
#[derive(Default)]
struct Gate {
    /// Clients that have not ended.
    clients: AtomicUsize,
    state: Mutex<State>,
    /// Wakes the thread that opens the gate: a client has arrived or left. Clients wait on another condition, or each
    /// arrival would wake all of them.
    counted: Condvar,
    opened: Condvar,
}

#[derive(Default)]
struct State {
    /// Clients that wait for the start.
    ready: usize,
    order: Option<Order>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Start,
    GoHome,
}

impl Gate {
    fn enter(&'static self, run: &'static LoadRun) -> Ticket {
        self.clients.fetch_add(1, Relaxed);
        Ticket { gate: self, run }
    }

    fn wait_for_order(&self) -> Order {
        let mut state = self.state();
        state.ready += 1;
        self.counted.notify_one();
        wait_while(&self.opened, state, |state| state.order.is_none()).order.unwrap_or(Order::GoHome)
    }

    fn wait_until_ready(&self) {
        // A client that could not even be prepared has left already.
        drop(wait_while(&self.counted, self.state(), |state| state.ready < self.clients.load(Relaxed)));
    }

    fn open(&self, order: Order) {
        self.state().order = Some(order);
        self.opened.notify_all();
    }

    fn wait_until_empty(&self) {
        drop(wait_while(&self.counted, self.state(), |_| self.clients.load(Relaxed) > 0));
    }

    fn wait_until_empty_for(&self, time: Duration) {
        drop(self.counted.wait_timeout_while(self.state(), time, |_| self.clients.load(Relaxed) > 0));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wait_while<'gate>(
    changed: &Condvar,
    state: MutexGuard<'gate, State>,
    condition: impl Fn(&State) -> bool,
) -> MutexGuard<'gate, State> {
    changed.wait_while(state, |state| condition(state)).unwrap_or_else(PoisonError::into_inner)
}

/// Guard of a client: however the client ends, it is counted as gone.
struct Ticket {
    gate: &'static Gate,
    run: &'static LoadRun,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.run.tally.shared().error(ErrorKind::Fault);
            self.run.first_error.note("a client thread panicked");
        }
        let _state = self.gate.state();
        self.gate.clients.fetch_sub(1, Relaxed);
        self.gate.counted.notify_one();
    }
}
