//! Requests that come in unusual pieces, and requests that are none.

use std::time::Duration;

use crate::bench::{Bench, Case, Listed};
use crate::faults;
use crate::support::protocol::{Exchange, Wrong};
use crate::support::{PATIENCE, process};

pub const FAULTS: &[Listed] = faults![
    a_request_split_at_every_byte,
    a_request_of_single_bytes,
    several_requests_on_one_connection,
    two_requests_in_one_segment,
    many_requests_in_one_segment,
    a_request_and_the_end_before_the_first_read,
    #[needs_quick_requests]
    more_requests_than_one_read_takes,
    half_close_after_the_request,
    #[needs_an_incomplete_request]
    half_close_in_mid_request,
    connect_and_close_at_once,
    #[needs_a_wrong_request]
    right_requests_and_a_wrong_one_in_one_segment,
];

fn a_request_split_at_every_byte(case: &Case) {
    let mut bench = Bench::new(case, &[]);
    for exchange in (case.protocol.exchanges)() {
        for cut in cuts(exchange.request.len()) {
            let mut client = bench.connect();
            send_and_see_it_taken(&mut bench, &mut client, &exchange.request[..cut]);
            client.send(&exchange.request[cut..]);
            client.receive(&exchange.reply);
            bench.expected.requests += 1;
        }
    }
    bench.finish();
}

/// Every place where a request can be cut; of a long one those near its ends, and some between.
fn cuts(length: usize) -> impl Iterator<Item = usize> {
    let near_an_end = move |cut: usize| cut < LONG || length - cut < LONG;
    (1..length).filter(move |&cut| length < 4 * LONG || near_an_end(cut) || cut.is_multiple_of(LONG))
}

/// Bytes of a request that are looked at one by one.
const LONG: usize = 40;

fn a_request_of_single_bytes(case: &Case) {
    let mut bench = Bench::new(case, &[]);
    let exchange = case.exchange();
    let mut client = bench.connect();
    let (last, first) = exchange.request.split_last().expect("a request is not empty");
    let (singly, together) = first.split_at(first.len().min(4 * LONG));
    for byte in singly {
        send_and_see_it_taken(&mut bench, &mut client, &[*byte]);
    }
    client.send(together);
    client.send(&[*last]);
    client.receive(&exchange.reply);
    bench.expected.requests += 1;
    drop(client);
    bench.finish();
}

/// Sends, and waits until the server has received it, so that what is sent next comes in a later call.
fn send_and_see_it_taken(bench: &mut Bench, client: &mut crate::support::client::Client, bytes: &[u8]) {
    let received = |bench: &mut Bench| bench.server.snapshot()["tally"]["bytes_received"].as_u64().expect("a count");
    // Nobody else is sending: requests before this one were answered, so their bytes have been counted.
    let before = received(bench);
    client.send(bytes);
    bench.until("bytes_received", before + bytes.len() as u64);
}

fn several_requests_on_one_connection(case: &Case) {
    let mut bench = Bench::new(case, &[]);
    let mut client = bench.connect();
    for _ in 0..3 {
        for exchange in (case.protocol.exchanges)() {
            bench.asks(&mut client, &exchange);
        }
    }
    drop(client);
    bench.finish();
}

fn two_requests_in_one_segment(case: &Case) {
    let exchanges = (case.protocol.exchanges)();
    for first in &exchanges {
        in_one_segment(case, &[first.clone(), exchanges[0].clone()]);
    }
}

fn many_requests_in_one_segment(case: &Case) {
    let exchanges: Vec<_> = (0..20).flat_map(|_| (case.protocol.exchanges)()).collect();
    in_one_segment(case, &exchanges);
}

fn in_one_segment(case: &Case, exchanges: &[Exchange]) {
    let mut bench = Bench::new(case, &[]);
    let mut client = bench.connect();
    client.send(&exchanges.iter().flat_map(|exchange| exchange.request.clone()).collect::<Vec<_>>());
    for exchange in exchanges {
        client.receive(&exchange.reply);
    }
    bench.expected.requests += exchanges.len() as u64;
    client.half_close();
    client.receive_to_end(b"");
    bench.finish();
}

