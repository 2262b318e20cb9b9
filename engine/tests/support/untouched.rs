//! A server that is not to be asked: what cannot be is refused before the first connection.

use std::net::TcpListener;

use super::{Ran, engine, one_line, run};

/// A listener that nobody is to reach.
pub struct Untouched(TcpListener);

impl Untouched {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Untouched(listener)
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        self.0.local_addr().unwrap().to_string()
    }

    /// A load of it.
    pub fn load(&self, workload: &str, arguments: &[&str]) -> Ran {
        run(engine().args(["load", workload, "--connect", &self.address()]).args(arguments))
    }

    /// The load is refused with these words, and nobody has connected.
    #[track_caller]
    pub fn refuses(&self, workload: &str, arguments: &[&str], words: &[&str]) {
        one_line(&self.load(workload, arguments), 2, words);
        self.is_untouched(&format!("{workload} {arguments:?}"));
    }

    /// Nobody has connected.
    #[track_caller]
    pub fn is_untouched(&self, what: &str) {
        let accepted = self.0.accept();
        assert!(accepted.is_err(), "{what} was refused after it had connected");
    }
}
