//! Fuzz targets for the parsers of sockets and files. A fault is a panic, or an end that makes no progress.
//!
//! `tests/engine/fuzzed.rs` runs each target on the kept corpus and on random bytes; `make fuzz` lets cargo-fuzz search.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, PoisonError};

use thunderherd_engine::base::setting::{FILE_PREFIX, Form, Kind, Setting, Settings, Value};
use thunderherd_engine::base::window::Window;
use thunderherd_engine::conform::chance::Chance;
use thunderherd_engine::conform::http::reply;
use thunderherd_engine::conform::protocol::{PROTOCOLS, Progress};
use thunderherd_engine::conform::values;
use thunderherd_engine::protocol::workload::{Answer, Input, More, Next, Service, Then, Workload};
use thunderherd_engine::requests::recording::{self, RecordedGaps};
use thunderherd_engine::runs::serve::own_counts;
use thunderherd_engine::stacks::flame_graph;
use thunderherd_engine::sys::descriptor;
use thunderherd_engine::transfer::inbox::Inbox;
use thunderherd_engine::transfer::outbox::Outbox;
use thunderherd_engine::transfer::primitive::{Waits, Want};
use thunderherd_engine::workloads::WORKLOADS;

mod kernel;

/// A target: takes any bytes.
pub type Target = fn(&[u8]);

/// All targets by name, which is that of the corpus's folder.
pub const TARGETS: &[(&str, Target)] = &[
    ("sessions", sessions),
    ("conversations", conversations),
    ("replies", replies),
    ("verdicts", verdicts),
    ("counts", counts),
    ("settings", settings),
    ("csv", csv),
    ("stacks", stacks),
    ("kernel", kernel::kernel),
];

/// Runs the target of that name.
pub fn run(name: &str, data: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(other, _)| *other == name).expect("a target");
    target(data);
}

/// Parts of the input after which an end must have come: it has no more.
const MOST_TURNS: usize = 10_000;

/// Bytes of a reply that are read: the rest of a long one adds nothing.
const MOST_SENT: u64 = 1 << 20;

/// Takes a number from the front; 0 at the end.
fn number(data: &mut &[u8]) -> usize {
    let Some((&first, rest)) = data.split_first() else { return 0 };
    *data = rest;
    usize::from(first)
}

/// A workload, and its settings with the switches that the input turns on.
fn chosen(data: &mut &[u8], declared: fn(&Workload) -> &'static [Setting]) -> (&'static Workload, Settings) {
    let workload = WORKLOADS[number(data) % WORKLOADS.len()].item;
    let switches = number(data);
    let given: BTreeMap<&str, Value> = declared(workload)
        .iter()
        .enumerate()
        .filter(|(place, setting)| matches!(setting.kind, Kind::Boolean { .. }) && switches >> (place % 8) & 1 == 1)
        .map(|(_, setting)| (setting.name, Value::Boolean(true)))
        .collect();
    (workload, Settings::new(declared(workload), &given))
}

/// Puts the next part of the input into an inbox: of the size that its first byte says, and that the end wants. Returns
/// whether there was one.
fn arrive(data: &mut &[u8], inbox: &mut Inbox, want: Want) -> bool {
    let most = (1 + number(data) * number(data)).min(want.most()).min(data.len());
    let (part, rest) = data.split_at(most);
    *data = rest;
    inbox.room(part.len().max(1))[..part.len()].copy_from_slice(part);
    inbox.filled(part.len());
    !part.is_empty()
}

/// Empties an outbox, as a socket does.
fn send(outbox: &mut Outbox, sent: &mut u64) {
    while let Some(piece) = outbox.front() {
        let bytes = piece.length();
        *sent += bytes;
        outbox.sent(bytes);
    }
}

/// Server sides that were made: some prepare a file.
static SERVICES: Mutex<BTreeMap<String, Box<dyn Service>>> = Mutex::new(BTreeMap::new());

/// The server side of each workload, with any requests in any parts.
fn sessions(mut data: &[u8]) {
    let (workload, settings) = chosen(&mut data, |workload| workload.service_settings);
    let mut services = SERVICES.lock().unwrap_or_else(PoisonError::into_inner);
    let service = services.entry(format!("{} {settings:?}", workload.about.summary)).or_insert_with(|| {
        let made = (workload.service)(&settings, Waits::InTheCall).expect("the settings are allowed");
        made.prepare().expect("it has room");
        made
    });
    let (mut session, mut inbox, mut outbox) = (service.open(), Inbox::default(), Outbox::default());
    let (mut want, mut sent) = (session.first(), 0);
    for _ in 0..MOST_TURNS {
        assert!(want.most() > 0, "it wants nothing, and would wait for ever");
        let came = !inbox.unread().is_empty() || arrive(&mut data, &mut inbox, want);
        let unread = inbox.unread().len();
        let mut input = Input::new(&mut inbox, 1, 0, !came);
        let next = session.receive(&mut input, &mut outbox);
        assert!(input.bytes().len() <= unread);
        send(&mut outbox, &mut sent);
        let then = match next {
            Err(_) | Ok(Next::Close) => return,
            Ok(Next::Receive(want)) => Then::Receive(want),
            Ok(Next::Answered(then)) => then,
            Ok(Next::Begun(then)) => {
                while sent < MOST_SENT && session.more(&mut outbox) == More::Part {
                    send(&mut outbox, &mut sent);
                }
                then
            }
            Ok(Next::Work(_, then)) => then,
        };
        match then {
            Then::Receive(next) if came && sent < MOST_SENT => want = next,
            _ => return,
        }
    }
    panic!("it makes no progress");
}

