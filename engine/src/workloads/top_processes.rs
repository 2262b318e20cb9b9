//! The assignment CSE 232 A2: the client asks for the two processes that have used the most CPU time. The server reads
//! every process of the machine for each reply.

pub mod processes;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Error, Result};

use crate::base::about::About;
use crate::base::mistake::{Blame, mistake_with_hint};
use crate::base::setting::{Form, Kind, Setting, Settings};
use crate::base::unit::{MICROSECOND, MILLISECOND, Unit};
use crate::count::tally::ErrorKind;
use crate::protocol::spin::{COMPUTE, Spin};
use crate::protocol::workload::{
    Agreement, Answer, COMMON, Client, Conversation, End, Input, Next, Relation, Service, Session, Then, Workload,
};
use crate::transfer::outbox::{Outbox, Piece};
use crate::transfer::primitive::{Waits, Want};

use processes::{Process, is_shortage, top_two};

pub static ENTRY: Workload = Workload {
    about: About {
        summary: "The server reads /proc and replies with the two processes that used the most CPU time",
        source: "CSE 232 Computer Networks, IIIT Delhi, assignment 2",
    },
    port: 8080,
    service_settings: &[CLOSES, FORM, PROC, COMPUTE, PAUSE],
    client_settings: &[FORM, CLOSES],
    agreements: &[Agreement { client: FORM, relation: Relation::Equal, service: FORM }],
    lasting: &[End::Client],
    service,
    client,
    ..COMMON
};

const CLOSES: Setting = Setting {
    name: "closes",
    help: "Which end closes after a reply. by_design: the server if its design blocks in calls, the client if it has \
           an event loop. Persistent connections need the client to close",
    unit: Unit::None,
    kind: Kind::Choice { choices: &["by_design", "server", "client"], default: "by_design" },
    for_more: None,
};

const FORM: Setting = Setting {
    name: "form",
    help: "Form of the reply: the sum of a process's ticks (short), or also its ticks in user and kernel mode (long)",
    unit: Unit::None,
    kind: Kind::Choice { choices: &["short", "long"], default: "short" },
    for_more: None,
};

const PROC: Setting = Setting {
    name: "proc",
    help: "Mount point of the proc file system to read, for instance the host's as seen in a container",
    unit: Unit::None,
    kind: Kind::Text { longest: 255, default: "/proc", form: Form::Plain },
    for_more: None,
};

const PAUSE: Setting = Setting {
    name: "pause",
    help: "Time to sleep before every reply, like a request that waits for a disk: it uses no CPU, but blocks the \
           worker that serves it",
    unit: Unit::Time { resolution: MICROSECOND },
    kind: Kind::Integer { minimum: 0, maximum: 1000 * MILLISECOND, default: 0 },
    for_more: None,
};

const REQUEST: &[u8] = b"Requesting top 2 processes";

/// Reply to any other request, after which the server closes the connection, since the start of the next request is
/// unknown.
const UNSUPPORTED: &[u8] = b"Unsupported request";

fn service(settings: &Settings, waits: Waits) -> Result<Box<dyn Service>> {
    let proc = Path::new(settings.word(PROC.name));
    check(proc)?;
    let server_closes = match settings.word(CLOSES.name) {
        "by_design" => waits == Waits::InTheCall,
        word => word == "server",
    };
    Ok(Box::new(TopProcesses {
        proc: proc.into(),
        long: settings.word(FORM.name) == "long",
        spin: Spin::new(settings),
        wait: settings.time(PAUSE.name),
        then: if server_closes { Then::Close } else { Then::Receive(Want::ANYTHING) },
    }))
}

/// Refuses a folder that is not a proc file system, before the server starts.
fn check(proc: &Path) -> Result<()> {
    let refused = |why: String| {
        mistake_with_hint(
            "top_processes.no_processes",
            format!("--proc is '{}', {why}", proc.display()),
            "give the mount point of a proc file system, for instance /proc",
        )
        .blaming(&[PROC.name])
        .only_here()
    };
    match top_two(proc) {
        Ok([first, _]) if first != Process::default() => Ok(()),
        Ok(_) => Err(refused("which contains no process".to_owned())),
        Err(error) if is_shortage(&error) => Err(Error::new(error).context("cannot read the processes")),
        Err(error) => Err(refused(format!("which cannot be read: {error}"))),
    }
}

#[derive(Clone)]
struct TopProcesses {
    proc: Arc<Path>,
    long: bool,
    spin: Spin,
    wait: Duration,
    then: Then,
}

impl Service for TopProcesses {
    fn open(&self) -> Box<dyn Session> {
        Box::new(TopSession { service: self.clone(), seen: 0, after_request: false })
    }
}

struct TopSession {
    service: TopProcesses,
    /// Bytes of the request so far.
    seen: usize,
    /// A newline may come, which some clients send after the request.
    after_request: bool,
}

impl Session for TopSession {
    fn first(&self) -> Want {
        Want::ANYTHING
    }

    fn receive(&mut self, input: &mut Input<'_>, outbox: &mut Outbox) -> std::result::Result<Next, ErrorKind> {
        if input.ended {
            return if self.seen == 0 { Ok(Next::Close) } else { Err(ErrorKind::Truncated) };
        }
        if std::mem::take(&mut self.after_request) && input.bytes().first() == Some(&b'\n') {
            input.take(1);
        }
        let part = input.bytes().len().min(REQUEST.len() - self.seen);
        if input.bytes()[..part] != REQUEST[self.seen..][..part] {
            input.take(input.bytes().len());
            say(UNSUPPORTED.to_vec(), outbox);
            return Err(ErrorKind::BadRequest);
        }
        input.take(part);
        self.seen += part;
        if self.seen < REQUEST.len() {
            return Ok(Next::Receive(Want::ANYTHING));
        }
        (self.seen, self.after_request) = (0, true);
        let TopProcesses { proc, long, spin, wait, then } = self.service.clone();
        let work = move |outbox: &mut Outbox| {
            spin.burn();
            if !wait.is_zero() {
                std::thread::sleep(wait);
            }
            let top = top_two(&proc).map_err(|error| ErrorKind::of(&error))?;
            say(reply(&top, long), outbox);
            Ok(())
        };
        Ok(Next::Work(Box::new(work), then))
    }
}

