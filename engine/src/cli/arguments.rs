//! The commands and options. Options for settings are made from their declarations, so a new setting needs no line here.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command, Error, value_parser};

use crate::base::about::Entry;
use crate::base::output::program_name;
use crate::base::setting::{Form, Kind, Setting};
use crate::base::unit::Unit;
use crate::client::event_loop::THREADS;
use crate::client::load::{CLIENTS, DURATION};
use crate::count::counter::Counter;
use crate::count::event_name::{self, FORMS};
use crate::count::perf_names;
use crate::counters;
use crate::designs::DESIGNS;
use crate::limits::LIMITS;
use crate::loads::LOADS;
use crate::primitives::PRIMITIVES;
use crate::registry::catalogue::{self, defaults};
use crate::requests::schedule::RATE;
use crate::runs;
use crate::transfer::primitive::{Direction, Primitive};
use crate::workloads::WORKLOADS;

/// Kinds of entries that `list` prints.
pub const KINDS: [&str; 6] = ["designs", "primitives", "workloads", "loads", "counters", "limits"];

/// Builds all commands with their options.
pub fn command() -> Command {
    Command::new("thunderherd-engine")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Serve and load real sockets, to measure server designs and send and receive primitives")
        .subcommand_required(true)
        .subcommand(serve_command())
        .subcommand(host_command())
        .subcommand(load_command())
        .subcommand(conform_command())
        .subcommand(generate_command())
        .subcommand(count_command())
        .subcommand(profile_command())
        .subcommand(flame_command())
        .subcommand(namespace_command())
        .subcommand(limits_command())
        .subcommand(list_command())
        .subcommand(Command::new("schema").about("Print the JSON Schema of all lines printed for programs"))
}

/// Builds `serve`.
pub fn serve_command() -> Command {
    let command = Command::new("serve")
        .about("Serve a workload with a design until a signal, such as SIGINT, ends it")
        .override_usage(format!("{} serve <DESIGN> [WORKLOAD] [OPTIONS]", program_name()))
        .arg(
            chosen("design", DESIGNS).required(true).help("Server design: how connections reach processes and threads"),
        )
        .arg(chosen("workload", WORKLOADS).long("workload").default_value(defaults::WORKLOAD).help("The protocol"))
        .args(primitives())
        .arg(
            text("listen", "HOST:PORT")
                .help("Address to listen on, or unix:@NAME; the kernel chooses if the port is 0 or NAME is empty"),
        )
        .arg(
            text("port", "PORT")
                .value_parser(value_parser!(u16))
                .help("Port to listen on at 127.0.0.1 (default: the port in the workload's source)")
                .conflicts_with("listen"),
        )
        .arg(
            text("cpu-source", "SOURCE")
                .value_parser(PossibleValuesParser::new(runs::serve::cpu_time::CHOICES))
                .default_value("auto")
                .help("CPU source: where the CPU time of a window comes from"),
        )
        .arg(flag("control").help(
            "Print JSON lines, read the command `snapshot` from standard input, and stop when standard input ends",
        ))
        .arg(
            flag("dry-run")
                .conflicts_with("control")
                .help("Only check the options, without opening a socket or starting a process"),
        )
        .arg(flag("json").requires("dry-run").help("Print the result of --dry-run as a JSON line"));
    with_settings(common(command), serve_settings())
}

