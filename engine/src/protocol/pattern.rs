//! The payload that our servers send if a protocol does not define it, and the check of replies that consist of it.

use std::sync::Arc;

use crate::base::setting::{Kind, Setting, Settings};
use crate::base::unit::Unit;
use crate::protocol::workload::{Answer, Input};
use crate::transfer::inbox;
use crate::transfer::primitive::Want;

/// Length of a reply, for protocols that leave it open; both ends need it.
pub const BYTES: Setting = Setting {
    name: "bytes",
    help: "Bytes of every reply",
    unit: Unit::Bytes,
    kind: Kind::Integer { minimum: 1, maximum: 1 << 30, default: 4000 },
    for_more: Some("for more bytes in a reply, use the workload stream"),
};

/// Strictness with which a client checks replies.
pub const CHECK: Setting = Setting {
    name: "check",
    help: "Compare replies with the bytes that our servers send, or only count their bytes (for other servers)",
    unit: Unit::None,
    kind: Kind::Choice { choices: &["pattern", COUNT], default: "pattern" },
    for_more: None,
};

/// Value of [`CHECK`] for servers that are not ours.
pub const COUNT: &str = "count";

/// The payload of our servers. Its period is a prime, so that a lost, repeated or misplaced piece is detected.
pub fn pattern(length: u64) -> Arc<[u8]> {
    let period: Vec<u8> = (0..251).collect();
    let length = length as usize;
    let mut bytes = period.repeat(length.div_ceil(period.len()));
    bytes.truncate(length);
    bytes.into()
}

/// Returns the first position at which the received and the expected bytes differ. Compares byte by byte only if there
/// is a difference.
pub fn difference(seen: &[u8], expected: &[u8]) -> Option<usize> {
    if seen == expected { None } else { seen.iter().zip(expected).position(|(seen, expected)| seen != expected) }
}

/// Replies of known lengths, received one after another.
#[derive(Clone)]
pub struct Reception {
    bytes: usize,
    expected: Option<Arc<[u8]>>,
    received: usize,
}

impl Reception {
    /// Makes a reception for replies of up to this many bytes, which are checked as [`CHECK`] says, or only counted by
    /// default.
    pub fn new(settings: &Settings, largest: u64) -> Self {
        let is_compared = settings.values().contains_key(CHECK.name) && settings.word(CHECK.name) == "pattern";
        let expected = is_compared.then(|| pattern(largest));
        Reception { bytes: 0, expected, received: 0 }
    }

    /// Starts a reply of this many bytes, and returns what the first receive wants.
    pub fn begin(&mut self, bytes: u64) -> Want {
        (self.bytes, self.received) = (bytes as usize, 0);
        self.want()
    }

    /// Room for one byte more than expected: an overlong reply must not look complete because the buffer was full.
    fn want(&self) -> Want {
        let due = self.bytes - self.received;
        Want::AtMost(if due < inbox::CAPACITY { due + 1 } else { inbox::CAPACITY - 1 })
    }

    /// Takes all input as the next part of the reply; if other replies may follow, takes no more than expected.
    pub fn receive(&mut self, input: &mut Input<'_>) -> Result<Answer, String> {
        let bytes = self.bytes;
        if input.ended {
            return Err(format!("the reply ended after {} of {bytes} bytes", self.received));
        }
        let due = bytes - self.received;
        let most = if input.more_follow { due } else { usize::MAX };
        let part = &input.bytes()[..input.bytes().len().min(most)];
        let received = self.received + part.len() + input.not_stored;
        self.compare(part)?;
        // A reply that is wrong from its first byte on is wrong, not overlong.
        if received > bytes {
            return Ok(Answer::Surplus { due: bytes as u64 });
        }
        let length = part.len();
        input.take(length);
        self.received = received;
        Ok(if received == self.bytes { Answer::Complete } else { Answer::Receive(self.want()) })
    }

