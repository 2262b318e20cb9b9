//! The asking end: GET of one path, and a reply of a known length.

use std::sync::Arc;

use anyhow::Result;
use httparse::Status as Parsed;

use super::{BUFFER, MOST_HEADERS, content_length};
use crate::mistake::mistake;
use crate::outbox::{Outbox, Piece};
use crate::pattern::Reception;
use crate::primitive::Want;
use crate::setting::{Kind, Setting, Settings};
use crate::workload::{Answer, Client, Conversation, Input};

/// What is asked for.
pub const PATH: Setting = Setting {
    name: "path",
    help: "What to ask for; our servers have / alone",
    unit: None,
    kind: Kind::Text { longest: 2048, default: "/" },
};

/// The longest head of a reply that is taken.
const LONGEST_HEAD: usize = 64 * 1024;

/// Makes the asking end.
pub fn client(settings: &Settings) -> Result<Box<dyn Client>> {
    let path = settings.word(PATH.name);
    if !path.starts_with('/') {
        return Err(mistake(format!("--path is '{path}', but it begins with a slash: /{path}")));
    }
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes().into();
    Ok(Box::new(Asker { request, head: Vec::new(), in_body: false, closes: false, body: Reception::new(settings) }))
}

#[derive(Clone)]
struct Asker {
    request: Arc<[u8]>,
    /// What has come of a head that is not complete.
    head: Vec<u8>,
    in_body: bool,
    /// The reply's head says that the server closes behind it.
    closes: bool,
    body: Reception,
}

impl Client for Asker {
    fn open(&self) -> Box<dyn Conversation> {
        Box::new(self.clone())
    }

    fn pipelines(&self) -> bool {
        true
    }
}

impl Conversation for Asker {
    fn ask(&mut self, outbox: &mut Outbox) -> Want {
        self.head.clear();
        self.in_body = false;
        outbox.push(Piece::Bytes(Arc::clone(&self.request), 0..self.request.len()));
        outbox.end_message();
        BUFFER
    }

    fn receive(&mut self, input: &mut Input<'_>) -> std::result::Result<Answer, String> {
        if !self.in_body {
            if input.ended {
                return Err(format!("the reply ended after {} bytes of its head", self.head.len()));
            }
            let before = self.head.len();
            let head = if before == 0 {
                read(input.bytes(), self.body.bytes())?
            } else {
                self.head.extend_from_slice(input.bytes());
                read(&self.head, self.body.bytes())?
            };
            let Some(Head { length, closes }) = head else {
                if before == 0 {
                    self.head.extend_from_slice(input.bytes());
                }
                input.take(input.bytes().len());
                if self.head.len() > LONGEST_HEAD {
                    return Err(format!("the reply's head has more than {LONGEST_HEAD} bytes"));
                }
                return Ok(Answer::Receive(BUFFER));
            };
            input.take(length - before);
            self.in_body = true;
            self.closes = closes;
            let want = self.body.begin();
            if input.bytes().is_empty() {
                return Ok(Answer::Receive(want));
            }
        }
        let answer = self.body.receive(input)?;
        Ok(if answer == Answer::Complete && self.closes { Answer::Last } else { answer })
    }
}

/// What the head of a reply says.
struct Head {
    /// Its length.
    length: usize,
    /// The server closes behind the reply.
    closes: bool,
}

