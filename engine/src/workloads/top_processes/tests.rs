use std::collections::BTreeMap;

use super::*;
use crate::base::setting::Value;
use crate::sys::clock::thread_cpu_time;
use crate::transfer::inbox::Inbox;

fn settings(given: &[(&'static str, &str)]) -> Settings {
    let given = given
        .iter()
        .map(|&(name, word)| (name, word.parse().map_or(Value::Word(word.to_owned()), Value::Integer)))
        .collect();
    Settings::new([&CLOSES, &FORM, &PROC, &COMPUTE, &PAUSE], &given)
}

/// Gives a session the peer's bytes, cut into segments; returns the state of the connection and what was sent.
fn answers(given: &[(&'static str, &str)], waits: Waits, segments: &[&[u8]]) -> (String, Vec<u8>) {
    let service = service(&settings(given), waits).unwrap();
    let mut session = service.open();
    let (mut inbox, mut sent) = (Inbox::default(), Vec::new());
    for segment in segments {
        inbox.room(segment.len()).copy_from_slice(segment);
        inbox.filled(segment.len());
        while !inbox.unread().is_empty() {
            let mut outbox = Outbox::default();
            let result = match session.receive(&mut Input::new(&mut inbox, 1, 0, false), &mut outbox) {
                Ok(Next::Work(job, then)) => job(&mut outbox).map(|()| then),
                Ok(Next::Receive(want)) => Ok(Then::Receive(want)),
                Ok(_) => panic!("every request is work"),
                Err(kind) => Err(kind),
            };
            for piece in outbox.message() {
                let Piece::Bytes(bytes, range) = piece else { panic!("a reply comes from memory") };
                sent.extend_from_slice(&bytes[range.clone()]);
            }
            match result {
                Ok(Then::Receive(_)) => {}
                Ok(Then::Close) => return ("closed".to_owned(), sent),
                Err(kind) => return (kind.name().to_owned(), sent),
            }
        }
    }
    ("open".to_owned(), sent)
}

#[test]
fn a_wait_takes_time_and_no_cpu() {
    let (began, cpu) = (std::time::Instant::now(), thread_cpu_time());
    let (state, sent) = answers(&[("pause", "200000000")], Waits::InTheCall, &[REQUEST]);
    assert_eq!((state.as_str(), lines(&sent)), ("closed", 2));
    assert!(began.elapsed() >= Duration::from_millis(200));
    assert!(thread_cpu_time() - cpu < Duration::from_millis(200));
}

fn requests(count: usize) -> Vec<u8> {
    [REQUEST, b"\n"].concat().repeat(count)
}

/// Number of consecutive replies; their figures change all the time on a running machine.
fn lines(sent: &[u8]) -> usize {
    String::from_utf8_lossy(sent).matches(", CPU Time=").count()
}

#[test]
fn a_request_cut_anywhere_gets_the_same_reply() {
    let text = requests(2);
    for cut in 1..text.len() {
        let (state, sent) = answers(&[("closes", "client")], Waits::InTheCall, &[&text[..cut], &text[cut..]]);
        assert_eq!((state.as_str(), lines(&sent)), ("open", 4), "cut at {cut}");
    }
    let single: Vec<&[u8]> = text.chunks(1).collect();
    assert_eq!(lines(&answers(&[("closes", "client")], Waits::InTheCall, &single).1), 4);
}

#[test]
fn the_server_closes_as_configured() {
    let text = requests(2);
    let state = |closes, waits| {
        let (state, sent) = answers(&[("closes", closes)], waits, &[&text]);
        (state, lines(&sent))
    };
    let (closed, open) = (("closed".to_owned(), 2), ("open".to_owned(), 4));
    assert_eq!(state("by_design", Waits::InTheCall), closed);
    assert_eq!(state("by_design", Waits::ForReadiness), open);
    assert_eq!(state("by_design", Waits::ForCompletion), open);
    assert_eq!(state("server", Waits::ForReadiness), closed);
    assert_eq!(state("client", Waits::InTheCall), open);
}

#[test]
fn anything_else_is_answered_as_soon_as_that_is_known() {
    for wrong in [&b"x"[..], b"Requesting top 3", b"Requesting top 2 processez", b"\n", &[0; 4096]] {
        let refused = ("bad_request".to_owned(), UNSUPPORTED.to_vec());
        assert_eq!(answers(&[], Waits::InTheCall, &[wrong]), refused, "{wrong:?}");
        assert_eq!(answers(&[], Waits::InTheCall, &wrong.chunks(1).collect::<Vec<_>>()), refused, "{wrong:?}");
    }
    assert_eq!(answers(&[], Waits::InTheCall, &[b"Requesting top 2"]), ("open".to_owned(), Vec::new()));
    // A newline after the request is tolerated; a second one is an error.
    let text = [REQUEST, b"\n\n"].concat();
    let (state, sent) = answers(&[("closes", "client")], Waits::InTheCall, &[&text]);
    assert_eq!((state.as_str(), lines(&sent), sent.ends_with(UNSUPPORTED)), ("bad_request", 2, true));
}

#[test]
fn a_folder_without_processes_is_refused() {
    // Entries with numeric names are not enough. Under fd they would be folders while another test has one open, and
    // such a folder may be a proc file system.
    for proc in ["/proc/nothing", "/proc/self/fdinfo"] {
        let error = service(&settings(&[("proc", proc)]), Waits::InTheCall).err().unwrap();
        assert!(error.is::<crate::base::mistake::Mistake>() && error.to_string().contains("--proc"), "{error:#}");
    }
}

proptest::proptest! {
    #[test]
    fn no_input_makes_a_session_panic(
        right in 0usize..2,
        segments in proptest::collection::vec(proptest::collection::vec(proptest::num::u8::ANY, 1..100), 0..5),
    ) {
        let text = [requests(right), segments.concat()].concat();
        let chunks: Vec<&[u8]> = text.chunks(7).collect();
        answers(&[("closes", "client")], Waits::InTheCall, &chunks);
    }

    #[test]
    fn no_reply_makes_a_conversation_panic(text in "(Process [12]: PID=)?[0-9,= A-Za-z\n]{0,80}", long in proptest::bool::ANY) {
        let _ = totals(text.as_bytes(), long);
        let _ = judge(if long { "long" } else { "short" }, &[text.as_bytes()]);
    }
}

/// Gives a conversation a reply, cut into segments.
fn judge(form: &str, segments: &[&[u8]]) -> std::result::Result<Answer, String> {
    let given = BTreeMap::from([("form", Value::Word(form.to_owned()))]);
    let mut conversation = client(&Settings::new([&FORM, &CLOSES], &given)).unwrap().open();
    let mut answer = Answer::Receive(conversation.ask(&mut Outbox::default()));
    let mut inbox = Inbox::default();
    for segment in segments {
        inbox.room(segment.len()).copy_from_slice(segment);
        inbox.filled(segment.len());
        answer = conversation.receive(&mut Input::new(&mut inbox, 1, 0, false))?;
    }
    Ok(answer)
}

fn process(id: u64, name: &str, user: u64, kernel: u64) -> Process {
    Process { id, name: name.into(), user, kernel }
}

#[test]
fn both_ends_agree_on_both_forms_under_any_name() {
    for name in ["init", "", ") (x\ny", ", CPU Time=1\nPro", "\nProcess 2: PI", ", Name=", ", User Time=9"] {
        let top = [process(1, name, 40, 2), process(u64::MAX, name, 0, 42)];
        for (form, long) in [("short", false), ("long", true)] {
            let text = reply(&top, long);
            assert_eq!(judge(form, &[&text]), Ok(Answer::Last), "{name:?}");
            assert_eq!(judge(form, &[&text[..text.len() - 1]]), Ok(Answer::Receive(Want::ANYTHING)), "{name:?}");
        }
    }
    let text = reply(&[process(1, "init", 40, 2), process(2, "sh", 0, 41)], true);
    assert_eq!(
        String::from_utf8_lossy(&text),
        "Process 1: PID=1, Name=init, User Time=40, Kernel Time=2, CPU Time=42\n\
         Process 2: PID=2, Name=sh, User Time=0, Kernel Time=41, CPU Time=41\n"
    );
    for cut in 1..text.len() {
        assert_eq!(judge("long", &[&text[..cut], &text[cut..]]), Ok(Answer::Last), "cut at {cut}");
    }
}

#[test]
fn a_wrong_reply_is_seen() {
    let wrong_order = reply(&[process(1, "a", 1, 0), process(2, "b", 2, 0)], false);
    assert!(judge("short", &[&wrong_order]).unwrap_err().contains("process 2 has more"));
    assert!(judge("short", &[UNSUPPORTED]).unwrap_err().contains("Unsupported request"));
    assert!(judge("short", &[&b"Process 1: PID=1, Name=".repeat(100)]).is_err());
    let wrong_sum = b"Process 1: PID=1, Name=a, User Time=1, Kernel Time=1, CPU Time=3\n\
                      Process 2: PID=2, Name=a, User Time=1, Kernel Time=1, CPU Time=2\n";
    assert!(judge("long", &[wrong_sum]).unwrap_err().contains("2 ticks in both modes are reported as a total of 3"));
    assert_eq!(judge("short", &[wrong_sum]), Ok(Answer::Last));
}
