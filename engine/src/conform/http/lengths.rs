//! Lengths and codings of request bodies that a server may not take for others (RFC 9112, sections 6 and 7.1).

use crate::conform::case::Case;
use crate::conform::connection::Connection;
use crate::conform::http::heads::{asked, is_http, refused, with_path};
use crate::conform::subject::Subject;
use crate::conform::verdict::{Fault, Verdict};

pub const CASES: &[Case] = &[
    Case {
        number: 32,
        name: "Content-Length that is no number",
        rule: "A Content-Length that is no number, or has a sign, is refused with 400",
        source: "RFC 9112, section 6.3",
        applies: is_http,
        needed_by: None,
        run: no_numbers,
    },
    Case {
        number: 45,
        name: "Content-Length beyond 32 and 64 bits",
        rule: "A Content-Length is not taken for what is left of it in 32 or 64 bits: nothing behind the head is taken for a request",
        source: "RFC 9110, section 8.6",
        applies: is_http,
        needed_by: None,
        run: wrapped_lengths,
    },
    Case {
        number: 46,
        name: "unknown transfer coding",
        rule: "A body whose last transfer coding is not chunked is refused with 400 or 501, and the connection is closed: no part of it is taken for a request",
        source: "RFC 9112, sections 6.1 and 6.3",
        applies: is_http,
        needed_by: None,
        run: unknown_coding,
    },
    Case {
        number: 47,
        name: "invalid chunks",
        rule: "A chunk whose size is no hexadecimal number, or is beyond 32 or 64 bits, or that does not end with CRLF, is not taken for another: nothing behind it is taken for a request",
        source: "RFC 9112, section 7.1",
        applies: is_http,
        needed_by: None,
        run: invalid_chunks,
    },
];

/// "If a message is received without Transfer-Encoding and with an invalid Content-Length header field [...], the server MUST
/// respond with a 400 (Bad Request) status code" (RFC 9112, section 6.3). A valid one is "1*DIGIT" (RFC 9110, section 8.6).
fn no_numbers(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    for length in ["1x", "-5", "+5"] {
        refused(subject, &format!("GET {{path}} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\nabcde"))
            .map_err(|fault| fault.when(&format!("to Content-Length: {length}")))?;
    }
    Ok(Verdict::Passed)
}

/// Lengths of which 5 is left in 32 and in 64 bits.
const WRAPPED: [&str; 2] = ["4294967301", "18446744073709551621"];

/// "a recipient MUST anticipate potentially large decimal numerals and prevent parsing errors due to integer conversion
/// overflows or precision loss due to integer conversion" (RFC 9110, section 8.6).
fn wrapped_lengths(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    for length in WRAPPED {
        one_reply(subject, &format!("Content-Length: {length}"), "abcde")?;
    }
    Ok(Verdict::Passed)
}

/// Sizes that are no hexadecimal number, and sizes of which 5 is left in 32 and in 64 bits. What follows is complete for a
/// server that takes the size for 0 or for 5.
const CHUNKS: [(&str, &str); 6] = [
    ("3 whose data does not end with CRLF", "3\r\nabcXY0\r\n\r\n"),
    ("G", "G\r\n\r\n"),
    ("-1", "-1\r\n\r\n"),
    ("0x5", "0x5\r\nabcde\r\n0\r\n\r\n"),
    ("100000005", "100000005\r\nabcde\r\n0\r\n\r\n"),
    ("10000000000000005", "10000000000000005\r\nabcde\r\n0\r\n\r\n"),
];

/// "A recipient MUST be able to parse and decode the chunked transfer coding", whose sizes are "1*HEXDIG", and "MUST anticipate
/// potentially large hexadecimal numerals and prevent parsing errors due to integer conversion overflows" (RFC 9112, section 7.1).
fn invalid_chunks(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    for (size, body) in CHUNKS {
        one_reply(subject, "Transfer-Encoding: chunked", body)
            .map_err(|fault| fault.when(&format!("to a chunk of size {size}")))?;
    }
    Ok(Verdict::Passed)
}

/// Judges a request whose body does not end before the client does. The request behind the head and the bytes gets no reply.
fn one_reply(subject: &mut Subject<'_>, field: &str, bytes: &str) -> Result<(), Fault> {
    let head = format!("POST {{path}} HTTP/1.1\r\nHost: h\r\n{field}\r\n\r\n{bytes}");
    let request = with_path(subject, &format!("{head}GET {{path}} HTTP/1.1\r\nHost: smuggled\r\n\r\n"));
    let mut client = subject.connect()?;
    client.send_in_vain(request.as_bytes());
    client.half_close();
    if client.http(false).is_ok() {
        no_other(&mut client, field)?;
    }
    drop(client);
    subject.still_serves()
}

/// Judges what follows after the reply to a request with such a field. A server may reply before it reads the body, and then refuse
/// it.
fn no_other(client: &mut Connection, field: &str) -> Result<(), Fault> {
    while let Ok(reply) = client.http(false) {
        if !reply.is(4) && !reply.is(5) {
            let actual = format!("{} to a request behind it", reply.in_words());
            return Err(Fault::new(format!("one reply to {field}, or its refusal"), actual));
        }
    }
    Ok(())
}

/// "If a Transfer-Encoding header field is present in a request and the chunked transfer coding is not the final encoding, the
/// message body length cannot be determined reliably; the server MUST respond with the 400 (Bad Request) status code and then
/// close the connection" (RFC 9112, section 6.3); "A server that receives a request message with a transfer coding it does not
/// understand SHOULD respond with 501 (Not Implemented)" (section 6.1).
fn unknown_coding(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    const HEAD: &str = "POST {path} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n";
    let (mut client, reply) =
        asked(subject, &format!("{HEAD}5\r\nabcde\r\n0\r\n\r\nGET {{path}} HTTP/1.1\r\nHost: smuggled\r\n\r\n"))?;
    no_other(&mut client, "Transfer-Encoding: xchunked")?;
    client.ends().map_err(|fault| fault.when("after the reply"))?;
    Ok(match reply.status {
        400 | 501 => Verdict::Passed,
        _ if reply.is(4) || reply.is(5) => Verdict::Allowed(format!("it refuses the body with {}", reply.in_words())),
        // Node replies before it looks at the coding, and then closes.
        _ => Verdict::Warned(Fault::new("status 400 or 501", reply.in_words() + ", and the end")),
    })
}
