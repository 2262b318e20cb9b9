//! Names of events, as `perf stat -e` takes them (perf-stat(1)), and what they mean. Whether this machine has an event is
//! decided when it is opened.

use crate::count::perf_names::{self, Generic};
use crate::count::pmu::Term;

/// Forms of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named<'a> {
    /// Perf's name of an event that every kernel knows.
    Generic(Generic),
    /// A number from the processor's manual, `rNNNN`.
    Raw(u64),
    /// `subsystem:event`.
    Tracepoint {
        /// Part of the kernel, a folder of tracefs.
        subsystem: &'a str,
        /// Name in that folder.
        event: &'a str,
    },
    /// `pmu/event/` and `pmu/key=value,…/`.
    PmuEvent {
        /// The PMU's name in sysfs.
        pmu: &'a str,
        /// Text between the slashes.
        terms: Vec<Term<'a>>,
    },
}

impl Named<'_> {
    /// Copies the name into memory that lives as long as the process.
    pub fn kept(&self) -> Named<'static> {
        let kept = |word: &str| -> &'static str { word.to_owned().leak() };
        match self {
            Named::Generic(event) => Named::Generic(*event),
            Named::Raw(number) => Named::Raw(*number),
            Named::Tracepoint { subsystem, event } => {
                Named::Tracepoint { subsystem: kept(subsystem), event: kept(event) }
            }
            Named::PmuEvent { pmu, terms } => {
                let terms = terms.iter().map(|term| Term { name: kept(term.name), ..*term });
                Named::PmuEvent { pmu: kept(pmu), terms: terms.collect() }
            }
        }
    }
}

/// Describes the forms of names.
pub const FORMS: &str = "perf's own names, such as dTLB-load-misses; a tracepoint is subsystem:name, such as sched:sched_switch; \
                         an event of a PMU is pmu/event/ or pmu/key=value,key=value/, such as cpu/cache-misses/; one of the \
                         processor's manual is r and its number in hexadecimal digits, such as r003c";

/// Modifiers that perf-stat(1) takes behind the name of an event, to count a part of it.
const MODIFIERS: &str = "ukhGHIpPSDWeb";

/// Parses a name; `None` if it has no form of an event's name. The error describes the correct form.
pub fn named(word: &str) -> Option<Result<Named<'_>, String>> {
    if let Some(event) = perf_names::named(word) {
        return Some(Ok(Named::Generic(event)));
    }
    if let Some(number) = raw(word) {
        return Some(Ok(Named::Raw(number)));
    }
    if word.contains('/') {
        return pmu_event_in(word);
    }
    tracepoint_in(word).map(|(subsystem, event)| Ok(Named::Tracepoint { subsystem, event }))
}

/// Splits a name into the event and its modifiers, if there are any.
pub fn with_modifiers(word: &str) -> Option<(&str, &str)> {
    let (event, modifiers) = match word.rsplit_once(':') {
        Some(parts) => parts,
        None => word.rfind('/').map(|slash| word.split_at(slash + 1))?,
    };
    (!modifiers.is_empty() && modifiers.chars().all(|each| MODIFIERS.contains(each))).then_some((event, modifiers))
}

/// Splits a list at commas, except between two slashes.
pub fn split(list: &str) -> Vec<&str> {
    let mut is_inside = false;
    list.split(|each| {
        is_inside ^= each == '/';
        each == ',' && !is_inside
    })
    .collect()
}

/// Parses a raw event such as `r3c`. It has a decimal digit, unlike the word `read`.
fn raw(word: &str) -> Option<u64> {
    let digits = word.strip_prefix('r')?;
    let is_hexadecimal = digits.chars().all(|each| each.is_ascii_hexdigit());
    let is_number = is_hexadecimal && digits.len() <= 16 && digits.contains(|each: char| each.is_ascii_digit());
    if is_number { u64::from_str_radix(digits, 16).ok() } else { None }
}

fn tracepoint_in(word: &str) -> Option<(&str, &str)> {
    word.split_once(':').filter(|(subsystem, event)| is_plain(subsystem) && is_plain(event))
}

