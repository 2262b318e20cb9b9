//! Values in replies that depend on more than the request: what their workload promises of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::conform::case::Case;
use crate::conform::connection::Connection;
use crate::conform::processes::Processes;
use crate::conform::protocol::{BLAST, BUCKET, Exchange, Protocol, TOP_PROCESSES, added, iterations};
use crate::conform::subject::{PROC, Subject};
use crate::conform::verdict::{Fault, Verdict};

/// Cases of values.
pub const CASES: &[Case] = &[
    Case {
        number: 49,
        name: "values of buckets",
        rule: "A delay is added to its bucket once and to no other, also if several come at once; the reply is the bucket's value",
        source: "",
        applies: |protocol| is(protocol, &BUCKET),
        needed_by: None,
        run: buckets,
    },
    Case {
        number: 50,
        name: "number of reads",
        rule: "The reply comes after the last byte, and is at least the number of iterations that came apart, and no more than there was time for",
        source: "",
        applies: |protocol| is(protocol, &BLAST),
        needed_by: None,
        run: reads,
    },
    Case {
        number: 51,
        name: "processes with the most CPU time",
        rule: "The two processes exist, have these ticks, the first at least as many as the second, and no other process has more",
        source: "",
        applies: |protocol| is(protocol, &TOP_PROCESSES),
        needed_by: None,
        run: top_two,
    },
];

fn is(protocol: &Protocol, other: &Protocol) -> bool {
    protocol.name == other.name
}

/// Clients that add 1 to a bucket at the same time.
const ADDERS: u64 = 3;

/// Time of a delay of 1, unless the server has another unit.
const DELAY: Duration = Duration::from_secs(1);

fn buckets(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let (bucket, other) = (subject.chance.below(16), 16 + subject.chance.below(16));
    let before = value(subject, bucket)?;
    let Some(all) = before.checked_add(ADDERS) else {
        return Err(Fault::new(format!("a bucket to which {ADDERS} can be added"), before.to_string()));
    };
    let untouched = value(subject, other)?;
    let exchange = added(1, bucket);
    let mut clients = Vec::new();
    for _ in 0..ADDERS {
        let mut client = subject.connect()?;
        client.send(&exchange.request)?;
        clients.push(client);
    }
    let longest = subject.patience + DELAY * ADDERS as u32;
    let mut values = Vec::new();
    // A server that serves one connection to its end waits for that before it serves the next.
    for mut client in clients {
        values.push(received(&mut client, &exchange, longest)?);
    }
    values.sort_unstable();
    let after = value(subject, bucket)?;
    let right: Vec<u64> = (1..=ADDERS).map(|each| before + each).collect();
    // A server may read the value for its reply after another client's delay was added.
    let is_right = values.iter().zip(&right).all(|(value, least)| (*least..=all).contains(value));
    if !is_right || after != all {
        return Err(Fault::new(
            format!("the values {right:?} of bucket {bucket} after {before}, and then {all}"),
            format!("{values:?}, and then {after}"),
        ));
    }
    match value(subject, other)? {
        value if value == untouched => Ok(Verdict::Passed),
        value => Err(Fault::new(format!("bucket {other} with {untouched}, as before"), value.to_string())),
    }
}

/// Returns the value of a bucket, to which nothing is added.
fn value(subject: &mut Subject<'_>, bucket: usize) -> Result<u64, Fault> {
    let exchange = added(0, bucket);
    let mut client = subject.connect()?;
    client.send(&exchange.request)?;
    received(&mut client, &exchange, subject.patience)
}

/// Receives a reply that is a number.
fn received(client: &mut Connection, exchange: &Exchange, longest: Duration) -> Result<u64, Fault> {
    let reply = match client.reply_within(exchange, longest)? {
        Some(reply) => reply,
        None => client.reply(exchange)?,
    };
    number_in(&reply)
}

/// Parses a reply that is a number.
pub fn number_in(reply: &[u8]) -> Result<u64, Fault> {
    let text = String::from_utf8_lossy(reply);
    text.trim_end().parse().map_err(|_| Fault::new("a number of 64 bits", format!("{text:?}")))
}

/// Iterations that come apart, and the bytes of each.
const ITERATIONS: (usize, usize) = (4, 1500);

/// Time that any system call takes.
const LEAST_CALL: Duration = Duration::from_nanos(10);

/// Wait for a reply that comes too early.
const TOO_EARLY: Duration = Duration::from_millis(100);

fn reads(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let exchange = iterations(ITERATIONS.0);
    let (request, last) = exchange.request.split_at(exchange.request.len() - 1);
    let (count, payload) = request.split_at(request.len() + 1 - ITERATIONS.0 * ITERATIONS.1);
    let mut client = subject.connect()?;
    let began = Instant::now();
    client.send(count)?;
    // A server that is on another machine may receive several pieces at once.
    let mut came_apart = client.await_taken();
    for iteration in payload.chunks(ITERATIONS.1) {
        client.send(iteration)?;
        came_apart &= client.await_taken();
    }
    if client.take(1, TOO_EARLY) {
        return Err(Fault::new("no reply before the last byte", "a reply or the end after all others"));
    }
    client.send(last)?;
    let least = if came_apart { ITERATIONS.0 as u64 } else { 1 };
    let reads = received(&mut client, &exchange, subject.patience)?;
    // Reads that return nothing, of a server that polls, take time.
    let most = (ITERATIONS.0 * ITERATIONS.1) as u64 + (began.elapsed().as_nanos() / LEAST_CALL.as_nanos()) as u64;
    if !(least..=most).contains(&reads) {
        return Err(Fault::new(format!("{least} to {most} reads"), reads.to_string()));
    }
    Ok(Verdict::Passed)
}

