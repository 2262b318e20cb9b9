//! Tests of connections of a load.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use super::*;
use crate::base::setting::{Settings, Value};
use crate::count::tally::Tally;
use crate::registry::catalogue;
use crate::workloads::http;

/// A socket of a local pair reports that its peer has closed before it takes a byte, so that nobody can have had it.
#[test]
fn a_request_of_which_nothing_was_sent_may_be_repeated() {
    let given = [("method", "POST"), ("path", "/page")].map(|(name, value)| (name, Value::Word(value.to_owned())));
    let settings = Settings::new(http::ENTRY.client_settings, &BTreeMap::from(given));
    let client = (http::ENTRY.client)(&settings).unwrap();
    let mut openers = catalogue::way("send_each", "recv").prepare(&settings).unwrap();
    let (tally, window) = (Tally::new(1).unwrap(), Window::whole_life());
    let mut opened = |closes_at_a_request: bool| {
        let (own, mut peer) = UnixStream::pair().unwrap();
        let channel = openers.open(own.into(), tally.worker(0)).unwrap();
        let mut caller = Caller::new(channel, client.as_ref(), None, &window, Duration::from_secs(9));
        std::thread::scope(|scope| {
            let answered = scope.spawn(|| caller.exchange().unwrap());
            assert!(peer.read(&mut [0; 1024]).unwrap() > 0);
            peer.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
            assert!(answered.join().unwrap());
        });
        let failure = if closes_at_a_request {
            std::thread::scope(|scope| {
                let failed = scope.spawn(|| caller.exchange().unwrap_err());
                assert!(peer.read(&mut [0; 1024]).unwrap() > 0);
                drop(peer);
                failed.join().unwrap()
            })
        } else {
            drop(peer);
            caller.exchange().unwrap_err()
        };
        (failure.kind, caller.may_repeat(&failure))
    };
    assert_eq!(opened(false), (ErrorKind::BrokenPipe, true));
    assert_eq!(opened(true), (ErrorKind::NotRepeated, false));
}