/// Headings of the settings of `serve`, with the settings.
pub fn serve_settings() -> [(&'static str, Vec<Setting>); 4] {
    [
        ("Settings of designs", settings(DESIGNS, |design| design.settings)),
        ("Settings of primitives", settings(PRIMITIVES, Primitive::all_settings)),
        ("Settings of workloads", settings(WORKLOADS, |workload| workload.service_settings)),
        ("Settings of every server", catalogue::SERVER_SETTINGS.to_vec()),
    ]
}

fn host_command() -> Command {
    Command::new("host")
        .about("Run a server that is not ours, or watch one that is running, and print the lines of `serve --control`")
        .long_about(
            "Run a server that is not ours, or watch one that is running, and print the lines of `serve --control`: CPU time \
             and counters, but no tally. A command gets its address by {host} and {port} in its arguments, and by HOST \
             and PORT in its environment. It is ready when it accepts, and must end after SIGTERM",
        )
        .arg(
            text("listen", "HOST:PORT")
                .default_value("127.0.0.1:0")
                .help("Address for the command (port 0: any free port), or of the running server"),
        )
        .arg(text("ready-line", "TEXT").help("The command is ready when it prints a line with this text"))
        .arg(flag("running").conflicts_with("command").help("Watch the server that is running at --listen"))
        .arg(command_to_run().value_name("COMMAND").required(false).required_unless_present("running"))
        .arg(cpus_option("CPUs to pin the command to, for instance 0 or 0-3,6 (default: all)"))
        .arg(user_option("User that the command runs as, if this program runs as root (default: the same)"))
        .arg(counters_option())
        .arg(text("network-namespace", "PATH").help("Network namespace to enter first, as printed by `namespace`"))
        .arg(parent())
}

/// Builds `load`.
pub fn load_command() -> Command {
    let command = Command::new("load")
        .about("Load a server, count its replies and check their bytes; exit status 1 if replies are missing or wrong")
        .override_usage(format!(
            "{program} load <WORKLOAD> --connect <HOST:PORT> [OPTIONS]\n       \
             {program} load http://HOST:PORT/PATH [-c CLIENTS] [-d TIME] [-t THREADS] [-R RATE] [-m METHOD] [-H HEADER] [OPTIONS]",
            program = program_name()
        ))
        .after_help(format!(
            "A URL, such as http://HOST:PORT/PATH or echo://HOST:PORT, stands for the workload, --connect and --path. \
             Without --load, the load is then {} if a rate is given, else {}; connections persist, and the load lasts \
             10 s, unless other options are given",
            defaults::LOAD_WITH_RATE,
            defaults::LOAD_OF_URL,
        ))
        .arg(chosen("workload", WORKLOADS).required(true).help("The protocol"))
        .arg(
            text("connect", "HOST:PORT")
                .required(true)
                .help("Address of the server: a name, IPv4, or IPv6 in brackets, with a zone or not; unix:@NAME; or unix:/PATH"),
        )
        .arg(chosen("load", LOADS).long("load").default_value(defaults::LOAD).help("How many clients send requests, and when"))
        .args(primitives())
        .arg(
            flag("allow-remote")
                .help("Load a server that is not on a loopback address, after printing the upper bounds of the load"),
        )
        .arg(
            flag("dry-run")
                .help("Only check the options and the files that they name, without connecting to a server"),
        )
        .arg(
            flag("show")
                .conflicts_with("json")
                .help("Print every connection, request, reply and failure with the number of its client"),
        )
        .arg(flag("original").conflicts_with_all(["show", "json"]).help("Print what the client of the workload's source prints"))
        .arg(flag("json").help("Print the result as a JSON line, after the marks of a load that ends by time"))
        .arg(flag("control").requires("json").help(
            "Print a line when all clients are about to send, and wait for `start NANOSECONDS` (CLOCK_MONOTONIC) on standard input",
        ));
    // As wrk(1) and oha have them; the last two are settings of one workload.
    let of_loads =
        [(CLIENTS, 'c'), (DURATION, 'd'), (THREADS, 't'), (RATE, 'R')].map(|(setting, short)| (setting.name, short));
    let short = of_loads.into_iter().chain([("header", 'H'), ("method", 'm')]);
    let command = with_settings(common(command), load_settings());
    short.fold(command, |command, (name, short)| command.mut_arg(name, |arg| arg.short(short)))
}

/// Headings of the settings of `load`, with the settings.
pub fn load_settings() -> [(&'static str, Vec<Setting>); 4] {
    [
        ("Settings of loads", settings(LOADS, |load| load.settings)),
        ("Settings of primitives", settings(PRIMITIVES, Primitive::all_settings)),
        ("Settings of workloads", settings(WORKLOADS, |workload| workload.client_settings)),
        ("Settings of every load", catalogue::LOAD_SETTINGS.to_vec()),
    ]
}

fn conform_command() -> Command {
    let command = Command::new("conform")
        .about("Run the cases that any server of a workload must pass; exit status 1 if one fails")
        .arg(chosen("workload", WORKLOADS).required_unless_present("list").help("The protocol"))
        .arg(text("connect", "HOST:PORT").required_unless_present("list").help("Address of the server"))
        .arg(
            text("case", "N,N")
                .value_delimiter(',')
                .value_parser(value_parser!(u32))
                .action(ArgAction::Append)
                .help("Cases to run, by number (default: all of the workload)"),
        )
        .arg(flag("list").conflicts_with_all(["workload", "connect"]).help("List the cases, and run none"))
        .arg(
            flag("control")
                .requires("json")
                .help("Print a line to request that the server be stopped, and wait for a line on standard input"),
        )
        .arg(flag("until-failure").help("End after the first case that fails"))
        .arg(flag("plain").help("Send GET of the path wherever a case of HTTP may choose the request"))
        .arg(
            flag("any-status")
                .requires("plain")
                .help("Accept any status but 400 and those of class 5, for a load that judges statuses"),
        )
        .arg(flag("allow-remote").help("Send the cases to a server that is not on this machine"))
        .arg(flag("json").help("Print a JSON line for each case"))
        .arg(parent());
    with_settings(command, [("Settings", runs::conform::SETTINGS.to_vec())])
}

fn generate_command() -> Command {
    Command::new("generate")
        .about("Run a load generator that is not ours, and print what it used from exec to exit")
        .long_about(
            "Run a load generator that is not ours, and print what it and its child processes used from exec to exit. The JSON \
             line `life` follows everything that the command prints. What the command leaves running is killed. Signals such \
             as SIGINT are passed on; a command that runs 1 s longer is killed. The exit status is the command's, or 128 plus \
             the signal's number if a signal ended it",
        )
        .arg(command_to_run().value_name("COMMAND"))
        .arg(cpus_option("CPUs to pin the command to, for instance 0 or 0-3,6 (default: all)"))
        .arg(user_option("User that the command runs as, if this program runs as root (default: the same)"))
        .arg(counters_option())
        .arg(text("network-namespace", "PATH").help("Network namespace to enter first, as printed by `namespace`"))
        .arg(parent())
}

/// The first counters that `perf stat` shows by default.
const COUNTED: &str = "task_clock,context_switches,cpu_migrations,page_faults";

fn count_command() -> Command {
    Command::new("count")
        .about("Run serve or load, and print what it and its child processes used from exec to exit, as perf stat does")
        .long_about(
            "Run serve or load, and print what it and its child processes used from exec to exit, as perf stat does. The \
             JSON line `life` follows everything that the command prints. Signals such as SIGINT are passed on. The exit status \
             is the command's, or 128 plus the signal's number if a signal ended it",
        )
        .arg(counters_option().default_value(COUNTED))
        .arg(parent())
        .arg(command_to_run())
}

fn profile_command() -> Command {
    Command::new("profile")
        .about("Run serve or load, and write where it and its child processes spend their time, as sampled stacks")
        .long_about(
            "Run serve or load, and write where it and its child processes spend their time from exec to exit: sampled stacks \
             of the program and the kernel. The file has one JSON line about the profile, then one for each stack. The first \
             line also follows everything that the command prints. Signals such as SIGINT are passed on. The exit status is \
             the command's, or 128 plus the signal's number if a signal ended it",
        )
        .arg(file("output", "FILE").required_unless_present("check").help("File to write"))
        .arg(
            flag("check")
                .conflicts_with_all(["output", "command"])
                .help("Run nothing; print as a JSON line what a profile on this machine would record, or why none is possible"),
        )
        .arg(
            text("frequency", "HERTZ")
                .value_parser(value_parser!(u64).range(1..=10_000))
                .default_value("997")
                .help("Samples per second of CPU time; avoid multiples of the kernel's tick rate"),
        )
        .arg(
            text("event", "EVENT")
                .value_parser(PossibleValuesParser::new(runs::profile::EVENTS))
                .default_value(runs::profile::EVENTS[0])
                .help("Event at which the kernel takes a sample; auto is cycles if a PMU counts them, otherwise cpu-clock"),
        )
        .arg(parent())
        .arg(command_to_run().required(false).required_unless_present("check"))
}

fn command_to_run() -> Arg {
    Arg::new("command")
        .value_name("serve ... | load ...")
        .value_parser(value_parser!(OsString))
        .num_args(1..)
        .trailing_var_arg(true)
        .allow_hyphen_values(true)
        .required(true)
        .help("Command to run")
}

fn flame_command() -> Command {
    Command::new("flame")
        .about("Draw the flame graph of folded stacks, or of the difference between two")
        .arg(
            Arg::new("stacks")
                .value_name("STACKS.folded")
                .value_parser(value_parser!(PathBuf))
                .required(true)
                .help("Folded stacks: lines `outer;inner;innermost 42`; functions of the kernel end in _[k]"),
        )
        .arg(file("output", "FILE.svg").required(true).help("File to write"))
        .arg(text("title", "TEXT").required(true).help("Title above the graph"))
        .arg(text("subtitle", "TEXT").help("Subtitle"))
        .arg(file("before", "OTHER.folded").help(
            "Folded stacks to compare with; functions with more counts in STACKS.folded are red, those with fewer blue",
        ))
        .arg(text("unit", "WORDS").default_value("samples").help("Unit of the counts"))
        .arg(
            text("minimum-width", "PERCENT")
                .value_parser(value_parser!(f64))
                .default_value("0.1")
                .help("Leave out functions with a smaller share, to keep the file small"),
        )
}

fn file(name: &'static str, value: &'static str) -> Arg {
    text(name, value).value_parser(value_parser!(PathBuf))
}

fn namespace_command() -> Command {
    let command = Command::new("namespace")
        .about("Make two network namespaces, joined by a pair of interfaces, and hold them until standard input ends")
        .long_about(
            "Make two network namespaces, joined by a pair of interfaces, and hold them until standard input ends. A JSON \
             line prints their paths for --network-namespace: `serve` enters the server's, `load` the clients'. Users who \
             are not root also get a user namespace. The namespaces disappear after this command and every process in \
             them have ended",
        )
        .arg(
            text("sysctls", "NAME,NAME")
                .value_delimiter(',')
                .value_parser(runs::namespace::sysctl_name)
                .action(ArgAction::Append)
                .help("Kernel settings to report for both namespaces, such as net.ipv4.tcp_wmem"),
        )
        .arg(parent());
    with_settings(command, [("Settings of the pair", runs::namespace::SETTINGS.to_vec())])
}

fn limits_command() -> Command {
    let command = Command::new("limits")
        .about("Measure what a system call, a copy or a new process costs on this machine")
        .long_about(
            "Measure what a system call, a copy or a new process costs on this machine. Prints a JSON line for every round \
             of every machine limit; `thunderherd limits` computes statistics of them",
        )
        .arg(chosen("names", LIMITS).value_name("NAMES").num_args(0..).help("Machine limits to measure (default: all)"))
        .arg(cpus_option("CPU of this process, then CPU of peers (default: the first two that it may use)"))
        .arg(parent());
    with_settings(command, [("Settings", runs::limits::SETTINGS.to_vec())])
}

fn list_command() -> Command {
    Command::new("list")
        .about("List designs, primitives, workloads, loads, counters and limits")
        .arg(Arg::new("kind").value_parser(PossibleValuesParser::new(KINDS)).help("Kind to list (default: all)"))
        .arg(flag("json").help("Print JSON"))
        .arg(
            flag("matrix")
                .help("Show which primitives fit which designs, loads and workloads, and why others do not")
                .conflicts_with_all(["kind", "json"]),
        )
}

fn common(command: Command) -> Command {
    command
        .arg(cpus_option("CPUs to pin to, for instance 0 or 0-3,6 (default: all)"))
        .arg(user_option("User to run as after the set-up, if this program runs as root (default: the same)"))
        .arg(counters_option())
        .arg(text("network-namespace", "PATH").help("Network namespace to enter first, as printed by `namespace`"))
        .arg(parent())
        .disable_help_flag(true)
        .args(help_options())
}

/// Returns the options of `--help` and `--help-all`.
fn help_options() -> [Arg; 2] {
    let option = |name| Arg::new(name).long(name).action(ArgAction::Help);
    [
        option("help").short('h').help("Print the options that most people need"),
        option("help-all").help("Print all options"),
    ]
}

fn cpus_option(help: &'static str) -> Arg {
    text("cpus", "LIST").value_delimiter(',').value_parser(cpus).action(ArgAction::Append).help(help)
}

fn user_option(help: &'static str) -> Arg {
    text("user", "NAME").help(help)
}

/// Parses the number of a CPU, or a range of numbers, as taskset(1) does.
fn cpus(text: &str) -> Result<Vec<usize>, &'static str> {
    const ALLOWED: &str = "allowed: numbers of CPUs, from 0, and ranges, with commas between them, for instance 0-3,6";
    let number = |text: &str| text.parse::<usize>().map_err(|_| ALLOWED);
    let Some((first, last)) = text.split_once('-') else { return Ok(vec![number(text)?]) };
    let (first, last) = (number(first)?, number(last)?);
    if first > last || last - first > MOST_CPUS {
        return Err(ALLOWED);
    }
    Ok((first..=last).collect())
}

/// Maximum length of a range of CPUs; the kernel supports fewer (CONFIG_NR_CPUS).
const MOST_CPUS: usize = 1 << 16;

fn parent() -> Arg {
    text("parent", "PID")
        .value_parser(value_parser!(i32))
        .help("Process id of the parent; this process is killed when the parent ends")
}

fn counters_option() -> Arg {
    text("count", "NAME,NAME").value_parser(CounterNames).action(ArgAction::Append).help(format!(
        "Counters of the whole process tree, or any event by its name: {FORMS}. A counter that this machine lacks is \
             reported as unavailable with the reason"
    ))
}

/// Parses names of counters and events.
#[derive(Clone)]
struct CounterNames;

impl TypedValueParser for CounterNames {
    type Value = Vec<&'static Entry<Counter>>;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Self::Value, Error> {
        let refused = |name: &str, reason: &str, instead: Option<String>| {
            let tip = instead.map(|instead| format!("tip: {instead}\n")).unwrap_or_default();
            Error::raw(ErrorKind::ValueValidation, format!("--count {name}: {reason}\n{tip}")).with_cmd(command)
        };
        let one = |name: &str| match (counters::named(name), perf_names::nearest_to(name)) {
            (Some(found), _) => found.map_err(|reason| {
                let instead = event_name::with_modifiers(name).map(|(event, _)| format!("write {event}"));
                refused(name, &reason, instead)
            }),
            // A hyphen means a name of perf, and the list of counters has none of those.
            (None, Some(near)) if name.contains('-') => {
                Err(refused(name, "no such counter or perf event", Some(format!("did you mean {near}?"))))
            }
            (None, _) => {
                let listed = PossibleValuesParser::new(counters::countable().map(|entry| entry.name));
                let name = listed.parse_ref(command, arg, OsStr::new(name))?;
                unreachable!("{name} is listed and has no entry")
            }
        };
        event_name::split(&value.to_string_lossy()).into_iter().map(one).collect()
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let names: Vec<PossibleValue> = counters::countable().map(|entry| PossibleValue::new(entry.name)).collect();
        Some(Box::new(names.into_iter()))
    }
}

