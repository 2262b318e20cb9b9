//! The page that `--help` prints for `serve` and `load`: the options that most people need, one line each. `--help-all`
//! prints all options.

use std::ffi::OsString;

use clap::{Arg, Command};

use crate::base::setting::Setting;
use crate::cli::arguments::{load_command, load_settings, serve_command, serve_settings};
use crate::registry::catalogue;

/// A heading, and the ids of its options, each with its line; an empty line stands for the first clause of the option's help.
type Group = (&'static str, &'static [(&'static str, &'static str)]);

const SERVE: &[Group] = &[
    (
        "Design",
        &[
            ("pool", ""),
            ("wait", "How event loops wait: sleep, or spin (busy-poll)"),
            ("respawn", "Replace killed workers"),
        ],
    ),
    (
        "Connections",
        &[
            ("listen", ""),
            ("port", ""),
            ("backlog", ""),
            ("drain", "Time for open connections to end after a stop"),
            ("nodelay", "Send small segments at once (TCP_NODELAY)"),
        ],
    ),
    (
        "Requests",
        &[
            ("workload", ""),
            ("primitive", ""),
            ("receive", ""),
            ("bytes", ""),
            ("limit", ""),
            ("compute", ""),
            ("pause", ""),
        ],
    ),
    ("Where it runs", &[("cpus", "")]),
    ("Output", &[("count", ""), ("cpu-source", ""), ("dry-run", ""), ("json", "")]),
    HELP,
];

const LOAD: &[Group] = &[
    (
        "Load",
        &[
            ("load", ""),
            ("children", ""),
            ("clients", ""),
            ("threads", ""),
            ("rate", ""),
            ("loops", ""),
            ("duration", ""),
            ("warm_up", "Time from the first request to the measured window"),
        ],
    ),
    (
        "Connections",
        &[
            ("connect", "Address of the server: a name, IPv4, [IPv6], unix:@NAME or unix:/PATH"),
            ("connections", "One for each request, or kept"),
            ("pipeline", ""),
            ("timeout", "Time without progress until a connection fails"),
        ],
    ),
    (
        "Requests",
        &[
            ("bytes", ""),
            ("sizes", "Reply sizes, such as uniform:64..16384"),
            ("path", ""),
            ("mix", ""),
            ("expect", "Statuses that are no errors, such as 200,304"),
            ("method", ""),
            ("header", "A header field, such as 'Accept: */*'; repeatable"),
            ("check", "Compare the bytes of replies, or only count them"),
            ("primitive", ""),
            ("receive", ""),
        ],
    ),
    ("Where it runs", &[("cpus", ""), ("allow-remote", "")]),
    (
        "Output",
        &[("count", ""), ("show", "Print every connection, request, reply and failure"), ("dry-run", ""), ("json", "")],
    ),
    HELP,
];

const HELP: Group = ("Help", &[("help", ""), ("help-all", "")]);

/// The last line of the page.
const LAST: &str = "--help-all lists all options (docs/generated/reference/settings.md)";

/// Kinds of entries, for `list`, by the options that take the name of one.
const LISTED: &[(&str, &str)] = &[
    ("design", "designs"),
    ("workload", "workloads"),
    ("load", "loads"),
    ("primitive", "primitives"),
    ("receive", "primitives"),
    ("count", "counters"),
];

/// Maximum length of an option's text behind its name and value.
const ROOM: usize = 70;

/// Columns that a line may have.
const WIDTH: usize = 80;

/// Returns the short page for a command line that asks for help, as a command to print; none if it asks for all options, or
/// for another command's.
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
        .override_usage("thunderherd-engine serve <DESIGN> [WORKLOAD] [OPTIONS]")
        .after_help(LAST)
}

fn load_page() -> Command {
    page(&load_command(), LOAD, &load_settings().map(|(_, settings)| settings).concat())
        .override_usage(
            "thunderherd-engine load <WORKLOAD> --connect <HOST:PORT> [OPTIONS]\n       \
             thunderherd-engine load http://HOST:PORT/PATH [OPTIONS]",
        )
        .after_help(LAST)
}

