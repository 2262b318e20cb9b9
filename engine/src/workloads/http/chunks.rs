//! Chunked bodies, as the client parses them (RFC 9112, section 7.1).

/// The longest line before a chunk: its size, and ignored extensions.
const LONGEST_LINE: usize = 4 * 1024;

/// Maximum bytes of all trailer lines after the last chunk, which are ignored.
const LONGEST_TRAILERS: usize = 64 * 1024;

/// Position within a chunked body, wherever it was cut.
#[derive(Debug, Clone, Copy)]
pub struct Chunks {
    place: Place,
    /// Size of the chunk whose line is being read.
    size: u64,
    /// Bytes of that line so far, or of all trailers.
    read: usize,
}

/// The element that the next byte belongs to.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    /// First digit of a size.
    Size,
    /// Another digit, or what follows the digits.
    Digits,
    /// Blanks after a size.
    Blanks,
    Extension,
    /// Second half of the line end.
    EndOfLine,
    /// Remaining bytes of a chunk, at least one.
    Data(u64),
    /// Line end after a chunk.
    BehindData,
    EndBehindData,
    /// Start of a line after the last chunk; an empty line ends the body.
    Trailer,
    WithinTrailer,
    EndOfTrailer,
    EndOfAll,
}

/// The next part of the body, and its length in the input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Part {
    /// Framing.
    Framing(usize),
    /// Bytes of the resource.
    Data(usize),
    /// End of the framing: the next byte belongs to another reply.
    End(usize),
}

impl Chunks {
    /// State before the first byte.
    pub fn new() -> Self {
        Chunks { place: Place::Size, size: 0, read: 0 }
    }

    /// Returns the next part of the input, at least one byte. The error describes the fault.
    pub fn next(&mut self, came: &[u8]) -> Result<Part, String> {
        if let Place::Data(left) = self.place {
            let length = (came.len() as u64).min(left);
            self.place = if length == left { Place::BehindData } else { Place::Data(left - length) };
            return Ok(Part::Data(length as usize));
        }
        for (place, &byte) in came.iter().enumerate() {
            if self.place == Place::EndOfAll {
                expect(byte, b'\n', "after its last chunk")?;
                return Ok(Part::End(place + 1));
            }
            self.place = self.follows(byte)?;
            if matches!(self.place, Place::Data(_)) {
                return Ok(Part::Framing(place + 1));
            }
        }
        Ok(Part::Framing(came.len()))
    }

    /// Advances over one byte of the framing.
    fn follows(&mut self, byte: u8) -> Result<Place, String> {
        self.is_not_too_long()?;
        match (self.place, byte) {
            (Place::Digits | Place::Blanks | Place::Extension, b'\r') => Ok(Place::EndOfLine),
            (Place::Digits | Place::Blanks, b';') => Ok(Place::Extension),
            (Place::Digits | Place::Blanks, b' ' | b'\t') => Ok(Place::Blanks),
            (Place::Extension, byte) if byte != b'\n' => Ok(Place::Extension),
            (Place::Size | Place::Digits, byte) => {
                let digit = (byte as char).to_digit(16).ok_or_else(|| no_size(byte))?;
                let size = self.size.checked_mul(16).ok_or("the size of a chunk of the reply exceeds 64 bits")?;
                self.size = size + u64::from(digit);
                Ok(Place::Digits)
            }
            (Place::EndOfLine, byte) => {
                expect(byte, b'\n', "after the size of a chunk")?;
                self.read = 0;
                Ok(match std::mem::take(&mut self.size) {
                    0 => Place::Trailer,
                    size => Place::Data(size),
                })
            }
            (Place::BehindData, byte) => expect(byte, b'\r', "after a chunk").map(|()| Place::EndBehindData),
            (Place::EndBehindData, byte) => {
                expect(byte, b'\n', "after a chunk")?;
                self.read = 0;
                Ok(Place::Size)
            }
            (Place::Trailer, b'\r') => Ok(Place::EndOfAll),
            (Place::WithinTrailer, b'\r') => Ok(Place::EndOfTrailer),
            (Place::Trailer | Place::WithinTrailer, byte) if byte != b'\n' => Ok(Place::WithinTrailer),
            (Place::EndOfTrailer, byte) => expect(byte, b'\n', "after a trailer").map(|()| Place::Trailer),
            (_, byte) => Err(no_size(byte)),
        }
    }

    fn is_not_too_long(&mut self) -> Result<(), String> {
        self.read += 1;
        let (what, most) = match self.place {
            Place::Trailer | Place::WithinTrailer | Place::EndOfTrailer => {
                ("the reply's trailers have", LONGEST_TRAILERS)
            }
            _ => ("the line of a chunk of the reply has", LONGEST_LINE),
        };
        if self.read > most { Err(format!("{what} more than {most} bytes")) } else { Ok(()) }
    }
}

fn expect(byte: u8, expected: u8, place: &str) -> Result<(), String> {
    if byte == expected {
        return Ok(());
    }
    Err(format!("{place} the reply has {:?}, expected {:?}", byte as char, expected as char))
}

