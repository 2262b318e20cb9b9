//! The page that `--help` prints for `serve` and `load`: the options that most people need, one line each. `--help-all`
//! prints all options.

use std::ffi::OsString;

use clap::{Arg, Command};

use crate::base::output::program_name;
use crate::base::setting::Setting;
use crate::cli::arguments::{load_command, load_settings, serve_command, serve_settings};
use crate::registry::catalogue;

/// A heading, and the ids of its options, each with its words.
type Group = (&'static str, &'static [(&'static str, &'static str)]);

const SERVE: &[Group] = &[
    (
        "Design",
        &[
            ("pool", "Processes or threads of a pool"),
            ("wait", "How event loops wait: sleep or spin"),
            ("respawn", "Replace workers that die"),
        ],
    ),
    (
        "Connections",
        &[
            ("port", "Port to listen on at 127.0.0.1"),
            ("listen", "Address to listen on, or unix:@NAME"),
            ("backlog", "Connections that wait for accept"),
            ("nodelay", "Send small segments at once"),
            ("drain", "Time to end after a stop"),
        ],
    ),
    (
        "Requests",
        &[
            ("workload", "The protocol"),
            ("primitive", "Send primitive"),
            ("receive", "Receive primitive"),
            ("bytes", "Size of every reply"),
            ("limit", "Largest reply a client may request"),
            ("compute", "CPU time to burn before each reply"),
            ("pause", "Time to sleep before each reply"),
        ],
    ),
    (
        "Output and machine",
        &[
            ("cpus", "CPUs to run on, such as 0-3,6"),
            ("count", "Count events of all its processes"),
            ("dry-run", "Only check the options"),
            ("json", "Print a JSON line (with --dry-run)"),
        ],
    ),
    HELP,
];

const LOAD: &[Group] = &[
    (
        "Load",
        &[
            ("clients", "Clients at the same time"),
            ("threads", "Threads that send requests"),
            ("rate", "Requests due per second"),
            ("duration", "Measured time"),
            ("warm_up", "Warm-up before the measured time"),
            ("loops", "Requests per client, without -d"),
            ("load", "Kind of load"),
        ],
    ),
    (
        "Connections",
        &[
            ("connect", "Server: HOST:PORT, or unix:/PATH"),
            ("connections", "Persistence"),
            ("pipeline", "Requests in flight per connection"),
            ("timeout", "Longest time without progress"),
        ],
    ),
    (
        "Requests",
        &[
            ("bytes", "Size of every reply"),
            ("sizes", "Random sizes: uniform:64..16384"),
            ("path", "Path to request"),
            ("method", "HTTP method"),
            ("header", "Header, such as 'Accept: */*'; repeatable"),
            ("mix", "Weights of several requests"),
            ("check", "pattern (all bytes) or count"),
            ("primitive", "Send primitive"),
            ("receive", "Receive primitive"),
        ],
    ),
    (
        "Output and machine",
        &[
            ("cpus", "CPUs to run on, such as 0-3,6"),
            ("show", "Print each request and reply"),
            ("json", "Print the result as a JSON line"),
        ],
    ),
    HELP,
];

const HELP: Group = ("Help", &[("help", "Print this page"), ("help-all", "Print all options")]);

/// The last line of the page.
const LAST: &str = "--help-all lists all options (docs/generated/reference/settings.md)";

/// Default of a setting without a value.
const NONE: &str = "none";

/// What a URL stands for, above the last line of the page of `load`.
const OF_URLS: &str = "\
A URL stands for the workload, --connect and --path. By default, connections
persist and the load lasts 10 s. --rate makes an open load.";

/// Names of designs, workloads and primitives, above the last line of both pages.
const NAMES: &str = "`list` prints the names of designs, workloads, loads, primitives and counters.";

/// Returns the short page for a command line that asks for help, as a command to print; `None` if the line asks for all
/// options, or for the help of another command.
pub fn brief(arguments: &[OsString]) -> Option<Command> {
    if arguments.iter().any(|word| word == "--help-all") {
        return None;
    }
    let words: Vec<&str> = arguments.iter().skip(1).filter_map(|word| word.to_str()).collect();
    match words[..] {
        ["serve", ..] | ["help", "serve", ..] => Some(serve_page()),
        ["load", ..] | ["help", "load", ..] => Some(load_page()),
        _ => None,
    }
}

/// Returns the option that lists all options of the typed command.
pub fn of_everything(arguments: &[OsString]) -> &'static str {
    if arguments.get(1).is_some_and(|word| word == "serve" || word == "load") { "--help-all" } else { "--help" }
}

fn serve_page() -> Command {
    page(&serve_command(), SERVE, &serve_settings().map(|(_, settings)| settings).concat())
        .override_usage(format!("{} serve <DESIGN> [WORKLOAD] [OPTIONS]", program_name()))
        .after_help(format!("{NAMES}\n\n{LAST}"))
}

