use std::collections::BTreeMap;

use super::*;
use crate::base::setting::Value;
use crate::sys::clock::thread_cpu_time;
use crate::transfer::inbox::Inbox;

fn new(given: &[(&'static str, Value)]) -> Box<dyn Service> {
    let mut all = BTreeMap::from([("unit", Value::Integer(1000)), ("keep_connections", Value::Boolean(true))]);
    all.extend(given.iter().cloned());
    service(&Settings::new(ENTRY.service_settings, &all), Waits::InTheCall).unwrap()
}

/// Gives a session the peer's bytes, cut into segments; returns what was sent back, or the error.
fn answers(service: &dyn Service, segments: &[&[u8]]) -> std::result::Result<String, ErrorKind> {
    let mut session = service.open();
    let (mut inbox, mut sent) = (Inbox::default(), String::new());
    for segment in segments {
        inbox.room(segment.len()).copy_from_slice(segment);
        inbox.filled(segment.len());
        while !inbox.unread().is_empty() {
            let mut outbox = Outbox::default();
            let next = session.receive(&mut Input::new(&mut inbox, 1, 0, false), &mut outbox)?;
            let Next::Work(job, then) = next else { continue };
            job(&mut outbox)?;
            let Some(Piece::Bytes(bytes, range)) = outbox.front() else { panic!("a reply comes from memory") };
            sent += std::str::from_utf8(&bytes[range.clone()]).unwrap();
            if then == Then::Close {
                return Ok(sent);
            }
        }
    }
    Ok(sent)
}

#[test]
fn a_request_cut_anywhere_gets_the_same_reply() {
    let text = b"3,0\n2,31\r\n0,31\n1000,0\n";
    for cut in 0..text.len() {
        let service = new(&[]);
        assert_eq!(
            answers(service.as_ref(), &[&text[..cut], &text[cut..]]).unwrap(),
            "3\n2\n2\n1003\n",
            "cut at {cut}"
        );
        assert_eq!(service.account(), Ok(Account::from([("delay_sum", 1005)])));
    }
    let service = new(&[]);
    assert_eq!(answers(service.as_ref(), &text.chunks(1).collect::<Vec<_>>()).unwrap(), "3\n2\n2\n1003\n");
}

#[test]
fn the_homeworks_server_closes_after_a_reply() {
    let service = new(&[("keep_connections", Value::Boolean(false))]);
    assert_eq!(answers(service.as_ref(), &[b"3,0\n2,31\n"]).unwrap(), "3\n");
}

#[test]
fn an_invalid_delay_or_bucket_is_refused() {
    let service = new(&[]);
    let wrong = ["", "1", ",", "1,", ",1", "1,32", "1001,0", "-1,0", "+1,0", "1,0,0", " 1,0", "1 ,0", "a,b", "1.5,0"];
    for line in wrong.map(str::to_owned).into_iter().chain(["9".repeat(25) + ",1", "1,".to_owned() + &"9".repeat(25)]) {
        let answer = answers(service.as_ref(), &[format!("{line}\n").as_bytes()]);
        assert_eq!(answer, Err(ErrorKind::BadRequest), "{line:?}");
    }
    assert_eq!(answers(service.as_ref(), &[&[b'1'; LONGEST_LINE + 1]]), Err(ErrorKind::BadRequest));
    assert_eq!(answers(service.as_ref(), &[b"\xff,1\n"]), Err(ErrorKind::BadRequest));
    assert_eq!(service.account(), Ok(Account::from([("delay_sum", 0)])));
}

#[test]
fn the_clock_or_the_work_decides_how_long_it_takes() {
    let begun = Instant::now();
    Busy::WallClock(Duration::from_millis(10)).be_for(3);
    assert!(begun.elapsed() >= Duration::from_millis(30));
    // The arithmetic is not optimised away: a thousand times the work takes a visible amount of CPU time.
    let used = |iterations| {
        let before = thread_cpu_time();
        Busy::FixedWork(iterations).be_for(2);
        thread_cpu_time() - before
    };
    assert!(used(2_000_000) > used(2000));
    Busy::FixedWork(u64::MAX).be_for(0);
}

proptest::proptest! {
    #[test]
    fn no_input_makes_a_session_panic(
        lines in proptest::collection::vec("[0-9,\r\n]{0,12}", 0..5),
        segments in proptest::collection::vec(proptest::collection::vec(proptest::num::u8::ANY, 1..100), 0..5),
    ) {
        let text = [lines.concat().into_bytes(), segments.concat()].concat();
        let _ = answers(new(&[]).as_ref(), &text.chunks(7).collect::<Vec<_>>());
    }
}

#[test]
fn a_server_has_to_take_the_longest_delay_and_the_last_bucket() {
    let given = BTreeMap::from([("delay_minimum", Value::Integer(5)), ("delay_maximum", Value::Integer(7))]);
    let settings = Settings::new(ENTRY.client_settings, &given);
    assert_eq!(ENTRY.needed(&settings, None), ["--buckets 32 or more", "--delay-limit 7 or more"]);
}