fn text(name: &'static str, value: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value)
}

fn flag(name: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue)
}

fn chosen<T>(name: &'static str, entries: &[Entry<T>]) -> Arg {
    chosen_of(name, entries, |_| true)
}

fn chosen_of<T>(name: &'static str, entries: &[Entry<T>], fits: impl Fn(&T) -> bool) -> Arg {
    let fitting = entries.iter().filter(|entry| fits(entry.item)).map(|entry| entry.name);
    Arg::new(name).value_parser(PossibleValuesParser::new(fitting))
}

/// The options for the send and the receive primitive.
fn primitives() -> [Arg; 2] {
    let out = |primitive: &Primitive| primitive.moves.direction() == Direction::Out;
    [
        chosen_of("primitive", PRIMITIVES, out).long("primitive").default_value(defaults::SENDS).help("Send primitive"),
        chosen_of("receive", PRIMITIVES, |primitive| !out(primitive))
            .long("receive")
            .value_name("PRIMITIVE")
            .default_value(defaults::RECEIVES)
            .help("Receive primitive"),
    ]
}

/// Collects the settings of all entries of a kind.
pub fn settings<T, S: AsRef<[Setting]>>(entries: &[Entry<T>], of: impl Fn(&T) -> S) -> Vec<Setting> {
    entries.iter().flat_map(|entry| of(entry.item).as_ref().to_vec()).collect()
}