fn no_size(byte: u8) -> String {
    format!("unexpected {:?} in the size line of a chunk of the reply", byte as char)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes of a body that arrives in these pieces, and how many bytes of the input it has. The error is
    /// that of the parser, or that the body does not end.
    fn read(pieces: &[&[u8]]) -> Result<(Vec<u8>, usize), String> {
        let (mut chunks, mut body, mut taken) = (Chunks::new(), Vec::new(), 0);
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                let part = chunks.next(rest)?;
                let (Part::Framing(length) | Part::Data(length) | Part::End(length)) = part;
                assert!(length > 0, "{part:?} of {rest:?}");
                if let Part::Data(_) = part {
                    body.extend_from_slice(&rest[..length]);
                }
                taken += length;
                if let Part::End(_) = part {
                    return Ok((body, taken));
                }
                rest = &rest[length..];
            }
        }
        Err("it does not end".to_owned())
    }

    #[test]
    fn a_body_cut_anywhere_is_the_same() {
        let text: &[u8] =
            b"5\r\nhello\r\n00a;name=\"a;b\" ; x\r\n, wide wor\r\n2 \t;y\r\nld\r\n000\r\nA: 1\r\nB: 2 \r\n\r\nHTTP";
        let right = Ok((b"hello, wide world".to_vec(), text.len() - 4));
        assert_eq!(read(&[text]), right);
        for cut in 1..text.len() {
            assert_eq!(read(&[&text[..cut], &text[cut..]]), right, "cut at {cut}");
        }
        assert_eq!(read(&text.chunks(1).collect::<Vec<_>>()), right);
        for length in 0..text.len() - 4 {
            assert_eq!(read(&[&text[..length]]), Err("it does not end".to_owned()), "{length} bytes");
        }
    }

    #[test]
    fn an_empty_body_is_its_last_chunk() {
        assert_eq!(read(&[b"0\r\n\r\n"]), Ok((Vec::new(), 5)));
    }

    #[test]
    fn a_wrong_chunk_is_described() {
        let long_line = format!("1;{}\r\n", "x".repeat(LONGEST_LINE));
        let long_trailers = format!("0\r\n{}", "A: b\r\n".repeat(LONGEST_TRAILERS / 6 + 1));
        for (text, word) in [
            ("\r\n", "in the size line of a chunk"),
            ("x\r\n", "unexpected 'x'"),
            ("-1\r\n", "unexpected '-'"),
            ("0x1\r\n", "unexpected 'x'"),
            (";a\r\n", "unexpected ';'"),
            (" 1\r\n", "unexpected ' '"),
            ("1 2\r\n", "unexpected '2'"),
            ("1\n", "unexpected '\\n'"),
            ("1;a\n", "unexpected '\\n'"),
            ("1\rx", "after the size of a chunk"),
            ("1\r\nabc", "after a chunk the reply has 'b'"),
            ("1\r\na\rb", "after a chunk the reply has 'b'"),
            ("0\r\n\rx", "after its last chunk"),
            ("0\r\nA: 1\rx", "after a trailer"),
            ("0\r\nA: 1\n", "unexpected '\\n'"),
            ("10000000000000000\r\n", "exceeds 64 bits"),
            (&long_line, "more than 4096 bytes"),
            (&long_trailers, "more than 65536 bytes"),
        ] {
            for pieces in [vec![text.as_bytes()], text.as_bytes().chunks(1).collect()] {
                let error = read(&pieces).unwrap_err();
                assert!(error.contains(word), "'{word}' is not in '{error}' of {text:?}");
            }
        }
        assert_eq!(read(&[b"FFFFFFFFFFFFFFFF\r\nab"]).unwrap_err(), "it does not end");
    }

    /// Chunks as servers make them: a size in either case, with leading zeros and an extension.
    fn encoded(chunks: &[(Vec<u8>, usize, bool, String)], trailers: &[String]) -> Vec<u8> {
        let mut text = Vec::new();
        for (data, zeros, is_upper, extension) in chunks.iter().filter(|(data, ..)| !data.is_empty()) {
            let size = if *is_upper { format!("{:X}", data.len()) } else { format!("{:x}", data.len()) };
            text.extend_from_slice(format!("{}{size}{extension}\r\n", "0".repeat(*zeros)).as_bytes());
            text.extend_from_slice(data);
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(b"0\r\n");
        trailers.iter().for_each(|trailer| text.extend_from_slice(format!("{trailer}\r\n").as_bytes()));
        text.extend_from_slice(b"\r\n");
        text
    }

    proptest::proptest! {
        #[test]
        fn chunked_bytes_are_decoded(
            chunks in proptest::collection::vec(
                (
                    proptest::collection::vec(proptest::num::u8::ANY, 0..300),
                    0..4_usize,
                    proptest::bool::ANY,
                    "( ?;[a-z]{1,5}(=[a-z0-9]{1,5})?){0,2}",
                ),
                0..8,
            ),
            trailers in proptest::collection::vec("[A-Za-z]{1,9}: [ -~]{0,20}", 0..3),
            behind in proptest::collection::vec(proptest::num::u8::ANY, 0..20),
            pieces in proptest::collection::vec(1..40_usize, 1..20),
        ) {
            let text = encoded(&chunks, &trailers);
            let body: Vec<u8> = chunks.iter().flat_map(|(data, ..)| data.clone()).collect();
            let all = [&text[..], &behind].concat();
            let (mut rest, mut cut) = (&all[..], Vec::new());
            for &length in pieces.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, others) = rest.split_at(length.min(rest.len()));
                cut.push(piece);
                rest = others;
            }
            proptest::prop_assert_eq!(read(&cut), Ok((body, text.len())));
        }

        #[test]
        fn nothing_that_comes_is_too_much_for_it(came in proptest::collection::vec(proptest::num::u8::ANY, 1..200)) {
            let _ = read(&[&came]);
        }
    }
}
