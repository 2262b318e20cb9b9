//! Short forms of command lines: `load http://HOST:PORT/path`, as wrk(1) takes it, and `serve DESIGN WORKLOAD`.

use std::ffi::OsString;

use anyhow::Result;
use clap::{Arg, Command};

use crate::base::mistake::mistake_with_hint;
use crate::cli::arguments::{load_command, serve_command};
use crate::client::load::KEPT;
use crate::net::address::{self, Family};
use crate::registry::catalogue::{self, defaults};
use crate::workloads::WORKLOADS;

/// Port of a URL of [`defaults::WEB`] without one.
const HTTP_PORT: u16 = 80;

/// Option of [`defaults::WEB`] whose kinds of requests have paths.
const MIX: &str = "mix";

/// Duration of a load by URL, if neither a duration nor a number of requests is given: as wrk has it.
const DURATION: &str = "10s";

/// Returns the same command line in long form.
pub fn expand(arguments: &[OsString]) -> Result<Vec<OsString>> {
    let Some(at) =
        arguments.iter().position(|word| word == "serve" || word == "load").filter(|at| is_command(arguments, *at))
    else {
        return Ok(arguments.to_vec());
    };
    let (before, rest) = (&arguments[..=at], &arguments[at + 1..]);
    let words: Vec<String> = rest.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let short = if arguments[at] == "serve" { served(&words) } else { loaded(&words)? };
    Ok(match short {
        Some(Short { taken, added }) => {
            let added = added.into_iter().map(OsString::from);
            let others =
                rest.iter().enumerate().filter(|(place, _)| !taken.contains(place)).map(|(_, word)| word.clone());
            before.iter().cloned().chain(added).chain(others).collect()
        }
        None => arguments.to_vec(),
    })
}

/// A short form: the places of its words, and their replacement.
struct Short {
    taken: Vec<usize>,
    added: Vec<String>,
}

/// Returns the places of the words that are neither options nor their values. A word behind an unknown long option is its
/// value: options of other designs and programs mostly have one.
fn arguments_of(command: &Command, words: &[String]) -> Vec<usize> {
    let mut places = Vec::new();
    let mut place = 0;
    while let Some(word) = words.get(place) {
        if is_word(word) {
            places.push(place);
        } else {
            let is_whole = |argument: &Arg| {
                argument.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long))
                    || argument.get_short().is_some_and(|short| *word == format!("-{short}"))
            };
            let known = command.get_arguments().find(|argument| is_whole(argument));
            let takes_value = known
                .map_or(word.starts_with("--") && !word.contains('='), |argument| argument.get_action().takes_values());
            let is_followed = words.get(place + 1).is_some_and(|next| is_word(next));
            place += usize::from(takes_value && is_followed);
        }
        place += 1;
    }
    places
}

/// Returns whether the word at this place is the command: the first word, or the first behind `--` of count and profile.
fn is_command(arguments: &[OsString], at: usize) -> bool {
    at == 1 || (at > 1 && arguments[at - 1] == "--")
}

fn is_word(word: &str) -> bool {
    !word.starts_with('-')
}

/// Returns whether the word is this option, in its long form, with or without its value.
fn is_option(word: &str, option: &str) -> bool {
    let rest = word.strip_prefix("--").and_then(|word| word.strip_prefix(option));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
}

/// `serve DESIGN WORKLOAD`, with options anywhere.
fn served(words: &[String]) -> Option<Short> {
    let taken = arguments_of(&serve_command(), words);
    let &[design, workload, ..] = &taken[..] else { return None };
    let added = vec![words[design].clone(), "--workload".to_owned(), words[workload].clone()];
    Some(Short { taken: vec![design, workload], added })
}

