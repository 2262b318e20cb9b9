//! `load --show`: prints the data of each connection for a person to read.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use socket2::SockRef;

use crate::net::address::Address;
use crate::sys::descriptor;
use crate::sys::lock::SharedMutex;
use crate::transfer::outbox::Outbox;

/// Standard output, shared by all clients of a load, threads or processes: each message is printed in one piece.
pub struct Show {
    lock: SharedMutex,
}

impl Show {
    /// Makes the lock, before the load forks or creates threads.
    pub fn new() -> io::Result<Self> {
        Ok(Show { lock: SharedMutex::new()? })
    }

    /// Output of one client, by its number.
    pub fn client(&self, number: usize) -> Shown<'_> {
        Shown { show: self, number, reply: Vec::new(), left_out: 0, not_stored: 0 }
    }

    /// Prints why a client's request failed.
    pub fn failed(&self, number: usize, message: &str) {
        self.say(number, &format!("failed: {message}\n"));
    }

    /// One write for the whole text. If the reader closes the pipe, the load continues.
    fn say(&self, number: usize, text: &str) {
        let text = format!("client {number} -> {text}");
        let Ok(_guard) = self.lock.lock() else { return };
        let output = io::stdout();
        let mut rest = text.as_bytes();
        while let Ok(bytes) = descriptor::write(output.as_fd(), rest)
            && bytes < rest.len()
        {
            rest = &rest[bytes..];
        }
    }
}

/// Output of one connection.
pub struct Shown<'run> {
    show: &'run Show,
    number: usize,
    /// The reply so far, as much of it as a person may want to read.
    reply: Vec<u8>,
    /// Further bytes of the reply.
    left_out: usize,
    not_stored: usize,
}

/// Maximum bytes of a reply that are shown.
const MOST: usize = 64 << 10;

impl Shown<'_> {
    /// The connection has been made.
    pub fn connected(&self, socket: BorrowedFd<'_>) {
        let address = SockRef::from(&socket).local_addr().ok().and_then(|address| Address::of(&address));
        let address = address.map_or("a socket without an address".to_owned(), |address| address.to_string());
        self.show.say(self.number, &format!("connected from {address}\n"));
    }

    /// A request, or its beginning, is about to be sent, after this many bytes of earlier requests.
    pub fn sends_request(&mut self, outbox: &Outbox, before: u64) {
        let all = outbox.message().flat_map(|piece| piece.slice().to_vec());
        let request: Vec<u8> = all.skip(before as usize).collect();
        self.show.say(self.number, &format!("request sent: \"{}\"\n", printable(&request, Place::Quoted)));
    }

    /// Another part of the request is about to be sent; only its length is shown.
    pub fn goes_on(&mut self, outbox: &Outbox) {
        self.show.say(self.number, &format!("{} more bytes of the request sent\n", outbox.bytes()));
    }

    /// A part of the reply has arrived.
    pub fn receives(&mut self, bytes: &[u8], not_stored: usize) {
        let shown = bytes.len().min(MOST - self.reply.len());
        self.reply.extend_from_slice(&bytes[..shown]);
        self.left_out += bytes.len() - shown;
        self.not_stored += not_stored;
    }

    /// The reply is complete and correct.
    pub fn replied(&mut self) {
        let bytes = self.reply.len() + self.left_out + self.not_stored;
        let mut text = format!("reply of {bytes} bytes:\n{}", printable(&self.reply, Place::Alone));
        if self.left_out > 0 {
            text += &format!("(and {} more bytes)", self.left_out);
        }
        if self.not_stored > 0 {
            text += &format!("({} of the bytes were not stored)", self.not_stored);
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
        self.show.say(self.number, &text);
        self.reply.clear();
        (self.left_out, self.not_stored) = (0, 0);
    }
}

/// Place where bytes are printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Within a line, in quotation marks: a new line is escaped too.
    Quoted,
    /// On separate lines.
    Alone,
}

/// Bytes as text, with escapes for those that are not printable or that would control a terminal.
fn printable(bytes: &[u8], place: Place) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\n' | '\t' if place == Place::Alone => text.push(character),
                '"' | '\\' if place == Place::Quoted => text.extend(['\\', character]),
                '\n' | '\t' | '\r' => text.extend(character.escape_default()),
                _ if character.is_ascii_control() => text += &format!("\\x{:02x}", character as u32),
                _ if character.is_control() => text.extend(character.escape_unicode()),
                _ => text.push(character),
            }
        }
        for byte in chunk.invalid() {
            text += &format!("\\x{byte:02x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unprintable_bytes_are_escaped() {
        let bytes = b"name \x1b[31m\tcaf\xc3\xa9 \xff\xc2\x85\r\nnext \"a\\b\"\x00\x7f";
        assert_eq!(printable(bytes, Place::Alone), "name \\x1b[31m\tcafé \\xff\\u{85}\\r\nnext \"a\\b\"\\x00\\x7f");
        assert_eq!(
            printable(bytes, Place::Quoted),
            "name \\x1b[31m\\tcafé \\xff\\u{85}\\r\\nnext \\\"a\\\\b\\\"\\x00\\x7f"
        );
    }
}