fn say(text: Vec<u8>, outbox: &mut Outbox) {
    let length = text.len();
    outbox.push(Piece::Bytes(text.into(), 0..length));
    outbox.end_message();
}

fn reply(top: &[Process; 2], long: bool) -> Vec<u8> {
    let mut text = Vec::new();
    for (number, process) in (1..).zip(top) {
        text.extend(format!("Process {number}: PID={}, Name=", process.id).bytes());
        text.extend_from_slice(&process.name);
        if long {
            text.extend(format!(", User Time={}, Kernel Time={}", process.user, process.kernel).bytes());
        }
        text.extend(format!(", CPU Time={}\n", process.total()).bytes());
    }
    text
}

fn client(settings: &Settings) -> Result<Box<dyn Client>> {
    Ok(Box::new(TopProcessesClient {
        request: REQUEST.into(),
        long: settings.word(FORM.name) == "long",
        reply: Vec::new(),
        // The reply does not show whether the server closes after it.
        complete: if settings.word(CLOSES.name) == "client" { Answer::Complete } else { Answer::Last },
    }))
}

#[derive(Clone)]
struct TopProcessesClient {
    request: Arc<[u8]>,
    long: bool,
    reply: Vec<u8>,
    complete: Answer,
}

/// Maximum length of a reply: two names of at most 64 bytes, a few numbers and words.
const LONGEST_REPLY: usize = 1024;

impl Client for TopProcessesClient {
    fn open(&self) -> Box<dyn Conversation> {
        Box::new(self.clone())
    }
}

impl Conversation for TopProcessesClient {
    fn ask(&mut self, outbox: &mut Outbox) -> Want {
        self.reply.clear();
        outbox.push(Piece::Bytes(Arc::clone(&self.request), 0..self.request.len()));
        outbox.end_message();
        Want::ANYTHING
    }

    fn kept_by(&self) -> Option<&'static str> {
        Some("--closes client")
    }

    fn receive(&mut self, input: &mut Input<'_>) -> std::result::Result<Answer, String> {
        self.reply.extend_from_slice(input.bytes());
        input.take(input.bytes().len());
        let seen = || String::from_utf8_lossy(&self.reply[..self.reply.len().min(200)]).into_owned();
        if input.ended {
            return Err(format!("the reply ended after {} bytes: {:?}", self.reply.len(), seen()));
        }
        match totals(&self.reply, self.long) {
            Some([first, second]) if first.total < second.total => {
                Err(format!("process 1 has {} ticks, but process 2 has more: {}", first.total, second.total))
            }
            Some(both) => match both.iter().find(|ticks| ticks.parts != ticks.total) {
                Some(wrong) => {
                    Err(format!("{} ticks in both modes are reported as a total of {}", wrong.parts, wrong.total))
                }
                None => Ok(self.complete),
            },
            None if !begins_well(&self.reply) || self.reply.len() > LONGEST_REPLY => {
                Err(format!("the reply does not name two processes in the {} form: {:?}", self.form(), seen()))
            }
            None => Ok(Answer::Receive(Want::ANYTHING)),
        }
    }
}

impl TopProcessesClient {
    fn form(&self) -> &'static str {
        if self.long { "long" } else { "short" }
    }
}

const FIRST: &[u8] = b"Process 1: PID=";
const SECOND: &[u8] = b"Process 2: PID=";

fn begins_well(reply: &[u8]) -> bool {
    let length = reply.len().min(FIRST.len());
    reply[..length] == FIRST[..length]
}

/// The ticks of a process in a line of a reply.
struct Ticks {
    total: u64,
    /// Ticks in user and in kernel mode; the total in the short form.
    parts: u64,
}

/// Parses the ticks of both processes from a complete reply; names may contain anything, even newlines.
fn totals(reply: &[u8], long: bool) -> Option<[Ticks; 2]> {
    let lines = reply.strip_suffix(b"\n")?;
    let (first, second) = split_at_last(lines, &[b"\n", SECOND].concat())?;
    Some([ticks(first.strip_prefix(FIRST)?, long)?, ticks(second, long)?])
}

/// Parses the ticks of a line without its beginning: `1, Name=init, CPU Time=12`.
fn ticks(line: &[u8], long: bool) -> Option<Ticks> {
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u64>().ok();
    let comma = line.iter().position(|&byte| byte == b',')?;
    number(&line[..comma])?;
    let (rest, total) = split_at_last(line[comma..].strip_prefix(b", Name=")?, b", CPU Time=")?;
    let total = number(total)?;
    if !long {
        return Some(Ticks { total, parts: total });
    }
    let (rest, kernel) = split_at_last(rest, b", Kernel Time=")?;
    let (_, user) = split_at_last(rest, b", User Time=")?;
    Some(Ticks { total, parts: number(user)?.saturating_add(number(kernel)?) })
}

fn split_at_last<'a>(text: &'a [u8], separator: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let place = text.windows(separator.len()).rposition(|window| window == separator)?;
    Some((&text[..place], &text[place + separator.len()..]))
}

#[cfg(test)]
mod tests;
