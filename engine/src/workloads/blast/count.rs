//! The parts of a request that both ends share: the two counts and their encoding, and the bytes of an iteration.

use crate::base::setting::{Kind, Setting, Settings};
use crate::base::unit::Unit;
use crate::protocol::workload::Input;

pub const COUNT_FORM: Setting = Setting {
    name: "count_form",
    help: "Encoding of the numbers of iterations and reads: decimal digits and a newline, or 4 bytes, least or most \
           significant byte first",
    unit: Unit::None,
    kind: Kind::Choice { choices: &["decimal", "little_endian", "big_endian"], default: "decimal" },
    for_more: None,
};

/// Maximum iterations, chosen so that the number of reads fits into 4 bytes even at one byte per read. With more reads,
/// because some returned nothing, the largest 4-byte number is reported and accounted for.
pub const MOST_REPETITIONS: u64 = u32::MAX as u64 / ITERATION as u64;

/// Bytes of an iteration.
pub const ITERATION: usize = 1500;

/// Name of the sum that both ends account for: the reads of all requests.
pub const SERVER_READS: &str = "server_reads";

/// The longest line accepted as a count: room for any 64-bit number and white space.
pub const LONGEST_LINE: usize = 64;

/// Encoding of a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountForm {
    Decimal,
    LittleEndian,
    BigEndian,
}

impl CountForm {
    pub fn of(settings: &Settings) -> Self {
        match settings.word(COUNT_FORM.name) {
            "little_endian" => CountForm::LittleEndian,
            "big_endian" => CountForm::BigEndian,
            _ => CountForm::Decimal,
        }
    }

    pub fn encode(self, count: u64) -> Vec<u8> {
        let number = u32::try_from(count).unwrap_or(u32::MAX);
        match self {
            CountForm::Decimal => format!("{count}\n").into_bytes(),
            CountForm::LittleEndian => number.to_le_bytes().to_vec(),
            CountForm::BigEndian => number.to_be_bytes().to_vec(),
        }
    }
}

/// A count while it arrives.
pub struct Count {
    form: CountForm,
    pub bytes: Vec<u8>,
}

impl Count {
    pub fn new(form: CountForm) -> Self {
        Count { form, bytes: Vec::new() }
    }

    /// Number of bytes that certainly belong to the count: one for a line, which may end anywhere.
    pub fn due(&self) -> usize {
        if self.form == CountForm::Decimal { 1 } else { 4 - self.bytes.len() }
    }

    /// Takes the bytes of the count; `None` if more must come. The error is the input so far, if it is not a count.
    pub fn take(&mut self, input: &mut Input<'_>) -> std::result::Result<Option<u64>, Vec<u8>> {
        while self.bytes.len() < LONGEST_LINE {
            let Some(&byte) = input.bytes().first() else { return Ok(None) };
            input.take(1);
            self.bytes.push(byte);
            let complete = match self.form {
                CountForm::Decimal => byte == b'\n',
                _ => self.bytes.len() == 4,
            };
            if complete {
                let bytes = std::mem::take(&mut self.bytes);
                return self.decode(&bytes).map(Some).ok_or(bytes);
            }
        }
        Err(std::mem::take(&mut self.bytes))
    }

    fn decode(&self, bytes: &[u8]) -> Option<u64> {
        let number = |of: fn([u8; 4]) -> u32| Some(u64::from(of(bytes.try_into().ok()?)));
        match self.form {
            CountForm::LittleEndian => number(u32::from_le_bytes),
            CountForm::BigEndian => number(u32::from_be_bytes),
            // White space around the number is allowed, since telnet sends a carriage return.
            CountForm::Decimal => std::str::from_utf8(bytes).ok()?.trim().parse().ok(),
        }
    }
}