fn load_page() -> Command {
    let program = program_name();
    page(&load_command(), LOAD, &load_settings().map(|(_, settings)| settings).concat())
        .override_usage(format!(
            "{program} load http://HOST:PORT/PATH [OPTIONS]\n       \
             {program} load <WORKLOAD> --connect <HOST:PORT> [OPTIONS]"
        ))
        .after_help(format!("{OF_URLS}\n{NAMES}\n\n{LAST}"))
}

/// Returns a command with the chosen options of the whole command, to be printed and not to be run.
fn page(whole: &Command, groups: &[Group], settings: &[Setting]) -> Command {
    let about = whole.get_about().map(ToString::to_string).unwrap_or_default();
    let about = about.split("; ").next().unwrap_or_default().to_owned();
    let page = Command::new(whole.get_name().to_owned()).about(about).disable_help_flag(true);
    let named =
        |id: &str| whole.get_arguments().find(|arg| arg.get_id() == id).expect("a page lists options of its command");
    groups.iter().fold(page, |page, (heading, options)| {
        options.iter().fold(page, |page, (id, words)| page.arg(line(named(id), words, settings).help_heading(*heading)))
    })
}

/// Returns an option with its words and its default.
fn line(arg: &Arg, words: &str, settings: &[Setting]) -> Arg {
    let id = arg.get_id().as_str();
    let default = match settings.iter().find(|setting| setting.name == id) {
        Some(setting) => {
            Some(catalogue::defaults(setting)).filter(|default| ![NONE, catalogue::EMPTY].contains(&&default[..]))
        }
        None if arg.get_action().takes_values() => {
            arg.get_default_values().first().map(|value| value.to_string_lossy().into_owned())
        }
        None => None,
    };
    let default = default.map(|default| format!(" [default: {default}]")).unwrap_or_default();
    let line = Arg::new(id.to_owned())
        .action(arg.get_action().clone())
        .long(arg.get_long().expect("a page lists options that have a name").to_owned())
        .help(format!("{words}{default}"));
    let line = match arg.get_short() {
        Some(short) => line.short(short),
        None => line,
    };
    match arg.get_value_names() {
        Some(names) if arg.get_action().takes_values() => line.value_names(names.to_vec()),
        _ if arg.get_action().takes_values() => line.value_name("NAME"),
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> [(Command, Command, &'static [Group]); 2] {
        [(serve_command(), serve_page(), SERVE), (load_command(), load_page(), LOAD)]
    }

    fn longs(command: &Command) -> Vec<String> {
        command.get_arguments().filter_map(|arg| arg.get_long()).map(|long| format!("--{long}")).collect()
    }

    /// The options that lines of a text begin with.
    fn listed(text: &str) -> Vec<String> {
        let of_line = |line: &str| {
            let line = line.trim_start();
            let line = line
                .strip_prefix('-')
                .filter(|rest| !rest.starts_with('-'))
                .map_or(line, |rest| rest.get(3..).unwrap_or(""));
            line.strip_prefix("--").map(|rest| format!("--{}", rest.split_whitespace().next().unwrap_or("")))
        };
        let begins_an_option = |line: &&str| line.starts_with("  ") && !line.starts_with("       ");
        text.lines().filter(begins_an_option).filter_map(of_line).collect()
    }

    #[test]
    fn help_all_has_a_line_for_every_option() {
        for (mut whole, _, _) in pages() {
            let (mut printed, mut all) = (listed(&whole.render_help().to_string()), longs(&whole));
            printed.sort_unstable();
            all.sort_unstable();
            assert_eq!(printed, all);
        }
    }

    #[test]
    fn help_has_about_twenty_of_the_options_in_80_columns() {
        for (whole, mut page, groups) in pages() {
            let text = page.render_help().to_string();
            let (printed, all) = (listed(&text), longs(&whole));
            assert!((15..=25).contains(&printed.len()), "{printed:?}");
            assert_eq!(printed, longs(&page));
            assert!(printed.iter().all(|option| all.contains(option)), "{printed:?} has an option that is none");
            // The name of a test program is longer than ours.
            let is_usage = |line: &str| line.contains(&program_name());
            assert!(text.lines().all(|line| is_usage(line) || line.chars().count() <= 80), "{text}");
            assert!(!text.lines().any(|line| line.starts_with("           ")), "an option has two lines: {text}");
            assert!(groups.iter().all(|(heading, _)| text.contains(&format!("\n{heading}:\n"))), "{text}");
            assert_eq!(text.lines().last(), Some(LAST));
        }
    }

    #[test]
    fn other_commands_have_one_page() {
        let asked = |line: &str| brief(&line.split(' ').map(OsString::from).collect::<Vec<_>>()).is_some();
        for line in ["x serve --help", "x load http -h", "x help load"] {
            assert!(asked(line), "{line}");
        }
        for line in ["x serve --help-all", "x limits --help", "x --help", "x count -- serve --help"] {
            assert!(!asked(line), "{line}");
        }
    }
}