/// The head of a reply with status 200 and so many bytes; `None` while it is not complete.
fn read(bytes: &[u8], due: usize) -> std::result::Result<Option<Head>, String> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut head = httparse::Response::new(&mut headers);
    let length = match head.parse(bytes) {
        Ok(Parsed::Complete(length)) => length,
        Ok(Parsed::Partial) => return Ok(None),
        Err(error) => return Err(format!("the reply is not HTTP: {error}")),
    };
    if head.code != Some(200) {
        let code = head.code.unwrap_or_default();
        return Err(format!("the reply's status is {code} {}, not 200", head.reason.unwrap_or_default()));
    }
    let field = |name: &str| head.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
    let says = |word: &str| {
        field("connection").is_some_and(|header| {
            header
                .value
                .split(|&byte| byte == b',')
                .any(|option| option.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
        })
    };
    // HTTP/1.0 closes unless it is said otherwise (RFC 9112, section 9.3).
    let closes = says("close") || (head.version == Some(0) && !says("keep-alive"));
    match field("content-length").map(|header| content_length(header.value)) {
        Some(Some(bytes)) if bytes == due as u64 => Ok(Some(Head { length, closes })),
        Some(Some(bytes)) => Err(format!("the reply has {bytes} bytes (Content-Length), and {due} are due (--bytes)")),
        Some(None) => Err("the reply's Content-Length is no number".to_owned()),
        None => Err("the reply has no Content-Length, and this client knows no other form of its end".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::inbox::Inbox;
    use crate::pattern::{BYTES, CHECK, pattern};
    use crate::setting::Value;

    fn new(path: &str) -> Result<Box<dyn Client>> {
        let given = BTreeMap::from([("path", Value::Word(path.to_owned())), ("bytes", Value::Integer(300))]);
        client(&Settings::new([&BYTES, &CHECK, &PATH], &given))
    }

    /// Gives a conversation a reply, cut into segments.
    fn judge(segments: &[&[u8]], ended: bool) -> std::result::Result<Answer, String> {
        let mut conversation = new("/").unwrap().open();
        let mut answer = Answer::Receive(conversation.ask(&mut Outbox::default()));
        let mut inbox = Inbox::default();
        for segment in segments {
            inbox.room(segment.len()).copy_from_slice(segment);
            inbox.filled(segment.len());
            answer = conversation.receive(&mut Input::new(&mut inbox, 1, 0, false))?;
        }
        if ended { conversation.receive(&mut Input::new(&mut inbox, 1, 0, true)) } else { Ok(answer) }
    }

    fn reply(head: &str, body: usize) -> Vec<u8> {
        [head.as_bytes(), &pattern(body as u64)].concat()
    }

    const HEAD: &str = "HTTP/1.1 200 OK\r\nServer: any\r\ncontent-length: 300\r\n\r\n";

    #[test]
    fn wherever_a_reply_is_cut_it_is_right() {
        let right = reply(HEAD, 300);
        for cut in 1..right.len() {
            assert_eq!(judge(&[&right[..cut], &right[cut..]], false), Ok(Answer::Complete), "cut at {cut}");
        }
        assert_eq!(judge(&right.chunks(1).collect::<Vec<_>>(), false), Ok(Answer::Complete));
    }

    #[test]
    fn a_server_that_closes_says_so() {
        let length = "Content-Length: 300";
        for (head, last) in [
            (format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{length}"), true),
            (format!("HTTP/1.1 200 OK\r\n{length}\r\nconnection: x, CLOSE"), true),
            (format!("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n{length}"), false),
            (format!("HTTP/1.0 200 OK\r\n{length}"), true),
            (format!("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n{length}"), false),
        ] {
            let answer = if last { Answer::Last } else { Answer::Complete };
            assert_eq!(judge(&[&reply(&format!("{head}\r\n\r\n"), 300)], false), Ok(answer), "{head}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_reply_is_said() {
        let wrong = |head: &str, body, word: &str| {
            let text = judge(&[&reply(head, body)], true).unwrap_err();
            assert!(text.contains(word), "'{word}' is not in '{text}'");
        };
        wrong("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 0, "404 Not Found");
        wrong("HTTP/1.1 200 OK\r\nContent-Length: 299\r\n\r\n", 299, "299 bytes");
        wrong("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", 0, "no number");
        wrong("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 0, "no Content-Length");
        wrong("nonsense\r\n\r\n", 0, "not HTTP");
        wrong("HTTP/1.1 200 OK\r\n", 0, "17 bytes of its head");
        wrong(HEAD, 299, "299 of 300");
        assert_eq!(judge(&[&reply(HEAD, 301)], false), Ok(Answer::Surplus { due: 300 }));
        assert!(judge(&[&"x".repeat(100).into_bytes()], false).is_err());
        let endless = ["HTTP/1.1 200 OK\r\nA: ", &"x".repeat(8000)].concat();
        assert!(
            judge(&[endless.as_bytes(), &[b'x'; 16384], &[b'x'; 16384], &[b'x'; 16384], &[b'x'; 16384]], false)
                .is_err()
        );
    }

    #[test]
    fn the_path_is_asked_for() {
        let mut outbox = Outbox::default();
        new("/a?b").unwrap().open().ask(&mut outbox);
        let Some(Piece::Bytes(bytes, range)) = outbox.front() else { panic!("a request comes from memory") };
        assert_eq!(&bytes[range.clone()], b"GET /a?b HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(new("a").err().unwrap().to_string().contains("begins with a slash: /a"));
    }

    proptest::proptest! {
        #[test]
        fn no_reply_makes_a_conversation_panic(
            head in "(HTTP/1.1 200 OK\r\n)?([A-Za-z-]{1,15}: [0-9a-z ]{0,5}\r\n){0,3}(Content-Length: 300\r\n\r\n)?",
            segments in proptest::collection::vec(proptest::collection::vec(proptest::num::u8::ANY, 1..100), 0..5),
        ) {
            let text = [head.into_bytes(), segments.concat()].concat();
            let _ = judge(&text.chunks(13).collect::<Vec<_>>(), true);
        }
    }
}
