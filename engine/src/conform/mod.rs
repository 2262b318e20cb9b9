//! Cases that any server of a workload must pass, ours or not. Each case is a numbered row with a function over real
//! sockets, and knows no more of the server than its address.
//!
//! `thunderherd-engine conform` runs the cases against one server; the conformance tests run them against every design. A
//! number belongs to its case for ever. A broken MUST fails, a broken SHOULD warns, and a free choice is allowed.

pub mod case;
pub mod chance;
pub mod connection;
mod connections;
mod crowds;
pub mod http;
mod processes;
pub mod protocol;
mod requests;
pub mod subject;
pub mod values;
pub mod verdict;

use crate::conform::case::{Case, STOPS};
use crate::conform::protocol::Protocol;

/// Groups of cases, beside those of HTTP.
const GROUPS: [&[Case]; 4] = [requests::CASES, connections::CASES, crowds::CASES, values::CASES];

/// Returns all cases by number.
pub fn all() -> Vec<&'static Case> {
    let mut cases: Vec<&Case> = GROUPS.iter().chain(&http::GROUPS).copied().flatten().collect();
    cases.sort_by_key(|case| case.number);
    cases
}

/// Returns the cases of a workload in the order in which they are run.
pub fn of(protocol: &Protocol) -> Vec<&'static Case> {
    let mut cases = all();
    cases.retain(|case| (case.applies)(protocol));
    cases.sort_by_key(|case| (case.number == STOPS, case.number));
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_unique() {
        let cases = all();
        let mut names: Vec<&str> = cases.iter().map(|case| case.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), cases.len());
        assert!(cases.windows(2).all(|pair| pair[0].number < pair[1].number));
    }

    #[test]
    fn each_workload_has_the_cases_of_connections_and_the_stop_at_the_end() {
        for protocol in protocol::PROTOCOLS {
            let numbers: Vec<u32> = of(protocol).iter().map(|case| case.number).collect();
            assert!([1, 3, 6, 10, 14, 15].iter().all(|number| numbers.contains(number)), "{}", protocol.name);
            assert_eq!(numbers.last(), Some(&STOPS), "{}", protocol.name);
        }
    }
}
