//! A user's mistake, told apart from a failure of the program or the machine: it ends with exit status 2.

use crate::sys::process;
use crate::sys::ring::number;

/// What the user can mend: the message says what failed, the value seen, what is allowed and what to type.
#[derive(Debug)]
pub struct Mistake(String);

impl std::fmt::Display for Mistake {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Mistake {}

/// An error that is the user's to mend.
pub fn mistake(message: impl Into<String>) -> anyhow::Error {
    Mistake(message.into()).into()
}

/// An error in one line; where descriptors ran out, with what to type.
pub fn in_words(error: &anyhow::Error) -> String {
    let out_of_descriptors = error
        .chain()
        .filter_map(|cause| number(cause.downcast_ref::<std::io::Error>()?))
        .any(|number| number == libc::EMFILE || number == libc::ENFILE);
    let way_out = if out_of_descriptors { format!("; {}", more_descriptors()) } else { String::new() };
    format!("{error:#}{way_out}")
}

/// What to type where descriptors ran out.
pub fn more_descriptors() -> String {
    match process::descriptor_limits() {
        Ok((soft, hard)) if soft < hard => {
            format!("this process may have {soft} descriptors; raise the limit: ulimit -n {hard}")
        }
        Ok((_, hard)) => format!("this process may have {hard} descriptors; {}", raise_to(more_than(hard))),
        Err(_) => "raise the limit on descriptors (ulimit -n)".into(),
    }
}

/// Twice as many descriptors, or as many as any process may have.
fn more_than(hard: u64) -> u64 {
    process::most_descriptors().filter(|&most| most > hard).map_or(2 * hard, |most| most.min(2 * hard))
}

/// What to type for so many descriptors, more than the hard limit has: of whoever may not raise it, as whom.
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
