//! Clients that are silent, slow, gone, or many.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::faults;
use crate::rig::{Case, EVERYTHING, Listed, RESET, Rig};
use crate::support::client::Client;
use crate::support::process;
use crate::support::protocol::Exchange;

pub const FAULTS: &[Listed] = faults![
    #[needs_a_large_reply]
    resets_in_mid_reply,
    #[needs_an_incomplete_request]
    resets_before_the_request_is_complete,
    resets_before_accept,
    resets_at_once,
    resets_at_random_moments,
    nothing_to_do,
    #[needs_company]
    #[needs_small_requests]
    a_client_with_very_many_requests,
    silent_clients,
    more_silent_clients_than_workers,
    #[needs_a_large_reply]
    a_slow_reader,
    #[needs_a_large_reply]
    stopped_and_continued,
    signals_that_mean_nothing,
];

fn resets_in_mid_reply(case: &Case) {
    let mut rig = Rig::new(case, &case.protocol.large_options());
    let large = case.large();
    for _ in 0..3 {
        let mut client = rig.connect_slow();
        client.send(&large.request);
        client.receive(&large.reply[..100_000]);
        client.reset();
    }
    rig.expected.error(RESET, 3);
    rig.finish();
}

fn resets_before_the_request_is_complete(case: &Case) {
    let mut rig = Rig::new(case, &[]);
    for _ in 0..10 {
        let mut client = rig.connect();
        client.send(case.protocol.incomplete);
        client.reset();
    }
    rig.expected.error(RESET, 10);
    rig.finish();
}

/// Connections that their clients have reset before the server accepts them, among others without errors. The server is
/// stopped meanwhile, as with Ctrl-Z, so that the order is certain.
fn resets_before_accept(case: &Case) {
    let mut rig = Rig::new(case, &[]);
    let exchange = case.exchange();
    process::freeze(rig.server.first);
    let mut waiting = Vec::new();
    for _ in 0..20 {
        rig.connect().reset();
        let mut client = rig.connect();
        client.send(&exchange.request);
        client.half_close();
        rig.connect().reset();
        waiting.push(client);
    }
    process::thaw(rig.server.first);
    for mut client in waiting {
        client.receive_to_end(&exchange.reply);
        rig.expected.requests += 1;
    }
    // Linux still gives such a connection to accept, and the first call on it reports the reset.
    rig.expected.error(RESET, 40);
    rig.finish();
}

/// As [`resets_before_accept`], with the server running.
fn resets_at_once(case: &Case) {
    let mut rig = Rig::new(case, &[]);
    for round in 0..200 {
        rig.connect().reset();
        if round % 20 == 0 {
            rig.serves();
        }
    }
    rig.expected.error(RESET, 200);
    rig.finish();
}

/// Connections that are reset before a request, during it, after it, and during the reply, many of them open at once. Which
/// and when is random, but the same in every run. Of a thousand, the first three hundred unless everything is requested.
fn resets_at_random_moments(case: &Case) {
    const OPEN: usize = 50;
    let resets = if EVERYTHING.load(Relaxed) { 1000 } else { 300 };
    let exchanges = (case.protocol.exchanges)();
    let exchanges: Vec<&Exchange> = exchanges.iter().chain(case.protocol.large_exchange()).collect();
    let mut rig = Rig::new(case, &case.protocol.large_options());
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    let mut open: Vec<(Client, &[u8])> = Vec::new();
    for _ in 0..resets {
        let request = &exchanges[chance.below(exchanges.len())].request;
        open.push((rig.connect_slow(), request));
        while chance.below(4) > 0 {
            let one = chance.below(open.len());
            let (client, unsent) = &mut open[one];
            let (now, later) = unsent.split_at(chance.below(unsent.len() + 1));
            client.send(now);
            *unsent = later;
            client.take_what_came();
        }
        while open.len() > chance.below(OPEN) {
            open.swap_remove(chance.below(open.len())).0.reset();
        }
    }
    open.into_iter().for_each(|(client, _)| client.reset());
    rig.catches_up_with_whatever_was_answered();
    rig.expected.errors_allowed = RESET;
    rig.finish();
}

/// Pseudo-random numbers (xorshift64, G. Marsaglia 2003).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// Connections that are idle, in the middle of a request or of an unread reply, half closed, or reset: there is nothing to
/// do. A server that is woken repeatedly by events it does not handle would use a whole CPU.
fn nothing_to_do(case: &Case) {
    let mut rig = Rig::new(case, &case.protocol.large_options());
    let mut idle = rig.connect();
    rig.asks(&mut idle, &case.exchange());
    let mut incomplete = rig.connect();
    incomplete.send(case.protocol.incomplete);
    let unread = case.protocol.large_exchange().map(|large| {
        let mut unread = rig.connect_slow();
        unread.send(&large.request);
        unread.half_close();
        unread
    });
    rig.connect().reset();
    rig.server.sleeps();
    rig.does_not_spin();
    rig.expected.error(RESET, 1 + u64::from(unread.is_some()));
    unread.into_iter().for_each(Client::reset);
    incomplete.half_close();
    rig.expected.error(&["truncated"], u64::from(!case.protocol.incomplete.is_empty()));
    drop(idle);
    incomplete.receive_to_end(b"");
    rig.finish();
}