fn a_request_and_the_end_before_the_first_read(case: &Case) {
    let mut bench = Bench::new(case, &[]);
    arrive_before_the_first_read(&mut bench, &case.exchange(), 1, PATIENCE);
    bench.finish();
}

/// The rest of the requests is there when the first have been read, and nothing more will come that could tell of it.
fn more_requests_than_one_read_takes(case: &Case) {
    let mut bench = Bench::new(case, &[]);
    let (exchange, times) = case.many_quick_requests();
    arrive_before_the_first_read(&mut bench, &exchange, times, PATIENCE);
    bench.finish();
}

/// Requests, and the end of the connection with them. The server is stopped meanwhile, as with Ctrl-Z, so that all of it
/// is there when it looks.
pub fn arrive_before_the_first_read(bench: &mut Bench, exchange: &Exchange, times: usize, patience: Duration) {
    process::freeze(bench.server.first);
    let mut client = bench.connect();
    client.has_patience(patience);
    client.send(&exchange.request.repeat(times));
    client.half_close();
    process::thaw(bench.server.first);
    client.receive_to_end(&exchange.reply.repeat(times));
    bench.expected.requests += times as u64;
}

/// The reply still has to come, and then the end.
fn half_close_after_the_request(case: &Case) {
    let mut bench = Bench::new(case, &[]);
    for exchange in (case.protocol.exchanges)() {
        let mut client = bench.connect();
        client.send(&exchange.request);
        client.half_close();
        client.receive_to_end(&exchange.reply);
        bench.expected.requests += 1;
    }
    bench.finish();
}

fn half_close_in_mid_request(case: &Case) {
    let mut bench = Bench::new(case, &[]);
    let mut client = bench.connect();
    client.send(case.protocol.incomplete);
    client.half_close();
    client.receive_to_end(b"");
    let mut client = bench.connect();
    let exchange = case.exchange();
    client.send(&[&exchange.request, case.protocol.incomplete].concat());
    client.half_close();
    client.receive_to_end(&exchange.reply);
    bench.expected.requests += 1;
    bench.expected.error(&["truncated"], 2);
    bench.finish();
}

fn connect_and_close_at_once(case: &Case) {
    let mut bench = Bench::new(case, &[]);
    for _ in 0..100 {
        drop(bench.connect());
    }
    bench.finish();
}

fn right_requests_and_a_wrong_one_in_one_segment(case: &Case) {
    let mut bench = Bench::new(case, &[]);
    let exchange = case.exchange();
    let wrong = (case.protocol.wrong)().swap_remove(0);
    let mut client = bench.connect();
    client.send(&[&exchange.request, &exchange.request, &wrong.bytes[..]].concat());
    client.receive_to_end(&[exchange.reply.clone(), exchange.reply, wrong.reply].concat());
    bench.expected.requests += 2;
    bench.expected.error(case.protocol.wrong_kind, 1);
    bench.finish();
}

/// That connection is closed, and only that one: a bystander is served before and after, on the same connection.
pub fn a_wrong_request(case: &Case, wrong: &Wrong) {
    let mut bench = Bench::new(case, &[]);
    let exchange = case.exchange();
    // Where one connection is served at a time, a bystander would make the culprit wait.
    let mut bystander = (!case.one_at_a_time()).then(|| bench.connect());
    for _ in 0..3 {
        if let Some(bystander) = &mut bystander {
            bench.asks(bystander, &exchange);
        }
        let mut culprit = bench.connect();
        culprit.send_in_vain(&wrong.bytes);
        culprit.receive_until_cut(&wrong.reply);
    }
    if let Some(mut bystander) = bystander {
        bench.asks(&mut bystander, &exchange);
    }
    bench.expected.error(case.protocol.wrong_kind, 3);
    bench.finish();
}
