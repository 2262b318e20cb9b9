//! Mutated requests over many short connections, and exact tallies: the server has served and refused what the model says,
//! not one more or less.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

use thunderherd_engine::conform::chance::Chance;
use thunderherd_engine::count::tally::ErrorKind;

use crate::model::{Model, Outcome};
use crate::rig::{EVERYTHING, Rig, amid};
use crate::support::client::Client;
use crate::support::protocol::{Exchange, Wrong};

/// Connections of a round, after which the tally is compared.
const CONNECTIONS: usize = 100;

/// Rounds of all tests, and of those with everything: 3,000 connections for each design and workload.
const ROUNDS: (u64, u64) = (1, 30);

/// Connections that are open at a time. A server that serves one connection after another has one.
const TOGETHER: usize = 3;

/// Maximum requests of a connection, and maximum bytes that a mutation adds. All of them fit into the buffers of a connection,
/// so that sending never waits.
const REQUESTS: usize = 4;
const ADDED: usize = 5000;

/// Every design gets the same connections.
pub fn mutated_requests(rig: &mut Rig) {
    let model = Model::new(rig.case.protocol, rig.case.protocol.exact);
    let exchanges = (rig.case.protocol.exchanges)();
    let wrongs: Vec<&Wrong> = rig.case.protocol.wrongs().iter().filter(|wrong| wrong.bytes.len() <= ADDED).collect();
    let rounds = if EVERYTHING.load(Relaxed) { ROUNDS.1 } else { ROUNDS.0 };
    for round in 0..rounds {
        amid(&format!("round {round}"), || {
            let mut chance = Chance::new(round, 1);
            let mut open = VecDeque::new();
            for number in 0..CONNECTIONS {
                let most = if rig.case.one_at_a_time() { 1 } else { TOGETHER };
                if open.len() == most {
                    open.pop_front().into_iter().for_each(Sent::ends);
                }
                let (bytes, outcome) = drawn(&model, &exchanges, &wrongs, &mut chance);
                open.push_back(Sent::new(rig, number, &bytes, outcome, &mut chance));
            }
            open.into_iter().for_each(Sent::ends);
            rig.is_right_so_far();
        });
    }
}

/// Draws what a client sends until it has an outcome.
fn drawn(model: &Model, exchanges: &[Exchange], wrongs: &[&Wrong], chance: &mut Chance) -> (Vec<u8>, Outcome) {
    loop {
        let mut bytes = Vec::new();
        for _ in 0..=chance.below(REQUESTS) {
            let mut request = exchanges[chance.below(exchanges.len())].request.clone();
            if chance.below(2) == 0 {
                mutate(&mut request, exchanges, wrongs, chance);
            }
            bytes.extend_from_slice(&request);
        }
        if chance.below(8) == 0 {
            bytes.truncate(chance.below(bytes.len() + 1));
        }
        if let Some(outcome) = model.outcome(&bytes) {
            return (bytes, outcome);
        }
    }
}

/// Changes a request. What is left may still be right.
fn mutate(request: &mut Vec<u8>, exchanges: &[Exchange], wrongs: &[&Wrong], chance: &mut Chance) {
    let place = chance.below(request.len());
    let behind = place + 1 + chance.below(request.len() - place);
    let insert = |request: &mut Vec<u8>, new: &[u8]| drop(request.splice(place..place, new.iter().copied()));
    match chance.below(10) {
        0 => request[place] ^= 1 << chance.below(8),
        1 => request[place] = chance.below(256) as u8,
        2 => {
            let count = 1 + chance.below(4);
            insert(request, &chance.bytes(count));
        }
        3 => drop(request.drain(place..behind)),
        4 => {
            let again = request[place..behind].to_vec();
            insert(request, &again);
        }
        5 => {
            let other = &exchanges[chance.below(exchanges.len())].request;
            request.truncate(place);
            request.extend_from_slice(&other[chance.below(other.len())..]);
        }
        // A larger number, perhaps over a limit.
        6 => {
            let digits = vec![b'0' + chance.below(10) as u8; 1 + chance.below(20)];
            insert(request, &digits);
        }
        // Too long a line.
        7 => {
            let again = vec![request[place]; 1 + chance.below(ADDED)];
            insert(request, &again);
        }
        8 => {
            let zeros = vec![0; 1 + chance.below(ADDED)];
            insert(request, &zeros);
        }
        _ if wrongs.is_empty() => request.reverse(),
        _ => request.clone_from(&wrongs[chance.below(wrongs.len())].bytes),
    }
}

/// A client that has sent everything.
struct Sent {
    number: usize,
    client: Client,
    outcome: Outcome,
}

impl Sent {
    /// Sends bytes on a new connection, in a few parts, and expects the outcome in the tally.
    fn new(rig: &mut Rig, number: usize, bytes: &[u8], outcome: Outcome, chance: &mut Chance) -> Sent {
        rig.expected.requests += outcome.requests;
        match outcome.refused {
            None => {}
            Some(ErrorKind::BadRequest) => rig.expected.error(rig.case.protocol.wrong_kind, 1),
            Some(ErrorKind::Truncated) => rig.expected.error(&["truncated"], 1),
            Some(kind) => panic!("connection {number}: no client can cause {kind:?}"),
        }
        let mut client = rig.connect();
        let (first, rest) = bytes.split_at(chance.below(bytes.len() + 1));
        let (second, third) = rest.split_at(chance.below(rest.len() + 1));
        for part in [first, second, third] {
            client.send_in_vain(part);
        }
        // A server that closes early may have closed by now.
        if !outcome.early {
            client.half_close();
        }
        Sent { number, client, outcome }
    }

    /// Receives the reply and the end.
    fn ends(self) {
        let Sent { number, mut client, outcome } = self;
        amid(&format!("connection {number}"), || {
            let whole = outcome.refused.is_none() && outcome.unread == 0;
            if whole || !outcome.early {
                client.receive_to_end(&outcome.reply);
            } else {
                client.receive_until_cut(&outcome.reply);
            }
        });
    }
}
