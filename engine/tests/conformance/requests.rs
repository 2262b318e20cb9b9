//! Requests in unusual pieces, and invalid requests.

use std::time::Duration;

use libtest_mimic::{Completion, Failed};

use crate::conversations::random_conversations_of_two_clients;
use crate::faults;
use crate::mutated::mutated_requests;
use crate::rig::{Case, Listed, Rig, amid};
use crate::support::client::Client;
use crate::support::protocol::{Exchange, Wrong};
use crate::support::{PATIENCE, process};

pub const FAULTS: &[Listed] = faults![
    requests_in_every_form,
    #[needs_an_incomplete_request]
    half_close_in_mid_request,
    #[needs_a_wrong_request]
    wrong_requests,
];

/// Tests that are ignored where they would take too long.
pub const UNLESS_SLOW: &[Listed] = &[("more_requests_than_one_read_takes", more_requests_than_one_read_takes)];

/// One form in which requests may arrive.
type Form = fn(&mut Rig);

macro_rules! forms {
    ($($form:ident),+ $(,)?) => { &[$((stringify!($form), $form)),+] };
}

/// No form changes the server's state, so one server is used for all of them: starting a new one each time would take ten
/// times as long.
const FORMS: &[(&str, Form)] = forms![
    a_request_split_at_every_byte,
    a_request_of_single_bytes,
    several_requests_on_one_connection,
    two_requests_in_one_segment,
    many_requests_in_one_segment,
    random_conversations_of_two_clients,
    a_request_and_the_end_before_the_first_read,
    half_close_after_the_request,
    connect_and_close_at_once,
    mutated_requests,
];

fn requests_in_every_form(case: &Case) {
    let mut rig = Rig::new(case, case.protocol.exact);
    for (name, form) in FORMS {
        amid(name, || {
            form(&mut rig);
            rig.is_right_so_far();
        });
    }
    rig.finish();
}

fn a_request_split_at_every_byte(rig: &mut Rig) {
    let case = rig.case;
    let mut taken = rig.bytes_received();
    for exchange in (case.protocol.exchanges)() {
        for cut in cuts(exchange.request.len(), case.is_thorough()) {
            let mut client = rig.connect();
            let (first, rest) = exchange.request.split_at(cut);
            send_and_see_it_taken(rig, &mut client, first, &mut taken);
            client.send(rest);
            client.receive(&exchange.reply);
            taken += rest.len() as u64;
            rig.expected.requests += 1;
        }
    }
}

/// Positions where a request is cut: every one, of a long request those near its ends and some in between; or only the first,
/// the middle and the last.
fn cuts(length: usize, every: bool) -> impl Iterator<Item = usize> {
    let is_one_of_three = move |cut: usize| cut == 1 || cut == length - 1 || cut == length / 2;
    let near_an_end = move |cut: usize| cut < LONG || length - cut < LONG;
    let is_one = move |cut: usize| length < 4 * LONG || near_an_end(cut) || cut.is_multiple_of(LONG);
    (1..length).filter(move |&cut| if every { is_one(cut) } else { is_one_of_three(cut) })
}

/// Bytes of a request that are sent one by one.
const LONG: usize = 40;

/// Bytes sent one by one to designs that are not tested with all of them.
const SOME: usize = 8;

fn a_request_of_single_bytes(rig: &mut Rig) {
    let case = rig.case;
    let exchange = case.exchange();
    let mut client = rig.connect();
    let (last, first) = exchange.request.split_last().expect("a request is not empty");
    let (singly, together) = first.split_at(first.len().min(if case.is_thorough() { 4 * LONG } else { SOME }));
    let mut taken = rig.bytes_received();
    for byte in singly {
        send_and_see_it_taken(rig, &mut client, &[*byte], &mut taken);
    }
    client.send(together);
    client.send(&[*last]);
    client.receive(&exchange.reply);
    rig.expected.requests += 1;
    drop(client);
}

/// Sends, and waits until the server has received all of `taken` and these bytes, so that the next bytes arrive in a later
/// call. No other client sends.
fn send_and_see_it_taken(rig: &mut Rig, client: &mut Client, bytes: &[u8], taken: &mut u64) {
    client.send(bytes);
    *taken += bytes.len() as u64;
    rig.until("bytes_received", *taken);
}

fn several_requests_on_one_connection(rig: &mut Rig) {
    let case = rig.case;
    let mut client = rig.connect();
    for _ in 0..3 {
        for exchange in (case.protocol.exchanges)() {
            rig.asks(&mut client, &exchange);
        }
    }
    drop(client);
}

fn two_requests_in_one_segment(rig: &mut Rig) {
    let exchanges = (rig.case.protocol.exchanges)();
    for first in &exchanges {
        in_one_segment(rig, &[first.clone(), exchanges[0].clone()]);
    }
}

