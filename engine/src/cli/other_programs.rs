//! Options of other load generators, for the hints to people who know those: wrk, wrk2, oha, hey and ab.

/// An option that `load` does not have, and what to type instead.
const INSTEAD: &[(&[&str], &str)] = &[
    (&["--latency"], "leave it out: percentiles are always printed"),
    (&["-L", "--latency-correction"], "leave it out: with -R, latency counts from when a request was due"),
    (&["-s", "--script"], "--mix, --sizes, --header and --body describe requests; there are no scripts"),
    (&["-n"], "--loops N is the number of requests of each client; -c 1 --loops N makes N requests"),
    (&["-z"], "-d TIME is the duration"),
    (&["-q"], "-R RATE is the rate of all clients together"),
    (&["-p"], "--pipeline N is the number of requests in flight on each connection; --body-file FILE sends a file"),
    (&["-T", "--content-type"], "--header 'Content-Type: TYPE'"),
    (&["-D"], "--body-file FILE"),
    (&["-A", "--accept"], "--header 'Accept: TYPE'"),
    (&["-a", "--basic-auth"], "--header 'Authorization: Basic CREDENTIALS'"),
    (&["-C", "--cookie"], "--header 'Cookie: NAME=VALUE'"),
    (&["-k", "--keepalive"], "leave it out: connections persist, unless --connections per_request is given"),
    (&["--disable-keepalive"], "--connections per_request"),
    (
        &["--http2", "--http-version", "--insecure", "--cert", "--key", "--cacert"],
        "only HTTP/1.1 without TLS can be loaded",
    ),
    (&["--no-tui", "-r", "--quiet", "--no-color", "--fps"], "leave it out: only a terminal gets a live line"),
    (&["-o", "-j", "--output", "--output-format"], "--json prints the result as a JSON line"),
    (&["--qps", "--query-per-second"], "-R RATE is the rate of all clients together"),
    (&["--redirect", "--disable-redirects"], "leave it out: a redirection is counted by its status, and not followed"),
    (&["--connect-to"], "--connect HOST:PORT is where it connects; --host is the field of the requests"),
    (&["--unix-socket"], "--connect unix:/PATH"),
    (&["--burst-delay", "--burst-rate"], "--arrivals describes when requests are due"),
    (&["--latency-correction-off", "--stats-success-breakdown"], "leave it out: each status has its own line"),
    (&["--ipv4", "--ipv6"], "--connect takes an address: 127.0.0.1:PORT, or [::1]:PORT"),
    (&["--disable-compression"], "leave it out: no compression is requested"),
    (&["--time-unit"], "leave it out: times have their unit"),
];

/// Returns what to type instead of an option of another program.
pub fn instead_of(option: &str) -> Option<&'static str> {
    INSTEAD.iter().find(|(options, _)| options.contains(&option)).map(|(_, instead)| *instead)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::cli::arguments::load_command;

    #[test]
    fn each_option_is_listed_once_and_load_has_none_of_them() {
        let all: Vec<&str> = INSTEAD.iter().flat_map(|(options, _)| *options).copied().collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        let command = load_command();
        let own: BTreeSet<String> = command
            .get_arguments()
            .flat_map(|argument| {
                let short = argument.get_short().map(|letter| format!("-{letter}"));
                short.into_iter().chain(argument.get_long().map(|name| format!("--{name}")))
            })
            .collect();
        let both: Vec<_> = all.iter().filter(|option| own.contains(**option)).collect();
        assert!(both.is_empty(), "{both:?}");
        assert!(own.contains("-c") && instead_of("-z").is_some_and(|instead| instead.starts_with("-d")));
    }

    #[test]
    fn options_that_the_hints_name_exist() {
        let command = load_command();
        let own: BTreeSet<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
        for (_, instead) in INSTEAD {
            for word in instead.split([' ', ';', ',', ':']).filter_map(|word| word.strip_prefix("--")) {
                assert!(own.contains(word), "--{word} in: {instead}");
            }
        }
    }
}