/// Returns a command with the chosen options of the whole command, to be printed and not to be run.
fn page(whole: &Command, groups: &[Group], settings: &[Setting]) -> Command {
    let about = whole.get_about().map(ToString::to_string).unwrap_or_default();
    let page =
        Command::new(whole.get_name().to_owned()).about(first_clause(&about, ROOM).to_owned()).disable_help_flag(true);
    let page = whole.get_positionals().fold(page, |page, arg| page.arg(line(arg, "", &[], ROOM).required(true)));
    let named =
        |id: &str| whole.get_arguments().find(|arg| arg.get_id() == id).expect("a page lists options of its command");
    groups.iter().fold(page, |page, (heading, options)| {
        let names = options.iter().map(|(id, _)| columns_of(named(id))).max().unwrap_or_default();
        options.iter().fold(page, |page, (id, words)| {
            page.arg(line(named(id), words, settings, WIDTH - names).help_heading(*heading))
        })
    })
}

/// The columns of an option's name and value, with the blanks around them.
fn columns_of(arg: &Arg) -> usize {
    let values: usize = match arg.get_value_names() {
        _ if !arg.get_action().takes_values() => 0,
        Some(names) => names.iter().map(|name| name.chars().count() + 3).sum(),
        None => arg.get_id().as_str().len() + 3,
    };
    "  -x, --".len() + arg.get_long().map_or(0, str::len) + values + 2
}

/// Breaks a text at blanks into lines of at most so many characters. A default stays on one line.
fn folded(text: &str, room: usize) -> String {
    let mut lines = vec![String::new()];
    let (words, default) = text.rsplit_once(" [default").map_or((text, None), |(words, rest)| (words, Some(rest)));
    let default = default.map(|rest| format!("[default{rest}"));
    for word in words.split(' ').chain(default.as_deref()) {
        let last = lines.last_mut().expect("there is one");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > room {
            lines.push(word.to_owned());
        } else {
            last.extend([if last.is_empty() { "" } else { " " }, word]);
        }
    }
    lines.join("\n")
}

/// Returns an option with its words, or else with the first clause of its help, and its default, in lines of at most `room`.
fn line(arg: &Arg, words: &str, settings: &[Setting], room: usize) -> Arg {
    let id = arg.get_id().as_str();
    let setting = settings.iter().find(|setting| setting.name == id);
    let default = setting.map(catalogue::defaults).or_else(|| {
        arg.get_default_values()
            .first()
            .filter(|_| arg.get_action().takes_values())
            .map(|value| value.to_string_lossy().into_owned())
    });
    let mut end = match LISTED.iter().find(|(option, _)| *option == id) {
        Some((_, kind)) => format!(" (see `list {kind}`)"),
        None => String::new(),
    };
    if let Some(default) = default {
        end += &format!(" [default: {default}]");
    }
    let whole = match setting {
        Some(setting) => setting.help.to_owned(),
        None => arg.get_help().map(ToString::to_string).unwrap_or_default(),
    };
    let words = if words.is_empty() { first_clause(&whole, ROOM - end.len()) } else { words };
    let mut line =
        Arg::new(id.to_owned()).action(arg.get_action().clone()).help(folded(&format!("{words}{end}"), room));
    if let Some(long) = arg.get_long() {
        line = line.long(long.to_owned());
    }
    if let Some(short) = arg.get_short() {
        line = line.short(short);
    }
    match arg.get_value_names() {
        Some(names) if arg.get_action().takes_values() => line.value_names(names.to_vec()),
        _ => line,
    }
}

/// Cuts a text at the end of a clause if it is longer than this.
fn first_clause(text: &str, longest: usize) -> &str {
    ["; ", ". ", ", ", " (", ": "].iter().fold(text, |text, end| match text.split_once(end) {
        Some((first, _)) if text.len() > longest => first,
        _ => text,
    })
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
        text.lines().filter(|line| line.starts_with("  ")).filter_map(of_line).collect()
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
            assert!((15..=30).contains(&printed.len()), "{printed:?}");
            assert_eq!(printed, longs(&page));
            assert!(printed.iter().all(|option| all.contains(option)), "{printed:?} has an option that is none");
            assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
            assert!(groups.iter().all(|(heading, _)| text.contains(&format!("\n{heading}:\n"))), "{text}");
            assert_eq!(text.lines().last(), Some(LAST));
        }
    }

    #[test]
    fn long_texts_end_with_a_clause() {
        for (text, longest, cut) in [
            ("One; two, three", 20, "One; two, three"),
            ("One; two, three", 14, "One"),
            ("One, two: three", 9, "One"),
            ("One word", 3, "One word"),
        ] {
            assert_eq!(first_clause(text, longest), cut);
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