/// The client side of each workload, with any replies in any parts.
fn conversations(mut data: &[u8]) {
    let (workload, settings) = chosen(&mut data, |workload| workload.client_settings);
    let Ok(client) = (workload.client)(&settings) else { return };
    let (mut conversation, mut inbox, mut outbox) = (client.open(), Inbox::default(), Outbox::default());
    let window = Window::whole_life();
    let mut sent = 0;
    let mut want = conversation.ask(&mut outbox);
    for _ in 0..MOST_TURNS {
        send(&mut outbox, &mut sent);
        while sent < MOST_SENT && conversation.more(&mut outbox, &window) == More::Part {
            send(&mut outbox, &mut sent);
        }
        assert!(want.most() > 0, "it wants nothing, and would wait for ever");
        let came = !inbox.unread().is_empty() || arrive(&mut data, &mut inbox, want);
        let mut input = Input::new(&mut inbox, 1, 0, !came);
        match conversation.receive(&mut input) {
            Err(_) | Ok(Answer::Last | Answer::Surplus { .. }) => return,
            Ok(Answer::Receive(_) | Answer::Continue(_) | Answer::Complete) if !came => return,
            Ok(Answer::Receive(next) | Answer::Continue(next)) => want = next,
            Ok(Answer::Complete) if sent >= MOST_SENT => return,
            Ok(Answer::Complete) => {
                conversation.counts();
                want = conversation.ask(&mut outbox);
            }
        }
    }
    panic!("it makes no progress");
}

/// Replies of HTTP as the cases of conformance read them, to HEAD and other requests, at the end of a connection and before.
fn replies(mut data: &[u8]) {
    let switches = number(&mut data);
    let (head_only, ended) = (switches & 1 == 1, switches & 2 == 2);
    if let Ok(Some(reply)) = reply::read(data, head_only, ended) {
        assert!(reply.length <= data.len() && reply.body.len() <= reply.length);
        // The bytes after a reply are not part of it, unless its body lasts until the end.
        let alone =
            reply::read(&data[..reply.length], head_only, ended).expect("it was a reply").expect("it was complete");
        assert_eq!((alone.length, alone.body), (reply.length, reply.body));
    }
    reply::is_last(data);
}

/// Replies of every workload as the cases of conformance judge them: their first bytes, and all of them.
fn verdicts(mut data: &[u8]) {
    let protocol = &PROTOCOLS[number(&mut data) % PROTOCOLS.len()];
    let (which, cut) = (number(&mut data), number(&mut data));
    let mut chance = Chance::new(1, 1);
    let exchange =
        if which == 255 { (protocol.short)("/", &mut chance) } else { (protocol.exchange)("/", which, &mut chance) };
    let whole = exchange.reply.judge(data, false);
    if let Progress::Complete(length) = whole {
        assert!(length <= data.len());
        // A server may send its reply in any parts, and each is judged when it comes.
        let part = exchange.reply.judge(&data[..cut.min(length)], false);
        assert!(!matches!(part, Progress::Wrong(_)), "{}: {part:?}, and then {whole:?}", protocol.name);
    }
    exchange.reply.judge(data, true);
    let _ = values::number_in(data);
    values::processes(data);
    (protocol.is_last)(data);
}

/// The lines in which a server that is not ours reports its counts.
fn counts(data: &[u8]) {
    match own_counts::last_line(data) {
        Ok(counts) => assert!(counts.is_none_or(|counts| counts.contains_key("requests"))),
        // It is printed, and a terminal would obey its escape sequences.
        Err(fault) => assert!(fault.len() < 1000 && !fault.contains(char::is_control)),
    }
}

/// The texts of settings, as typed: sizes, mixes, headers, paths.
fn settings(mut data: &[u8]) {
    let workload = WORKLOADS[number(&mut data) % WORKLOADS.len()].item;
    let Ok(text) = std::str::from_utf8(data) else { return };
    for setting in workload.client_settings {
        let Kind::Text { form, .. } = setting.kind else { continue };
        // Such a text names a file, which is another target.
        if form == Form::File || form == Form::Sizes && text.starts_with(FILE_PREFIX) {
            continue;
        }
        let Ok(value) = setting.parse(text) else { continue };
        let given = BTreeMap::from([(setting.name, value)]);
        let made = (workload.client)(&Settings::new(workload.client_settings, &given));
        if let Ok(client) = made {
            client.open().ask(&mut Outbox::default());
        }
    }
}

/// A file in memory, and its path.
fn file_with(data: &[u8]) -> (File, String) {
    let mut file = File::from(descriptor::memory_file(c"fuzzed").expect("a file in memory"));
    file.write_all(data).expect("memory");
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    (file, path)
}

/// Files with requests: sizes, and recorded traffic.
fn csv(data: &[u8]) {
    let (_file, path) = file_with(data);
    let _ = recording::sizes("sizes", &path, 1..=1 << 30);
    let _ = RecordedGaps::read("recording", &path);
}

/// Files of folded stacks: one, or after a zero byte another to compare it with.
fn stacks(data: &[u8]) {
    let mut files = data.splitn(2, |&byte| byte == 0).map(file_with);
    let (_stacks, path) = files.next().expect("one of no bytes, at least");
    let before = files.next();
    let (_output, output) = file_with(b"");
    let plan = flame_graph::Plan {
        stacks: path.into(),
        before: before.as_ref().map(|(_, path)| path.into()),
        output: output.into(),
        title: "fuzzed".to_owned(),
        subtitle: None,
        unit: "samples".to_owned(),
        minimum_width: 0.0,
    };
    let _ = flame_graph::draw(&plan);
}