    /// Checks the next bytes of a reply whose length the caller determines.
    pub fn look_at(&mut self, part: &[u8]) -> Result<(), String> {
        self.compare(part)?;
        self.received += part.len();
        Ok(())
    }

    /// The error says which of the next bytes is wrong. Bytes beyond the reply's length are not compared.
    fn compare(&self, part: &[u8]) -> Result<(), String> {
        let Some(expected) = &self.expected else { return Ok(()) };
        let known = part.len().min(self.bytes.saturating_sub(self.received));
        let expected = &expected[self.received..][..known];
        match difference(&part[..known], expected) {
            None => Ok(()),
            Some(place) => Err(format!(
                "byte {} of the reply is {}; our servers send {} (--check count for other servers)",
                self.received + place,
                part[place],
                expected[place]
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::base::setting::Value;
    use crate::transfer::inbox::Inbox;

    /// Gives a reception a reply, cut into segments.
    fn judge(check: &str, bytes: u64, segments: &[&[u8]], ended: bool) -> Result<Answer, String> {
        let given = BTreeMap::from([("bytes", Value::Integer(bytes)), ("check", Value::Word(check.to_owned()))]);
        let mut reception = Reception::new(&Settings::new([&BYTES, &CHECK], &given), bytes);
        let mut inbox = Inbox::default();
        let mut answer = Answer::Receive(reception.begin(bytes));
        for segment in segments {
            inbox.room(segment.len()).copy_from_slice(segment);
            inbox.filled(segment.len());
            answer = reception.receive(&mut Input::new(&mut inbox, 1, 0, false))?;
        }
        if ended { reception.receive(&mut Input::new(&mut inbox, 1, 0, true)) } else { Ok(answer) }
    }

    #[test]
    fn bytes_of_the_next_reply_are_left() {
        let settings = Settings::new([&BYTES, &CHECK], &BTreeMap::from([("bytes", Value::Integer(4))]));
        let (mut reception, mut inbox) = (Reception::new(&settings, 4), Inbox::default());
        let two = [&pattern(4)[..], &pattern(4)[..2]].concat();
        inbox.room(two.len()).copy_from_slice(&two);
        inbox.filled(two.len());
        reception.begin(4);
        let mut input = Input::new(&mut inbox, 1, 0, false);
        input.more_follow = true;
        assert_eq!(reception.receive(&mut input), Ok(Answer::Complete));
        reception.begin(4);
        assert_eq!(reception.receive(&mut input), Ok(Answer::Receive(Want::AtMost(3))));
        assert_eq!(inbox.unread(), b"");
    }

    #[test]
    fn a_reply_is_right_only_byte_by_byte() {
        let right = pattern(600);
        assert_eq!(judge("pattern", 600, &[&right], false), Ok(Answer::Complete));
        assert_eq!(judge("pattern", 600, &[&right[..7], &right[7..]], false), Ok(Answer::Complete));
        assert_eq!(judge("pattern", 600, &[&right[..599]], false), Ok(Answer::Receive(Want::AtMost(2))));
        assert!(judge("pattern", 600, &[&right[..599]], true).unwrap_err().contains("599 of 600"));
        assert_eq!(judge("pattern", 599, &[&right], false), Ok(Answer::Surplus { due: 599 }));
        let mut wrong = right.to_vec();
        wrong[300] ^= 1;
        assert!(judge("pattern", 600, &[&wrong], false).unwrap_err().contains("byte 300"));
        assert_eq!(judge("count", 600, &[&wrong], false), Ok(Answer::Complete));
        wrong.push(0);
        assert!(judge("pattern", 600, &[&wrong], false).unwrap_err().contains("byte 300"), "it is too long as well");
        assert_eq!(judge("count", 600, &[&wrong], false), Ok(Answer::Surplus { due: 600 }));
        let moved: Vec<u8> = right[1..].iter().chain(&right[..1]).copied().collect();
        assert!(judge("pattern", 600, &[&moved], false).is_err());
    }
}
