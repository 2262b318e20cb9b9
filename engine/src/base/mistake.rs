//! Mistakes of the user, as opposed to failures of the program or the machine. They end with exit status 2.

use std::fmt;

use crate::sys::process;
use crate::sys::ring::number;

/// Something wrong that the user typed or wrote, and can correct.
#[derive(Debug)]
pub struct Mistake {
    /// The problem, with the given value: under 15 words if possible.
    pub message: String,
    /// Area, dot, and problem, such as `listen.in_use`. It stays the same when the message changes.
    pub code: &'static str,
    /// Replacement to type, or the allowed values.
    pub hint: Option<String>,
    /// Names of the settings and other options to blame, as studies have them; the first is the likeliest.
    pub blamed: Vec<String>,
    /// True if only this machine is in the way, so that another one may accept the same command.
    pub only_here: bool,
}

impl Mistake {
    /// Formats it for printing: the message with the code, and the hint on the next line.
    pub fn lines(&self) -> String {
        let hint = self.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        format!("{} [{}]{hint}", self.message, self.code)
    }
}

impl fmt::Display for Mistake {
    /// Formats message and hint in one line, without the code.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(formatter, "; {hint}"))
    }
}

impl std::error::Error for Mistake {}

/// Makes an error that the user can correct.
pub fn mistake(code: &'static str, message: impl Into<String>) -> anyhow::Error {
    Mistake { message: message.into(), code, hint: None, blamed: Vec::new(), only_here: false }.into()
}

/// As [`mistake`], with a hint.
pub fn mistake_with_hint(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
    Mistake { message: message.into(), code, hint: Some(hint.into()), blamed: Vec::new(), only_here: false }.into()
}

/// Something that the user started and that failed, with a hint on what to change. Another attempt may succeed, so the exit status
/// is 1.
#[derive(Debug)]
pub struct Failure {
    message: String,
    code: &'static str,
    hint: String,
}

impl fmt::Display for Failure {
    /// Formats the message with the code, and the hint on the next line.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} [{}]\nhint: {}", self.message, self.code, self.hint)
    }
}

impl std::error::Error for Failure {}

/// Makes an error of something that was started.
pub fn failure(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
    Failure { message: message.into(), code, hint: hint.into() }.into()
}

/// Details of a mistake for programs.
pub trait Blame {
    /// Names the settings and other options to blame, the likeliest first.
    fn blaming(self, names: &[&str]) -> Self;

    /// Says that only this machine is in the way.
    fn only_here(self) -> Self;
}

impl Blame for anyhow::Error {
    fn blaming(mut self, names: &[&str]) -> Self {
        if let Some(mistake) = self.downcast_mut::<Mistake>() {
            mistake.blamed = names.iter().map(ToString::to_string).collect();
        }
        self
    }

    fn only_here(mut self) -> Self {
        if let Some(mistake) = self.downcast_mut::<Mistake>() {
            mistake.only_here = true;
        }
        self
    }
}

/// Formats a failure for printing. A mistake has its code and hint; an error for lack of descriptors has a hint on how to
/// get more.
pub fn in_words(error: &anyhow::Error) -> String {
    if let Some(mistake) = error.downcast_ref::<Mistake>() {
        return mistake.lines();
    }
    let out_of_descriptors = error
        .chain()
        .filter_map(|cause| number(cause.downcast_ref::<std::io::Error>()?))
        .any(|number| number == libc::EMFILE || number == libc::ENFILE);
    let way_out = if out_of_descriptors { format!("; {}", more_descriptors()) } else { String::new() };
    format!("{error:#}{way_out}")
}

/// Returns what to type if descriptors ran out.
pub fn more_descriptors() -> String {
    match process::descriptor_limits() {
        Ok((soft, hard)) if soft < hard => {
            format!("this process may have {soft} descriptors; raise the limit: ulimit -n {hard}")
        }
        Ok((_, hard)) => format!("this process may have {hard} descriptors; {}", raise_to(more_than(hard))),
        Err(_) => "raise the limit on descriptors (ulimit -n)".into(),
    }
}

/// Returns twice as many descriptors, or as many as any process may have.
fn more_than(hard: u64) -> u64 {
    process::most_descriptors().filter(|&most| most > hard).map_or(2 * hard, |most| most.min(2 * hard))
}

/// Returns what to type for more descriptors than the hard limit. Users who may not raise it get a command with sudo.
pub fn raise_to(wanted: u64) -> String {
    if let Some(most) = process::most_descriptors().filter(|&most| most < wanted) {
        format!(
            "any process may have {most} (fs.nr_open): sudo sysctl fs.nr_open={wanted} && sudo prlimit --pid $$ \
             --nofile={wanted}:{wanted}"
        )
    } else if process::may_raise_descriptor_limit(wanted) {
        format!("raise the hard limit: ulimit -Hn {wanted} && ulimit -n {wanted}")
    } else {
        format!(
            "raise the hard limit of this shell, for which this user has no privilege (CAP_SYS_RESOURCE): sudo prlimit \
             --pid $$ --nofile={wanted}:{wanted}"
        )
    }
}
