//! Runs the cases of a workload against a server, which it knows by its address only.

use std::io::BufRead;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::base::mistake::mistake_with_hint;
use crate::base::output::say;
use crate::base::setting::{A_NUMBER_OF_64_BITS, Form, Kind, Setting, Settings};
use crate::base::unit::{MILLISECOND, MINUTE, SECOND, Unit};
use crate::conform::case::{Case, STOPS};
use crate::conform::protocol::{HTTP_OF_ANY_STATUS, PROTOCOLS, Protocol, find};
use crate::conform::subject::{Host, Subject};
use crate::conform::verdict::{Fault, Verdict};
use crate::conform::{all, of};
use crate::lines::conform::{ConformCase, ConformStop, ConformVerdict, Conformed};
use crate::lines::{Line, SCHEMA};
use crate::net::address::Address;
use crate::sys::process;

const SEED: Setting = Setting {
    name: "seed",
    help: "Seed of random inputs",
    unit: Unit::None,
    kind: Kind::Integer { minimum: 0, maximum: u64::MAX, default: 1 },
    for_more: Some(A_NUMBER_OF_64_BITS),
};

const TIMEOUT: Setting = Setting {
    name: "timeout",
    help: "Time without progress after which the server has failed",
    unit: Unit::Time { resolution: MILLISECOND },
    kind: Kind::Integer { minimum: 10 * MILLISECOND, maximum: 10 * MINUTE, default: 5 * SECOND },
    for_more: None,
};

const PATH: Setting = Setting {
    name: "path",
    help: "Path of a resource that the server has, for a workload with paths",
    unit: Unit::None,
    kind: Kind::Text { longest: 1024, default: "/", form: Form::Plain },
    for_more: None,
};

/// Settings of the cases.
pub const SETTINGS: &[Setting] = &[SEED, TIMEOUT, PATH];

/// The server, and the cases to run against it.
pub struct Plan {
    /// Name of the workload.
    pub workload: String,
    /// Addresses of the server, of which the first one that is of TCP is used.
    pub target: Vec<Address>,
    /// Numbers of the cases; empty: all that the workload has.
    pub cases: Vec<u32>,
    /// Values of [`SETTINGS`].
    pub settings: Settings,
    /// Whether the reader of the output can stop the server.
    pub control: bool,
    /// Whether to end after the first case that failed.
    pub until_failure: bool,
    /// Whether cases that may choose a request send only the plainest one.
    pub plain: bool,
    /// Whether a reply of HTTP is right with any status but 400 and those of class 5.
    pub any_status: bool,
    /// Whether to print lines for programs.
    pub json: bool,
}

/// Prints all cases.
pub fn list(json: bool) -> Result<()> {
    for case in all() {
        let having = PROTOCOLS.iter().filter(|protocol| (case.applies)(protocol));
        let line = ConformCase {
            schema: SCHEMA,
            number: case.number,
            name: case.name,
            rule: case.rule,
            source: source(case),
            workloads: having.map(|protocol| protocol.name).collect(),
            needed_by: case.needed_by,
        };
        match json {
            true => say_line(&Line::ConformCase(line))?,
            false => say(&format!("{:>3}  {}: {}\n", case.number, case.name, case.rule))?,
        }
    }
    Ok(())
}

/// Runs the cases, and prints the verdict of each. Returns the number of cases that failed.
pub fn run(plan: &Plan) -> Result<usize> {
    let known = find(&plan.workload).ok_or_else(|| {
        mistake_with_hint(
            "conform.no_cases",
            format!("workload {} has no cases", plan.workload),
            "engine/src/conform/protocol.rs says what its clients send",
        )
    })?;
    let protocol = if known.is_http && plan.any_status { &HTTP_OF_ANY_STATUS } else { known };
    let cases = chosen(plan, protocol)?;
    let address = address(plan)?;
    process::raise_descriptor_limit().context("the limit on descriptors cannot be raised")?;
    let mut reader = Reader { can_stop: plan.control };
    let mut subject = Subject::new(address, protocol, &mut reader);
    subject.seed = plan.settings.integer(SEED.name);
    subject.patience = plan.settings.time(TIMEOUT.name);
    subject.path = plan.settings.word(PATH.name).to_owned();
    subject.plain = plan.plain;
    let mut failed = 0;
    for case in cases {
        let began = Instant::now();
        let judged = case.judge(&mut subject);
        let line = conformed(case, judged, subject.last_request.in_words(), began.elapsed());
        failed += usize::from(line.verdict == ConformVerdict::Failed);
        let has_failed = line.verdict == ConformVerdict::Failed;
        match plan.json {
            true => say_line(&Line::Conformed(line))?,
            false => say(&in_words(&line))?,
        }
        if has_failed && plan.until_failure {
            break;
        }
    }
    Ok(failed)
}

