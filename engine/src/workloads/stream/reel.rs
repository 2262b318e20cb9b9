//! The bytes of a stream, in memory or in a file, which are sent repeatedly.

use std::fs::{self, File};
use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result};

use crate::base::setting::{Kind, Setting, Settings};
use crate::base::unit::Unit;
use crate::protocol::pattern::pattern;
use crate::sys::descriptor;
use crate::transfer::outbox::{Outbox, PART, Piece};

/// Message size.
pub const MESSAGE_SIZE: Setting = Setting {
    name: "message_size",
    help: "Message size of a stream: bytes per send call, as far as the send primitive can",
    unit: Unit::Bytes,
    kind: Kind::Integer { minimum: 1, maximum: 16 << 20, default: 128 << 10 },
    for_more: Some("for longer streams, use --stream-size or --duration: a message is what one call sends"),
};

/// Source of the stream.
pub const SOURCE: Setting = Setting {
    name: "source",
    help: "Source of the stream: memory, a file in memory (memfd), or a file in the directory for temporary files",
    unit: Unit::None,
    kind: Kind::Choice { choices: &["memory", "memfd", "file"], default: "memory" },
    for_more: None,
};

/// Size of the file.
pub const SOURCE_SIZE: Setting = Setting {
    name: "source_size",
    help: "Size of the file that a stream is sent from repeatedly; at least one message",
    unit: Unit::Bytes,
    kind: Kind::Integer { minimum: 1, maximum: 1 << 33, default: 16 << 20 },
    for_more: Some("for longer streams, use --stream-size or --duration: the file is sent repeatedly"),
};

/// Period of a stream in bytes. It lets messages of common sizes begin at page boundaries of a file. A transfer from
/// elsewhere in a file passes one more page, of which only a part is sent.
pub const PERIOD: usize = 64 << 10;

/// Bytes written to a file at a time: whole periods.
const CHUNK: usize = PERIOD * 16;

/// Makes the first bytes of a stream: the [`pattern`] restarts after each [`PERIOD`].
pub fn bytes_of_a_stream(length: usize) -> Vec<u8> {
    let mut bytes = pattern(PERIOD as u64).repeat(length.div_ceil(PERIOD));
    bytes.truncate(length);
    bytes
}

/// A section of a stream. Each send starts at a position whose byte is the next of the stream.
pub struct Reel {
    /// All of it, once it is made.
    all: OnceLock<Piece>,
    source: Source,
    /// Its length in memory.
    least: u64,
    /// Its length in a file.
    length: u64,
    message: u64,
    /// Bytes put into an outbox at a time: as many whole messages as fit into a part, at least one.
    part: u64,
}

/// Place of a reel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Memory,
    Memfd,
    File,
}

impl Reel {
    /// Reads the settings.
    pub fn new(settings: &Settings) -> Self {
        let message = settings.integer(MESSAGE_SIZE.name);
        let part = (PART as u64 / message).max(1) * message;
        // Room for a part that starts anywhere in the period.
        let least = part + PERIOD as u64 - 1;
        let length = settings.integer(SOURCE_SIZE.name).max(least);
        let source = match settings.word(SOURCE.name) {
            "memory" => Source::Memory,
            "memfd" => Source::Memfd,
            _ => Source::File,
        };
        Reel { all: OnceLock::new(), source, least, length, message, part }
    }

    /// Size of its file; `None` if it is in memory.
    pub fn file_bytes(&self) -> Option<u64> {
        (self.source != Source::Memory).then_some(self.length)
    }

    /// Makes its bytes, once. The error is that of making the file.
    pub fn make(&self) -> Result<()> {
        let (least, length) = (self.least as usize, self.length);
        let all = match self.source {
            Source::Memory => Piece::Bytes(bytes_of_a_stream(least).into(), 0..least),
            Source::Memfd => {
                let made = descriptor::memory_file(c"thunderherd stream").and_then(|file| filled(file.into(), length));
                Piece::File(made.context("cannot create a file in memory")?, 0..length)
            }
            Source::File => {
                let folder = std::env::temp_dir();
                let made = temporary_file(&folder).and_then(|file| filled(file, length));
                let advice = || format!("cannot create a file of {length} bytes in {} (TMPDIR)", folder.display());
                Piece::File(made.with_context(advice)?, 0..length)
            }
        };
        self.all.get_or_init(|| all);
        Ok(())
    }

    /// Puts the next part into an outbox, or the rest of the stream if that is less; returns its length. `next` is the
    /// position in the reel.
    pub fn put(&self, next: &mut u64, left: u64, outbox: &mut Outbox) -> u64 {
        let bytes = self.part.min(left);
        let all = self.all.get().expect("a reel is made before it is sent");
        if *next + bytes > all.length() {
            *next %= PERIOD as u64;
        }
        outbox.push_messages(all.at(*next..*next + bytes), self.message, self.message);
        *next += bytes;
        bytes
    }
}

/// A file that has already been unlinked.
fn temporary_file(folder: &std::path::Path) -> std::io::Result<File> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let name = format!("thunderherd-stream-{}-{}", std::process::id(), MADE.fetch_add(1, Relaxed));
    let path = folder.join(name);
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

fn filled(mut file: File, length: u64) -> std::io::Result<Arc<File>> {
    let chunk = bytes_of_a_stream(CHUNK);
    let mut left = length;
    while left > 0 {
        let bytes = left.min(CHUNK as u64);
        file.write_all(&chunk[..bytes as usize])?;
        left -= bytes;
    }
    Ok(Arc::new(file))
}