/// `load URL`, with options before or behind it, as wrk(1) and oha have it. The kind of load follows from the options.
fn loaded(words: &[String]) -> Result<Option<Short>> {
    let first = arguments_of(&load_command(), words).first().copied();
    let Some((place, (scheme, rest))) = first.and_then(|place| Some((place, words[place].split_once("://")?))) else {
        return Ok(first.and_then(|place| with_options(words, place)));
    };
    let url = &words[place];
    // The scheme of a URL has no case (RFC 3986, section 3.1).
    let scheme = &scheme.to_ascii_lowercase()[..];
    if scheme == "https" {
        return Err(mistake_with_hint(
            "load.no_tls",
            format!("{url}: TLS is not supported yet"),
            "load the http:// port of the server, or of a proxy on its machine that ends TLS, such as nginx",
        ));
    }
    let Some(workload) = WORKLOADS.iter().find(|entry| entry.name == scheme) else {
        let names: Vec<String> = WORKLOADS.iter().map(|entry| format!("{}://", entry.name)).collect();
        return Err(mistake_with_hint(
            "load.unknown_scheme",
            format!("{url}: no workload has the scheme {scheme}"),
            format!("allowed: {}", names.join(", ")),
        ));
    };
    let (authority, path) = parts(rest);
    // An empty port is the usual one (RFC 3986, section 6.2.3).
    let authority = authority.strip_suffix(':').filter(|host| *host != "unix").unwrap_or(authority);
    let path = path.split('#').next().unwrap_or_default();
    if authority.is_empty() {
        return Err(mistake_with_hint("load.no_host", format!("{url} has no host"), format!("{scheme}://HOST:PORT")));
    }
    let is_unix = address::family(authority) == Family::Unix;
    if let Some((_, host)) = authority.rsplit_once('@').filter(|_| !is_unix) {
        return Err(mistake_with_hint(
            "load.user_information",
            format!("{scheme}://...@{host}{path}: a user name or password in a URL is not supported"),
            "leave it out, and add --header 'Authorization: Basic ...', with user:password in Base64",
        ));
    }
    let has_port = is_unix || authority.rsplit(']').next().is_some_and(|end| end.contains(':'));
    let usual = if scheme == defaults::WEB { HTTP_PORT } else { catalogue::find(WORKLOADS, workload.name).item.port };
    // The percent sign before the zone of an address has its code in a URL (RFC 6874, section 2).
    let typed = if authority.starts_with('[') { authority.replacen("%25", "%", 1) } else { authority.to_owned() };
    let address = if has_port { typed } else { format!("{typed}:{usual}") };
    let mut added = vec![scheme.to_owned(), "--connect".to_owned(), address];
    let mut add = |option: &str, value: &str| added.extend([format!("--{option}"), value.to_owned()]);
    // The Host field is the authority as typed.
    if scheme == defaults::WEB && !has_port && !words.iter().any(|word| is_option(word, "host")) {
        add("host", &address::authority(authority));
    }
    match (scheme, path) {
        (_, "" | "/") => {}
        (defaults::WEB, path) if words.iter().any(|word| is_option(word, MIX)) => {
            return Err(mistake_with_hint(
                "load.path_with_mix",
                format!("{url} has a path, and each kind of --{MIX} has one of its own"),
                format!("leave out {path}, or --{MIX}"),
            ));
        }
        (defaults::WEB, path) if path.starts_with('/') => add("path", path),
        (defaults::WEB, query) => add("path", &format!("/{query}")),
        _ => {
            return Err(mistake_with_hint(
                "load.path_without_http",
                format!("{url} has a path, which only http has"),
                format!("leave out {path}"),
            ));
        }
    }
    added.extend(usual_load(words));
    Ok(Some(Short { taken: vec![place], added }))
}

/// Splits what follows the scheme of a URL into its authority and the rest. A colon ends the path of a Unix socket, as nginx has
/// it: `unix:/PATH:/page`.
fn parts(text: &str) -> (&str, &str) {
    if address::family(text) == Family::Unix {
        let socket = &text["unix:".len()..];
        let end = socket.find(":/").map_or(text.len(), |end| "unix:".len() + end);
        return (&text[..end], text[end..].trim_start_matches(':'));
    }
    text.split_at(text.find(['/', '?', '#']).unwrap_or(text.len()))
}

/// `load WORKLOAD` with options that wrk(1) has: the kind of load follows from them, as with a URL.
fn with_options(words: &[String], place: usize) -> Option<Short> {
    let workload = WORKLOADS.iter().find(|entry| entry.name == words[place])?;
    let are_given = [("clients", "-c"), ("duration", "-d"), ("threads", "-t"), ("rate", "-R"), ("arrivals", "")];
    let added = usual_load(words);
    (are_given.iter().any(|(option, short)| has(words, option, short)) && !added.is_empty())
        .then(|| Short { taken: vec![place], added: [vec![workload.name.to_owned()], added].concat() })
}

/// Returns the options of the load that the user left out: its kind, persistent connections, and a duration.
fn usual_load(words: &[String]) -> Vec<String> {
    if has(words, "load", "") {
        return Vec::new();
    }
    let is_open = has(words, "rate", "-R") || has(words, "arrivals", "");
    let mut added = vec![("load", if is_open { defaults::LOAD_WITH_RATE } else { defaults::LOAD_OF_URL })];
    if !has(words, "connections", "") {
        added.push(("connections", KEPT));
    }
    if !has(words, "duration", "-d") && !has(words, "loops", "") {
        added.push(("duration", DURATION));
    }
    added.into_iter().flat_map(|(option, value)| [format!("--{option}"), value.to_owned()]).collect()
}