fn chosen(plan: &Plan, protocol: &Protocol) -> Result<Vec<&'static Case>> {
    let mut cases = of(protocol);
    let mut numbers: Vec<u32> = cases.iter().map(|case| case.number).collect();
    numbers.sort_unstable();
    if let Some(unknown) = plan.cases.iter().find(|number| !numbers.contains(number)) {
        let known = numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let message = format!("workload {} has no case {unknown}", protocol.name);
        return Err(mistake_with_hint("conform.unknown_case", message, format!("its cases: {known}")));
    }
    cases.retain(|case| plan.cases.is_empty() || plan.cases.contains(&case.number));
    Ok(cases)
}

fn address(plan: &Plan) -> Result<SocketAddr> {
    let tcp = |address: &Address| match address {
        Address::Tcp(address) => Some(*address),
        Address::Unix(_) | Address::UnixPath(_) => None,
    };
    plan.target.iter().find_map(tcp).ok_or_else(|| {
        mistake_with_hint("conform.needs_tcp", "the cases reach a server by TCP only", "give --connect HOST:PORT")
    })
}

fn source(case: &Case) -> Option<&'static str> {
    Some(case.source).filter(|source| !source.is_empty())
}

fn conformed(case: &Case, judged: Result<Verdict, Fault>, request: Option<String>, elapsed: Duration) -> Conformed {
    let request = request.filter(|_| judged.is_err());
    let (verdict, expected, actual) = match judged {
        Ok(Verdict::Passed) => (ConformVerdict::Passed, None, None),
        Ok(Verdict::Allowed(what)) => (ConformVerdict::Allowed, None, Some(what)),
        Ok(Verdict::NotJudged(reason)) => (ConformVerdict::NotJudged, None, Some(reason)),
        Ok(Verdict::Warned(fault)) => (ConformVerdict::Warned, Some(fault.expected), Some(fault.actual)),
        Err(fault) => (ConformVerdict::Failed, Some(fault.expected), Some(fault.actual)),
    };
    Conformed {
        schema: SCHEMA,
        number: case.number,
        name: case.name,
        rule: case.rule,
        source: source(case),
        verdict,
        expected,
        actual,
        request,
        elapsed_ns: elapsed.as_nanos() as u64,
    }
}

fn in_words(line: &Conformed) -> String {
    let verdict = match line.verdict {
        ConformVerdict::Passed => "passed",
        ConformVerdict::Allowed => "allowed",
        ConformVerdict::Warned => "warned",
        ConformVerdict::Failed => "FAILED",
        ConformVerdict::NotJudged => "not judged",
    };
    let mut text = format!("{:>3}  {:38} {verdict}", line.number, line.name);
    if let Some(expected) = &line.expected {
        text += &format!("\n     expected {expected}");
    }
    if let Some(actual) = &line.actual {
        text += &format!("\n     {}{actual}", if line.expected.is_some() { "actual " } else { "" });
    }
    text + "\n"
}

fn say_line(line: &Line) -> Result<()> {
    say(&(serde_json::to_string(line)? + "\n"))
}

/// The reader of this program's output, which may be able to stop the server.
struct Reader {
    can_stop: bool,
}

impl Host for Reader {
    fn has_started(&self) -> bool {
        self.can_stop
    }

    fn stop(&mut self) -> Option<std::result::Result<(), String>> {
        if !self.can_stop || say_line(&Line::ConformStop(ConformStop { number: STOPS })).is_err() {
            return None;
        }
        let mut answer = String::new();
        match std::io::stdin().lock().read_line(&mut answer).map(|_| answer.trim()) {
            Ok("stopped") => Some(Ok(())),
            Ok("") | Err(_) => None,
            Ok(fault) => Some(Err(fault.to_owned())),
        }
    }
}