/// A client has sent very many requests, takes the replies as they arrive, and could occupy a server for seconds: another
/// client gets its reply long before the end. The server is stopped at first, as with Ctrl-Z, so that it finds both. A busy
/// machine may hide a prompt reply at times, but a server that serves one client to its end is late each time.
fn a_client_with_very_many_requests(case: &Case) {
    let mut rig = Rig::new(case, &[]);
    let (exchange, times) = case.many_quick_requests();
    let many = 5 * times;
    let mut first = usize::MAX;
    for _ in 0..3 {
        first = first.min(answered_before_another(&mut rig, &exchange, many));
        if first < many / 2 {
            break;
        }
    }
    assert!(first < many / 2, "{first} requests were answered first, of {many} of another client");
    rig.catches_up_with_whatever_was_answered();
    rig.expected.errors_allowed = RESET;
    rig.finish();
}

/// Returns how many requests of a client with `many` of them a server has answered when another client gets its reply.
fn answered_before_another(rig: &mut Rig, exchange: &Exchange, many: usize) -> usize {
    let mut greedy = rig.connect();
    rig.asks(&mut greedy, exchange);
    let answered = |rig: &mut Rig| rig.server.snapshot()["tally"]["requests"].as_u64().expect("a count") as usize;
    let before = answered(rig);
    process::freeze(rig.server.first);
    greedy.send(&exchange.request.repeat(many));
    let mut other = rig.connect();
    other.send(&exchange.request);
    let mut takes = greedy.also();
    let requests = std::thread::scope(|scope| {
        scope.spawn(|| takes.take_everything());
        process::thaw(rig.server.first);
        let requests = catch_unwind(AssertUnwindSafe(|| {
            other.receive(&exchange.reply);
            answered(rig)
        }));
        greedy.shut_down();
        requests.unwrap_or_else(|panic| resume_unwind(panic))
    });
    drop((takes, other));
    greedy.reset();
    requests - before
}

/// Clients that connect and send nothing: others are served meanwhile. The iterative server serves them when the silent
/// client leaves, by design.
fn silent_clients(case: &Case) {
    let mut rig = Rig::new(case, &case.pool("6"));
    let exchange = case.exchange();
    if case.one_at_a_time() {
        let silent = rig.connect();
        let mut other = rig.connect();
        other.send(&exchange.request);
        other.receive_nothing_for(Duration::from_millis(200));
        drop(silent);
        other.receive(&exchange.reply);
        rig.expected.requests += 1;
    } else {
        // One worker of a pool is left.
        let silent: Vec<Client> = (0..5).map(|_| rig.connect()).collect();
        for _ in 0..20 {
            rig.serves();
        }
        let mut second_thoughts = silent;
        for client in &mut second_thoughts {
            rig.asks(client, &exchange);
        }
    }
    rig.finish();
}

/// Every setting of the design at its minimum, and more clients than it can serve: none is lost, and all are served as the
/// silent ones leave.
fn more_silent_clients_than_workers(case: &Case) {
    let options = case.smallest();
    let mut rig = Rig::new(case, &options.iter().map(String::as_str).collect::<Vec<_>>());
    let exchange = case.exchange();
    let silent: Vec<Client> = (0..3).map(|_| rig.connect()).collect();
    let mut others: Vec<Client> = (0..6).map(|_| rig.connect()).collect();
    for client in &mut others {
        client.send(&exchange.request);
        client.half_close();
    }
    drop(silent);
    for mut client in others {
        client.receive_to_end(&exchange.reply);
        rig.expected.requests += 1;
    }
    rig.finish();
}

/// A client that takes a large reply byte by byte: others are served meanwhile, unless the design serves one connection at a
/// time, and in the end every byte has arrived.
fn a_slow_reader(case: &Case) {
    let mut rig = Rig::new(case, &case.protocol.large_options());
    let large = case.large();
    let mut slow = rig.connect_slow();
    slow.send(&large.request);
    let mut taken = 0;
    for _ in 0..20 {
        for _ in 0..50 {
            slow.receive(&large.reply[taken..=taken]);
            taken += 1;
        }
        if !case.one_at_a_time() {
            rig.serves();
        }
    }
    slow.half_close();
    slow.receive_to_end(&large.reply[taken..]);
    rig.expected.requests += 1;
    rig.finish();
}

/// A server that is stopped and continued in the middle of its work (Ctrl-Z and `fg`, a debugger, a frozen group) works as
/// before.
fn stopped_and_continued(case: &Case) {
    let mut rig = Rig::new(case, &case.protocol.large_options());
    let large = case.large();
    for _ in 0..3 {
        process::freeze(rig.server.first);
        process::thaw(rig.server.first);
        rig.serves();
    }
    let mut client = rig.connect_slow();
    client.send(&large.request);
    client.receive(&large.reply[..50_000]);
    process::freeze(rig.server.first);
    process::thaw(rig.server.first);
    client.half_close();
    client.receive_to_end(&large.reply[50_000..]);
    rig.expected.requests += 1;
    rig.finish();
}

/// Signals that are ignored by default: no process of a server may mistake one for the end of a call.
fn signals_that_mean_nothing(case: &Case) {
    let mut rig = Rig::new(case, &case.pool("3"));
    let mut client = (!case.one_at_a_time()).then(|| rig.connect());
    let exchange = case.exchange();
    for signal in [Signal::SIGCHLD, Signal::SIGWINCH, Signal::SIGCONT] {
        for id in rig.server.processes() {
            // A child that has served its client may have ended meanwhile.
            let _ = kill(Pid::from_raw(id), signal);
        }
        rig.server.signal(signal);
        rig.serves();
        if let Some(client) = &mut client {
            rig.asks(client, &exchange);
        }
    }
    drop(client);
    rig.finish();
}
