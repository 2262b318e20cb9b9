//! Persistent connections that end: because the protocol ends them, because the server closes, and both while the client
//! pauses.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::LOADS;
use crate::base::setting::{Setting, Settings, Value};
use crate::base::window::Window;
use crate::client::gave_up::GivingUp;
use crate::client::load::{ByClient, FirstError, GIVE_UP, Load, LoadRun, TIMEOUT};
use crate::client::measure::Measured;
use crate::count::tally::{Counts, Tally};
use crate::net::address::Address;
use crate::net::source_addresses::Sources;
use crate::net::target::{Chosen, Target};
use crate::net::tcp::{self, TcpOptions};
use crate::protocol::workload::{Answer, Client, Conversation, Input};
use crate::registry::catalogue;
use crate::transfer::outbox::{Outbox, Piece};
use crate::transfer::primitive::Want;

/// Sends one byte and takes the reply, which says whether the connection ends: `l` for the last one, `e` if the end of
/// the input is a part of the reply.
#[derive(Default)]
struct Letters {
    until_the_end: bool,
}

impl Client for Letters {
    fn open(&self) -> Box<dyn Conversation> {
        Box::new(Letters::default())
    }
}

impl Conversation for Letters {
    fn ask(&mut self, outbox: &mut Outbox) -> Want {
        outbox.push(Piece::Bytes(Arc::from(*b"?"), 0..1));
        outbox.end_message();
        Want::AtMost(8)
    }

    fn receive(&mut self, input: &mut Input<'_>) -> Result<Answer, String> {
        let letter = input.bytes().first().copied();
        input.take(usize::from(letter.is_some()));
        match letter {
            Some(b'c') => Ok(Answer::Complete),
            Some(b'l') => Ok(Answer::Last),
            Some(_) => {
                self.until_the_end = true;
                Ok(Answer::Receive(Want::AtMost(8)))
            }
            None if self.until_the_end => Ok(Answer::Complete),
            None => Err("nothing came but the end".to_owned()),
        }
    }
}

/// Serves the letters of a text, one per request of a connection, and closes after them.
fn serve(letters: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                for letter in letters.bytes() {
                    if stream.read(&mut [0]).is_ok_and(|bytes| bytes == 1) {
                        stream.write_all(&[letter]).unwrap();
                    }
                }
            });
        }
    });
    address
}

/// Two clients with persistent connections and six requests each.
fn counts(load: &Load, address: SocketAddr, think: u64) -> Counts {
    let declared: Vec<Setting> = [load.settings, tcp::SETTINGS, &[TIMEOUT, GIVE_UP]].concat();
    let given = BTreeMap::from([
        ("clients", Value::Integer(2)),
        ("loops", Value::Integer(6)),
        ("connections", Value::Word("kept".to_owned())),
        ("think", Value::Integer(think)),
    ]);
    let settings = Settings::new(&declared, &given);
    let run: &'static LoadRun = Box::leak(Box::new(LoadRun {
        target: Target {
            addresses: vec![Address::Tcp(address)],
            chosen: Chosen::none(1).unwrap(),
            tcp: TcpOptions::of(&settings),
            sources: Sources::default(),
            patience: Duration::from_secs(10),
        },
        tally: Tally::new((load.workers)(&settings)).unwrap(),
        schedule: None,
        client: Box::new(Letters::default()),
        way: catalogue::way("send_each", "recv"),
        first_error: FirstError::new().unwrap(),
        giving_up: GivingUp::new().unwrap(),
        by_client: ByClient::new(2).unwrap(),
        window: Window::whole_life(),
        measured: Mutex::new(Measured::default()),
        connecting: None,
        agree: || None,
        agreed_start: AtomicU64::new(0),
        mark: Box::new(|_, _| panic!("a load that ends by count has no marks")),
        show: None,
        expected_requests: load.expected_requests(&settings),
        live: None,
        settings,
    }));
    (load.run)(run).unwrap();
    let counts = run.tally.counts();
    assert_eq!(counts.closed, counts.connections);
    assert_eq!(run.measured.lock().unwrap().latency.len(), counts.requests);
    counts
}

fn in_every_load_that_keeps(test: impl Fn(&str, &Load)) {
    let has = |load: &Load, name: &str| load.settings.iter().any(|setting| setting.name == name);
    let keeping = |load: &Load| has(load, "connections") && has(load, "loops");
    let loads: Vec<_> = LOADS.iter().filter(|entry| keeping(entry.item)).collect();
    assert!(loads.len() > 1);
    loads.iter().for_each(|entry| test(entry.name, entry.item));
}

#[test]
fn after_a_last_answer_the_next_request_has_another_connection() {
    in_every_load_that_keeps(|name, load| {
        for (letters, connections) in [("cccccc", 2), ("ccl", 4), ("l", 12), ("e", 12), ("ce", 6)] {
            for think in [0, 3000] {
                let counts = counts(load, serve(letters), think);
                assert_eq!((counts.requests, counts.connections), (12, connections), "{name}, {letters}: {counts:?}");
                assert!(counts.errors.is_empty(), "{name}, {letters}: {counts:?}");
            }
        }
    });
}

/// The server closes without announcement: the next request fails, and the one after it has a new connection.
#[test]
fn a_connection_that_ends_unsaid_is_an_error() {
    in_every_load_that_keeps(|name, load| {
        // The pause lets the end arrive before the next request; without it, the order varies.
        for think in [0, 3000] {
            let counts = counts(load, serve("cc"), think);
            let failed: u64 = counts.errors.values().sum();
            assert_eq!((counts.requests, failed), (8, 4), "{name}: {counts:?}");
            let known = |kind: &&str| ["truncated", "reset", "broken_pipe"].contains(kind);
            assert!(counts.errors.keys().all(known), "{name}: {counts:?}");
        }
    });
}