/// Ticks by which a process's time may differ: the kernel scales user and kernel time apart.
const ROUNDING: u64 = 2;

fn top_two(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let proc = subject.host.proc();
    if proc == Path::new(PROC)
        && let Err(reason) = sees_the_same(subject)
    {
        return Ok(Verdict::NotJudged(reason));
    }
    let exchange = subject.short();
    let before = ticks(&proc);
    let mut client = subject.connect()?;
    client.send(&exchange.request)?;
    let reply = client.reply(&exchange)?;
    let after = ticks(&proc);
    let Some(named) = processes(&reply) else {
        return Err(Fault::new("two lines, with process, name and CPU time", String::from_utf8_lossy(&reply)));
    };
    for (process, named_ticks) in named {
        let (least, most) = (before.get(&process), after.get(&process));
        if least.is_none() && most.is_none() {
            return Err(Fault::new("processes that exist", format!("PID={process}, which does not")));
        }
        let (least, most) = (least.map_or(0, |&least| least), most.map_or(u64::MAX, |&most| most));
        if !(least.saturating_sub(ROUNDING)..=most.saturating_add(ROUNDING)).contains(&named_ticks) {
            return Err(Fault::new(
                format!("{least} to {most} ticks of process {process}"),
                format!("CPU Time={named_ticks}"),
            ));
        }
    }
    let [(first, most), (second, least)] = named;
    if most < least || first == second {
        return Err(Fault::new(
            "another process second, with no more ticks than the first",
            format!("PID={first} with {most}, and then PID={second} with {least}"),
        ));
    }
    // Of the processes that lived all the time.
    let others = before.iter().filter(|(process, _)| after.contains_key(process) && ![first, second].contains(process));
    match others.max_by_key(|(_, ticks)| **ticks) {
        Some((other, ticks)) if *ticks > least.saturating_add(ROUNDING) => Err(Fault::new(
            format!("process {other}, with {ticks} ticks"),
            format!("PID={second}, with {least}, as the second one"),
        )),
        _ => Ok(Verdict::Passed),
    }
}

/// Whether the server sees the same processes as this one. The error is the reason why that is not known.
fn sees_the_same(subject: &Subject<'_>) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    let server = Processes::at(subject.address)?.list();
    let namespace = |process: &str| fs::read_link(format!("{PROC}/{process}/ns/pid")).ok();
    let owner = |process: &str| fs::metadata(format!("{PROC}/{process}")).ok().map(|found| found.uid());
    let own = std::process::id().to_string();
    let is_alike = |process: &str| {
        namespace(process).is_some() && namespace(process) == namespace(&own) && owner(process) == owner(&own)
    };
    match server.iter().all(|process| is_alike(&process.to_string())) {
        true => Ok(()),
        false => Err("the server may see other processes than this command".to_owned()),
    }
}

/// Returns the ticks of each process (proc_pid_stat(5)).
fn ticks(proc: &Path) -> BTreeMap<u64, u64> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let process = |entry: fs::DirEntry| {
        let process = entry.file_name().to_str()?.parse().ok()?;
        Some((process, ticks_in(&fs::read(entry.path().join("stat")).ok()?)?))
    };
    entries.filter_map(process).collect()
}

/// Returns the ticks of a process from its stat file.
pub fn ticks_in(stat: &[u8]) -> Option<u64> {
    // The name, in parentheses, may have any bytes. The field behind it is field 3.
    let name = stat.iter().rposition(|&byte| byte == b')')?;
    let text = String::from_utf8_lossy(&stat[name + 1..]);
    let mut fields = text.split_whitespace().skip(14 - 3);
    let mut next = || fields.next()?.parse::<u64>().ok();
    next()?.checked_add(next()?)
}

/// Returns both processes of a reply with their ticks.
pub fn processes(reply: &[u8]) -> Option<[(u64, u64); 2]> {
    let text = String::from_utf8_lossy(reply);
    let (first, second) = text.strip_suffix('\n')?.rsplit_once("\nProcess 2: PID=")?;
    let of_line = |line: &str| {
        let (process, rest) = line.split_once(',')?;
        Some((process.trim().parse().ok()?, rest.rsplit_once("CPU Time=")?.1.parse().ok()?))
    };
    Some([of_line(first.strip_prefix("Process 1: PID=")?)?, of_line(second)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_a_reply_are_read_whatever_their_names() {
        let reply = b"Process 1: PID=30, Name=) (x\ny, CPU Time=1000\nProcess 2: PID=2, Name=two, CPU Time=9\n";
        assert_eq!(processes(reply), Some([(30, 1000), (2, 9)]));
        assert_eq!(processes(b"Process 1: PID=30, Name=x, CPU Time=1\n"), None);
    }

    #[test]
    fn this_process_has_ticks() {
        assert!(ticks(Path::new(PROC)).contains_key(&std::process::id().into()));
    }
}