fn pmu_event_in(word: &str) -> Option<Result<Named<'_>, String>> {
    let Some((pmu, terms)) = pmu_and_terms(word) else {
        let is_open = pmu_and_terms(&format!("{word}/")).is_some();
        return is_open.then(|| Err(format!("'{word}' lacks the slash that ends it, as in cpu/cache-misses/")));
    };
    let terms: Result<Vec<Term>, String> = terms.split(',').map(Term::new).collect();
    Some(terms.map(|terms| Named::PmuEvent { pmu, terms }))
}

/// Splits a name into the PMU and the text between the slashes.
fn pmu_and_terms(word: &str) -> Option<(&str, &str)> {
    let (pmu, terms) = word.strip_suffix('/')?.split_once('/')?;
    let is_term =
        |term: &str| is_plain(term.split_once('=').map_or(term, |(name, _)| name)) && !term.contains(['/', '.']);
    (is_plain(pmu) && terms.split(',').all(is_term)).then_some((pmu, terms))
}

/// Neither part has a dot, which separates a counter from its part.
fn is_plain(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|each| each.is_ascii_alphanumeric() || "_-".contains(each))
}

#[cfg(test)]
mod tests {
    use perf_event::events::{Hardware, Software};

    use super::*;

    fn pmu_event(terms: &[(&'static str, Option<u64>)]) -> Named<'static> {
        Named::PmuEvent { pmu: "cpu", terms: terms.iter().map(|&(name, value)| Term { name, value }).collect() }
    }

    #[test]
    fn names_are_known_by_their_form() {
        for (name, expected) in [
            ("sched:sched_wakeup", Named::Tracepoint { subsystem: "sched", event: "sched_wakeup" }),
            ("cpu/cache-misses/", pmu_event(&[("cache-misses", None)])),
            ("cpu/event=0x3c,umask=0x0/", pmu_event(&[("event", Some(0x3c)), ("umask", Some(0))])),
            ("cpu/event=60,edge/", pmu_event(&[("event", Some(60)), ("edge", None)])),
            ("r003c", Named::Raw(0x3c)),
            ("rFFFFFFFFFFFFFFF0", Named::Raw(u64::MAX - 15)),
            ("cycles", Named::Generic(Generic::Hardware(Hardware::CPU_CYCLES))),
            ("cs", Named::Generic(Generic::Software(Software::CONTEXT_SWITCHES))),
        ] {
            assert_eq!(named(name), Some(Ok(expected)), "{name}");
        }
        for name in [
            "cpu_cycles",
            "",
            ":",
            "sched:",
            ":wake",
            "/tsc/",
            "msr//",
            "a:b:c",
            "a/b/c/",
            "a:b.c",
            "../x:y",
            "a:../id",
        ] {
            assert_eq!(named(name), None, "{name}");
        }
        for name in ["a/b.c/", "a/b=1,/", "a/=1/", "r", "rx", "r-1", "r+1", "r0123456789abcdef0", "memory", "read"] {
            assert_eq!(named(name), None, "{name}");
        }
        for (name, words) in [
            ("cpu/cache-misses", "'cpu/cache-misses' lacks the slash that ends it"),
            ("cpu/event=0x3c,umask=0", "lacks the slash"),
            ("cpu/event=zz/", "'event=zz' has no number after the ="),
        ] {
            let said = named(name).unwrap().unwrap_err();
            assert!(said.contains(words), "{name}: {said}");
        }
    }

    #[test]
    fn modifiers_are_separated_from_names() {
        assert_eq!(with_modifiers("cycles:u"), Some(("cycles", "u")));
        assert_eq!(with_modifiers("sched:sched_switch:k"), Some(("sched:sched_switch", "k")));
        assert_eq!(with_modifiers("cpu/event=1/ppu"), Some(("cpu/event=1/", "ppu")));
        assert_eq!(with_modifiers("sched:sched_switch"), None);
        assert_eq!(with_modifiers("cpu/event=1/"), None);
        assert_eq!(with_modifiers("cycles"), None);
    }

    #[test]
    fn a_comma_between_slashes_is_of_the_name() {
        assert_eq!(split("a,cpu/event=1,umask=2/,b"), ["a", "cpu/event=1,umask=2/", "b"]);
        assert_eq!(split("cpu/a/,cpu/b,c/"), ["cpu/a/", "cpu/b,c/"]);
        assert_eq!(split("cpu/a,b"), ["cpu/a,b"], "what lacks its last slash is refused as a whole");
        assert_eq!(split(""), [""]);
    }
}