/// Returns what the value of a setting is, in one word.
fn value_name(setting: &Setting) -> &'static str {
    match (setting.kind, setting.unit) {
        (_, Unit::Bytes) => "SIZE",
        (_, Unit::Time { .. }) => "TIME",
        (_, Unit::BitRate) => "RATE",
        (_, Unit::Share) => "PERCENT",
        (Kind::Integer { .. }, _) => "N",
        (Kind::Boolean { .. }, _) => "BOOL",
        (Kind::Choice { .. }, _) => "WORD",
        (Kind::Text { .. }, _) => "TEXT",
    }
}

/// Adds an option for every setting, each name once.
fn with_settings<const N: usize>(mut command: Command, groups: [(&'static str, Vec<Setting>); N]) -> Command {
    for (heading, group) in groups {
        for setting in group {
            if command.get_arguments().any(|argument| argument.get_id() == setting.name) {
                continue;
            }
            let unit = setting.unit.counted().map(|things| format!(" {things};")).unwrap_or_default();
            let default = catalogue::defaults(&setting);
            let repeats = matches!(setting.kind, Kind::Text { form: Form::Lines, .. });
            command = command.arg(
                Arg::new(setting.name)
                    .action(if repeats { ArgAction::Append } else { ArgAction::Set })
                    .long(setting.option())
                    .value_name(value_name(&setting))
                    .allow_hyphen_values(true)
                    .help(format!("{} [{}{unit} default: {default}]", setting.help, setting.allowed() + ";"))
                    .help_heading(heading),
            );
        }
    }
    command
}
