//! Fallbacks: features that this program uses where it can, and what it does where a kernel or a sandbox refuses them.
//!
//! `doctor` shows them, so each line says what of a measurement is different. A feature without which something cannot run
//! at all is in that entry instead (`rests_on`).

use serde_json::{Value, json};

use crate::base::feature::{Feature, refused};
use crate::counters::{cgroup_cpu, process_clocks};
use crate::net::socket_diagnosis::SocketDiagnosis;
use crate::sys::readiness::epoll::Epoll;

/// A feature that is not needed.
struct Fallback {
    feature: Feature,
    /// What is done without it, and what of a measurement is different then.
    instead: &'static str,
}

/// All fallbacks.
const FALLBACKS: &[Fallback] = &[
    Fallback {
        feature: Feature {
            name: "epoll_pwait2(2)",
            since: Some("5.11"),
            refusal: || refused("epoll_pwait2", Epoll::try_pwait2()),
        },
        instead: "loads with epoll wait with epoll_wait and ppoll, as exactly, but a wait takes up to three calls: \
                  their clients use somewhat more CPU time",
    },
    Fallback {
        feature: Feature {
            name: "sock_diag(7)",
            since: Some("3.3"),
            refusal: || SocketDiagnosis::open().and_then(|mut kernel| kernel.every_listener()).err().map(in_words),
        },
        instead: "a server that is not ours counts as ready once it accepts a connection, which is then the first that it \
                  gets; the processes of one that was running before, and so their CPU time, are unknown",
    },
    Fallback {
        feature: Feature {
            name: "cgroups(7), cpu.stat",
            since: Some("4.15"),
            refusal: || cgroup_cpu::ENTRY.available().err().map(in_words),
        },
        instead: "the CPU time of servers comes from the clocks of their processes, which miss the last steps of ended \
                  threads: figures of designs that make a thread for every client are somewhat too low",
    },
    Fallback {
        feature: Feature {
            name: "proc_pid_task(5), children",
            since: Some("4.2"),
            refusal: || process_clocks::ENTRY.available().err().map(in_words),
        },
        instead: "without a control group, too, the CPU time of servers is known for their whole life only",
    },
];

fn in_words(error: anyhow::Error) -> String {
    format!("{error:#}")
}

/// Describes them for `list --json`, each tried.
pub fn described() -> Vec<Value> {
    let one = |fallback: &Fallback| {
        let mut value = fallback.feature.described();
        value["instead"] = json!(fallback.instead);
        value
    };
    FALLBACKS.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fallback_is_tried_and_says_what_is_done_instead() {
        for value in described() {
            assert_eq!(value["available"], value["reason"].is_null(), "{value}");
            assert!(value["instead"].as_str().is_some_and(|text| !text.ends_with('.')), "{value}");
        }
    }
}