/// Returns whether an option is given, in its long or short form.
fn has(words: &[String], option: &str, short: &str) -> bool {
    words.iter().any(|word| {
        is_option(word, option) || (!short.is_empty() && word.starts_with(short) && !word.starts_with("--"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::mistake::Mistake;

    fn expanded(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let words = expand(&words).unwrap();
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_url_says_workload_address_and_path() {
        for (typed, long) in [
            (
                "x load http://h:8080/a?b=1#c -c 64",
                "x load http --connect h:8080 --path /a?b=1 --load closed_connections --connections kept --duration 10s -c 64",
            ),
            (
                "x load http://h -R 10k -d 5s",
                "x load http --connect h:80 --host h --load open --connections kept -R 10k -d 5s",
            ),
            (
                "x load http://[::1]:81/ --rate=5 --connections per-request -d1s",
                "x load http --connect [::1]:81 --load open --rate=5 --connections per-request -d1s",
            ),
            (
                "x load echo://[::1] --loops 5",
                "x load echo --connect [::1]:7777 --load closed_connections --connections kept --loops 5",
            ),
            ("x load http://h:1 --load closed", "x load http --connect h:1 --load closed"),
            // As in the README of wrk.
            (
                "x load -t2 -c 64 -d5s --json http://h:1/a",
                "x load http --connect h:1 --path /a --load closed_connections --connections kept -t2 -c 64 -d5s --json",
            ),
            (
                "x load -d5s http://h:1 --loops 5",
                "x load http --connect h:1 --load closed_connections --connections kept -d5s --loops 5",
            ),
            ("x load bytes --connect http://h:1", "x load bytes --connect http://h:1"),
            (
                "x load http --connect unix:/a -c 4",
                "x load http --load closed_connections --connections kept --duration 10s --connect unix:/a -c 4",
            ),
            (
                "x load bytes --connect h:1 -R 5 -d1s",
                "x load bytes --load open --connections kept --connect h:1 -R 5 -d1s",
            ),
            ("x load bytes --connect h:1 --loops 5", "x load bytes --connect h:1 --loops 5"),
            ("x load bytes --load closed_threads -c 5", "x load bytes --load closed_threads -c 5"),
            ("x serve epoll --listen --listen h:1", "x serve epoll --listen --listen h:1"),
            ("x serve --port 80 epoll http", "x serve epoll --workload http --port 80"),
            ("x serve epoll --port 80 http --control", "x serve epoll --workload http --port 80 --control"),
            ("x load HTTP://h:1#f --load closed", "x load http --connect h:1 --load closed"),
            ("x load http://unix:/a/b.sock --load closed", "x load http --connect unix:/a/b.sock --load closed"),
            (
                "x load http://unix:/a/b.sock:/c?d:/#e --load closed",
                "x load http --connect unix:/a/b.sock --path /c?d:/ --load closed",
            ),
            ("x load http://unix:@a:/ --load closed", "x load http --connect unix:@a --load closed"),
            ("x load http://h:/a --load closed", "x load http --connect h:80 --host h --path /a --load closed"),
            ("x load echo://unix:@a --load closed", "x load echo --connect unix:@a --load closed"),
            (
                "x load http://[fe80::1%25eth0]/a --load closed",
                "x load http --connect [fe80::1%eth0]:80 --host [fe80::1] --path /a --load closed",
            ),
            (
                "x count --count cycles -- load http://h:1 -d 1s",
                "x count --count cycles -- load http --connect h:1 --load closed_connections --connections kept -d 1s",
            ),
        ] {
            assert_eq!(expanded(typed), long);
        }
    }

    #[test]
    fn a_workload_may_follow_its_design() {
        for (typed, long) in [
            ("x serve epoll http --port 8080", "x serve epoll --workload http --port 8080"),
            ("x serve epoll", "x serve epoll"),
            ("x serve epoll --port 8080", "x serve epoll --port 8080"),
            ("x load http --connect h:1", "x load http --connect h:1"),
            ("x serve epoll_offload --threads 3", "x serve epoll_offload --threads 3"),
            ("x serve prefork http --ring=3 more", "x serve prefork --workload http --ring=3 more"),
            ("x list designs", "x list designs"),
        ] {
            assert_eq!(expanded(typed), long);
        }
    }

    #[test]
    fn other_urls_are_refused() {
        for (url, code) in [
            ("https://h:1", "load.no_tls"),
            ("HTTPS://h:1", "load.no_tls"),
            ("ftp://h:1", "load.unknown_scheme"),
            ("http:///path", "load.no_host"),
            ("echo://h:1/path", "load.path_without_http"),
            ("echo://unix:/a:/path", "load.path_without_http"),
            ("http://user:password@h:1/", "load.user_information"),
            ("http://user@h", "load.user_information"),
            ("http://h/path --mix GET:/@1", "load.path_with_mix"),
            ("http://h?query --mix=GET:/@1", "load.path_with_mix"),
        ] {
            let words: Vec<OsString> = ["x", "load"].into_iter().chain(url.split(' ')).map(OsString::from).collect();
            let error = expand(&words).unwrap_err();
            assert_eq!(error.downcast_ref::<Mistake>().unwrap().code, code, "{url}");
        }
    }
}
