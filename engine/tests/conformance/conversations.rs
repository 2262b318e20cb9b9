//! Random conversations of two clients at a time: any requests, cut anywhere, pipelined or not.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use thunderherd_engine::conform::chance::Chance;

use crate::rig::{EVERYTHING, Rig, amid};
use crate::support::client::Client;

/// Maximum requests of a conversation, more than a connection answers in its turn, and bytes after which no request is added.
/// All requests fit into the buffers of a connection, so that sending never waits.
const REQUESTS: (usize, usize) = (40, 16 << 10);

/// Bytes of replies that a client may leave unread while it waits for the server to receive. They fit into any buffers.
const UNREAD: usize = 32 << 10;

/// Maximum pause, in microseconds.
const PAUSE: usize = 500;

/// Every design gets the same conversations. The known replies depend on neither the design nor the cuts.
pub fn random_conversations_of_two_clients(rig: &mut Rig) {
    let rounds = if EVERYTHING.load(Relaxed) { 50 } else { 5 };
    for seed in 0..rounds {
        amid(&format!("seed {seed}"), || {
            converse(rig, &mut Chance::new(seed, 0));
            rig.is_right_so_far();
        });
    }
}

/// Lets two clients act in random order, in one thread, so that a seed repeats what they do. The server runs meanwhile: its
/// calls find parts of one conversation or of both.
fn converse(rig: &mut Rig, chance: &mut Chance) {
    let mut taken = rig.bytes_received();
    let mut open: Vec<Conversation> = (0..2).map(|_| Conversation::begin(rig, chance)).collect();
    while !open.is_empty() {
        // If the server handles one connection at a time, the second client gets nothing until the first has left.
        let served = if rig.case.one_at_a_time() { 1 } else { open.len() };
        let number = chance.below(open.len());
        let one = &mut open[number];
        match chance.below(8) {
            0..4 if !one.has_sent_all() => one.send_part(chance),
            4 if one.has_sent_all() && number < served => {
                let one = open.remove(number);
                taken += one.sent as u64;
                one.end(chance);
            }
            4 | 5 if number < served => one.receive_reply(),
            6 => {
                open[..served].iter_mut().for_each(Conversation::receive_most);
                let sent: usize = open[..served].iter().map(|one| one.sent).sum();
                rig.until("bytes_received", taken + sent as u64);
            }
            7 => std::thread::sleep(Duration::from_micros(chance.below(PAUSE) as u64)),
            _ => {}
        }
    }
}

/// A client with its requests and the replies that are due.
struct Conversation {
    client: Client,
    /// All requests, one after another.
    requests: Vec<u8>,
    /// Bytes of them that have been sent.
    sent: usize,
    /// Replies that have not been received, each with the end of its request.
    due: VecDeque<(usize, Vec<u8>)>,
}

impl Conversation {
    /// Connects, and chooses the requests.
    fn begin(rig: &mut Rig, chance: &mut Chance) -> Self {
        let exchanges = (rig.case.protocol.exchanges)();
        let (mut requests, mut due) = (Vec::new(), VecDeque::new());
        let most = 1 + chance.below(REQUESTS.0);
        for _ in 0..=chance.below(most) {
            if requests.len() >= REQUESTS.1 {
                break;
            }
            let exchange = &exchanges[chance.below(exchanges.len())];
            requests.extend_from_slice(&exchange.request);
            due.push_back((requests.len(), exchange.reply.clone()));
        }
        rig.expected.requests += due.len() as u64;
        Conversation { client: rig.connect(), requests, sent: 0, due }
    }

    fn has_sent_all(&self) -> bool {
        self.sent == self.requests.len()
    }

    /// Sends the next bytes: a few of a request, or several requests.
    fn send_part(&mut self, chance: &mut Chance) {
        let unsent = &self.requests[self.sent..];
        let most = [3, 40, 1000, unsent.len()][chance.below(4)];
        let part = 1 + chance.below(most.min(unsent.len()));
        self.client.send(&unsent[..part]);
        self.sent += part;
    }

    /// Receives the next reply, if its request has been sent.
    fn receive_reply(&mut self) {
        if self.due.front().is_some_and(|(end, _)| *end <= self.sent) {
            let (_, reply) = self.due.pop_front().expect("there is one");
            self.client.receive(&reply);
        }
    }

    /// Receives replies until few bytes are left. A server that waits for its client to read does not receive.
    fn receive_most(&mut self) {
        let sent = self.sent;
        let unread = |due: &VecDeque<(usize, Vec<u8>)>| {
            due.iter().take_while(|(end, _)| *end <= sent).map(|(_, reply)| reply.len()).sum::<usize>()
        };
        while unread(&self.due) > UNREAD {
            self.receive_reply();
        }
    }

    /// Receives the other replies before or after the end of the requests. The connection has no further byte.
    fn end(mut self, chance: &mut Chance) {
        if chance.below(2) == 0 {
            (0..self.due.len()).for_each(|_| self.receive_reply());
        }
        self.client.half_close();
        self.client.receive_to_end(&self.due.into_iter().flat_map(|(_, reply)| reply).collect::<Vec<_>>());
    }
}