fn many_requests_in_one_segment(rig: &mut Rig) {
    let exchanges: Vec<_> = (0..20).flat_map(|_| (rig.case.protocol.exchanges)()).collect();
    in_one_segment(rig, &exchanges);
}

fn in_one_segment(rig: &mut Rig, exchanges: &[Exchange]) {
    let mut client = rig.connect();
    client.send(&exchanges.iter().flat_map(|exchange| exchange.request.clone()).collect::<Vec<_>>());
    for exchange in exchanges {
        client.receive(&exchange.reply);
    }
    rig.expected.requests += exchanges.len() as u64;
    client.half_close();
    client.receive_to_end(b"");
}

fn a_request_and_the_end_before_the_first_read(rig: &mut Rig) {
    let case = rig.case;
    arrive_before_the_first_read(rig, &case.exchange(), 1, PATIENCE);
}

/// The rest of the requests is there when the first have been read, and no later event will announce it.
fn more_requests_than_one_read_takes(case: &Case) -> Result<Completion, Failed> {
    let mut rig = Rig::new(case, &[]);
    let (exchange, times) = case.many_quick_requests();
    if let Some(reason) = rig.are_too_slow(&exchange, times) {
        return Ok(Completion::ignored_with(reason));
    }
    arrive_before_the_first_read(&mut rig, &exchange, times, PATIENCE);
    rig.finish();
    Ok(Completion::Completed)
}

/// Sends requests and the end of the connection together. The server is stopped meanwhile, as with Ctrl-Z, so that
/// everything is there when it reads.
pub fn arrive_before_the_first_read(rig: &mut Rig, exchange: &Exchange, times: usize, patience: Duration) {
    process::freeze(rig.server.first);
    let mut client = rig.connect();
    client.has_patience(patience);
    client.send(&exchange.request.repeat(times));
    client.half_close();
    process::thaw(rig.server.first);
    client.receive_to_end(&exchange.reply.repeat(times));
    rig.expected.requests += times as u64;
}

/// The reply still has to arrive, and then the end.
fn half_close_after_the_request(rig: &mut Rig) {
    let case = rig.case;
    for exchange in (case.protocol.exchanges)() {
        let mut client = rig.connect();
        client.send(&exchange.request);
        client.half_close();
        client.receive_to_end(&exchange.reply);
        rig.expected.requests += 1;
    }
}

fn half_close_in_mid_request(case: &Case) {
    let mut rig = Rig::new(case, &[]);
    let mut client = rig.connect();
    client.send(case.protocol.incomplete);
    client.half_close();
    client.receive_to_end(b"");
    let mut client = rig.connect();
    let exchange = case.exchange();
    client.send(&[&exchange.request, case.protocol.incomplete].concat());
    client.half_close();
    client.receive_to_end(&exchange.reply);
    rig.expected.requests += 1;
    rig.expected.error(&["truncated"], 2);
    rig.finish();
}

fn connect_and_close_at_once(rig: &mut Rig) {
    for _ in 0..30 {
        drop(rig.connect());
    }
}

fn right_requests_and_a_wrong_one_in_one_segment(rig: &mut Rig) {
    let case = rig.case;
    let exchange = case.exchange();
    let wrong = &case.protocol.wrongs()[0];
    let mut client = rig.connect();
    client.send(&[&exchange.request, &exchange.request, &wrong.bytes[..]].concat());
    client.receive_to_end(&[&exchange.reply[..], &exchange.reply, &wrong.reply].concat());
    rig.expected.requests += 2;
    rig.expected.error(case.protocol.wrong_kind, 1);
}

/// All violations of the protocol, on the same server: each may leave a trace only in the tally.
fn wrong_requests(case: &Case) {
    let mut rig = Rig::new(case, &[]);
    amid("right_requests_and_a_wrong_one_in_one_segment", || {
        right_requests_and_a_wrong_one_in_one_segment(&mut rig);
        rig.is_right_so_far();
    });
    for wrong in case.protocol.wrongs() {
        amid(wrong.name, || {
            a_wrong_request(&mut rig, wrong);
            rig.is_right_so_far();
        });
    }
    rig.finish();
}

/// Only that connection is closed: a bystander is served before and after, on the same connection.
fn a_wrong_request(rig: &mut Rig, wrong: &Wrong) {
    let case = rig.case;
    let exchange = case.exchange();
    // If the server handles one connection at a time, a bystander would make the culprit wait.
    let mut bystander = (!case.one_at_a_time()).then(|| rig.connect());
    for _ in 0..3 {
        if let Some(bystander) = &mut bystander {
            rig.asks(bystander, &exchange);
        }
        let mut culprit = rig.connect();
        culprit.send_in_vain(&wrong.bytes);
        culprit.receive_until_cut(&wrong.reply);
    }
    if let Some(mut bystander) = bystander {
        rig.asks(&mut bystander, &exchange);
    }
    rig.expected.error(case.protocol.wrong_kind, 3);
}
