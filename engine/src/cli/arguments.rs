//! The command line as it may be typed. Options for settings are made from their declarations, so a new setting needs no
//! line here.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command, Error, value_parser};

use crate::base::about::Entry;
use crate::base::setting::Setting;
use crate::count::counter::Counter;
use crate::count::event_name::{self, FORMS};
use crate::count::perf_names;
use crate::counters;
use crate::designs::DESIGNS;
use crate::limits::LIMITS;
use crate::loads::LOADS;
use crate::primitives::PRIMITIVES;
use crate::registry::catalogue::{self, usual};
use crate::runs;
use crate::transfer::primitive::{Direction, Primitive};
use crate::workloads::WORKLOADS;

/// What there are lists of.
pub const KINDS: [&str; 6] = ["designs", "primitives", "workloads", "loads", "counters", "limits"];

/// All commands with their options.
pub fn command() -> Command {
    Command::new("thunderherd-engine")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Serves and loads real sockets, so that server designs and ways of moving bytes can be measured")
        .subcommand_required(true)
        .subcommand(serve_command())
        .subcommand(load_command())
        .subcommand(count_command())
        .subcommand(profile_command())
        .subcommand(flame_command())
        .subcommand(namespace_command())
        .subcommand(limits_command())
        .subcommand(list_command())
        .subcommand(Command::new("schema").about("Print the JSON Schema of all lines that are printed for programs"))
}

fn serve_command() -> Command {
    let command = Command::new("serve")
        .about("Serve a workload with a design until SIGINT or SIGTERM")
        .arg(chosen("design", DESIGNS).required(true).help("How connections are handed to what serves them"))
        .arg(chosen("workload", WORKLOADS).long("workload").default_value(usual::WORKLOAD).help("The protocol"))
        .args(primitives())
        .arg(
            text("listen", "HOST:PORT").help(
                "Where to listen, port 0 is the kernel's choice; or unix:@NAME, without a name the kernel's choice",
            ),
        )
        .arg(
            text("port", "PORT")
                .value_parser(value_parser!(u16))
                .help("Port to listen on at 127.0.0.1; the textbook's port when neither is given")
                .conflicts_with("listen"),
        )
        .arg(
            text("cpu-source", "SOURCE")
                .value_parser(PossibleValuesParser::new(runs::cpu_time::CHOICES))
                .default_value("auto")
                .help("Where the CPU time of a window comes from"),
        )
        .arg(flag("control").help("Print JSON lines, take the command `snapshot` on standard input, stop at its end"));
    let groups = [
        ("Settings of designs", settings(DESIGNS, |design| design.settings)),
        ("Settings of primitives", settings(PRIMITIVES, Primitive::all_settings)),
        ("Settings of workloads", settings(WORKLOADS, |workload| workload.service_settings)),
        ("Settings of every server", catalogue::SERVER_SETTINGS.to_vec()),
    ];
    with_settings(common(command), groups)
}

fn load_command() -> Command {
    let command = Command::new("load")
        .about("Ask a server, count the replies and check their bytes; exit status 1 unless all came and were right")
        .arg(chosen("workload", WORKLOADS).required(true).help("The protocol"))
        .arg(
            text("connect", "HOST:PORT")
                .required(true)
                .help("The server: a name, IPv4, or IPv6 in brackets; or unix:@NAME"),
        )
        .arg(chosen("load", LOADS).long("load").default_value(usual::LOAD).help("Who asks, how often"))
        .args(primitives())
        .arg(
            flag("allow-remote")
                .help("Load a server that is not on a loopback address; what is done to it at most is said first"),
        )
        .arg(
            flag("dry-run")
                .help("Connect to nobody: only read all that the load is told, files included, and say what is wrong"),
        )
        .arg(
            flag("show")
                .conflicts_with("json")
                .help("Print every connection, request and reply, and what failed, each with its client's number"),
        )
        .arg(flag("original").conflicts_with_all(["show", "json"]).help("Print what the source's own client prints"))
        .arg(flag("json").help("Print the result as a JSON line, and before it the marks of a load that ends by time"));
    let groups = [
        ("Settings of loads", settings(LOADS, |load| load.settings)),
        ("Settings of primitives", settings(PRIMITIVES, Primitive::all_settings)),
        ("Settings of workloads", settings(WORKLOADS, |workload| workload.client_settings)),
        ("Settings of every load", catalogue::LOAD_SETTINGS.to_vec()),
    ];
    with_settings(common(command), groups)
}

/// What `perf stat` shows first when nobody asks for anything else.
const COUNTED: &str = "task_clock,context_switches,cpu_migrations,page_faults";

fn count_command() -> Command {
    Command::new("count")
        .about("Run serve or load, and print what it and all that it forks used from exec to exit, as perf stat does")
        .long_about(
            "Run serve or load, and print what it and all that it forks used from exec to exit, as perf stat does. The line \
             `life` (JSON) comes after everything that the command prints. SIGINT and SIGTERM are passed on. The exit status \
             is the command's; 128 and the signal's number where a signal ended it",
        )
        .arg(counters_asked().default_value(COUNTED))
        .arg(parent())
        .arg(command_to_run())
}

fn profile_command() -> Command {
    Command::new("profile")
        .about("Run serve or load, and write where it and all that it forks spend their time: stacks, from exec to exit")
        .long_about(
            "Run serve or load, and write where it and all that it forks spend their time: sampled stacks, of the kernel as \
             well as of the program, from exec to exit. The file has one JSON line about the profile, then one for each \
             stack. The first one also comes after everything that the command prints. SIGINT and SIGTERM are passed on. The \
             exit status is the command's; 128 and the signal's number where a signal ended it",
        )
        .arg(file("output", "FILE").required_unless_present("check").help("The file to write"))
        .arg(
            flag("check")
                .conflicts_with_all(["output", "command"])
                .help("Run nothing, and print as a JSON line what a profile would be here, or why there can be none"),
        )
        .arg(
            text("frequency", "HERTZ")
                .value_parser(value_parser!(u64).range(1..=10_000))
                .default_value("997")
                .help("Samples for each second of CPU time; no multiple of what the kernel does at its ticks"),
        )
        .arg(
            text("event", "EVENT")
                .value_parser(PossibleValuesParser::new(runs::profile::EVENTS))
                .default_value(runs::profile::EVENTS[0])
                .help("What makes the kernel take a sample: auto is cycles where a PMU has them, else cpu-clock"),
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
        .help("What to run")
}

fn flame_command() -> Command {
    Command::new("flame")
        .about("Draw the flame graph of folded stacks, or of the difference between two")
        .arg(
            Arg::new("stacks")
                .value_name("STACKS.folded")
                .value_parser(value_parser!(PathBuf))
                .required(true)
                .help("Lines `outer;inner;innermost 42`; functions of the kernel end in _[k]"),
        )
        .arg(file("output", "FILE.svg").required(true).help("The file to write"))
        .arg(text("title", "TEXT").required(true).help("What stands above it"))
        .arg(text("subtitle", "TEXT").help("What stands below that"))
        .arg(file("before", "OTHER.folded").help(
            "Stacks to compare with, count by count: red is what STACKS.folded has more of, blue what it has less of",
        ))
        .arg(text("unit", "WORDS").default_value("samples").help("What the numbers of the lines are numbers of"))
        .arg(
            text("minimum-width", "PERCENT")
                .value_parser(value_parser!(f64))
                .default_value("0.1")
                .help("Functions with a smaller share are left out, which keeps the file small"),
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
             line says where they are: `serve` enters the server's with --network-namespace, `load` the clients'. Whoever \
             is not root has a user namespace made for them. They vanish when this ends and nothing is in them any more",
        )
        .arg(
            text("sysctls", "NAME,NAME")
                .value_delimiter(',')
                .value_parser(runs::namespace::sysctl_name)
                .action(ArgAction::Append)
                .help("Kernel settings to tell of both, such as net.ipv4.tcp_wmem"),
        )
        .arg(parent());
    with_settings(command, [("Settings of the pair", runs::namespace::SETTINGS.to_vec())])
}

fn limits_command() -> Command {
    let command = Command::new("limits")
        .about("Measure what one system call, one copy, one process cost here when nothing else is done")
        .long_about(
            "Measure what one system call, one copy, one process cost here when nothing else is done. Prints JSON lines: \
             every round of every limit as it was, without any statistics, which `thunderherd limits` computes",
        )
        .arg(chosen("names", LIMITS).value_name("NAMES").num_args(0..).help("Only these; all if none is named"))
        .arg(cpus_asked("CPUs to be pinned to: that of this process, and that of other ends; the first two it may use"))
        .arg(parent());
    with_settings(command, [("Settings", runs::limits::SETTINGS.to_vec())])
}

fn list_command() -> Command {
    Command::new("list")
        .about("List what is registered")
        .arg(Arg::new("kind").value_parser(PossibleValuesParser::new(KINDS)).help("Only these"))
        .arg(flag("json").help("Print JSON"))
        .arg(flag("matrix").help("Show which primitive fits what, and why not").conflicts_with_all(["kind", "json"]))
}

fn common(command: Command) -> Command {
    command
        .arg(cpus_asked("CPUs to be pinned to, for instance 0 or 0,1"))
        .arg(counters_asked())
        .arg(
            text("network-namespace", "PATH")
                .help("Enter this network namespace before anything else, as `namespace` prints it"),
        )
        .arg(parent())
}

fn cpus_asked(help: &'static str) -> Arg {
    text("cpus", "LIST").value_delimiter(',').value_parser(cpu).action(ArgAction::Append).help(help)
}

/// The number of a CPU, as the command line has it.
fn cpu(text: &str) -> Result<usize, &'static str> {
    text.parse().map_err(|_| "it takes numbers of CPUs with commas between them, counted from 0, for instance 0,1")
}

fn parent() -> Arg {
    text("parent", "PID")
        .value_parser(value_parser!(i32))
        .help("Be killed when this process, which must be the parent, ends")
}

fn counters_asked() -> Arg {
    text("count", "NAME,NAME")
        .value_parser(CounterNames)
        .action(ArgAction::Append)
        .help(format!(
            "Counters to read, of everything that is started; or any event by its name: {FORMS}. What this machine lacks is \
             unavailable, with the reason"
        ))
}

/// The names of counters: those of the list, and those of events.
#[derive(Clone)]
struct CounterNames;

impl TypedValueParser for CounterNames {
    type Value = Vec<&'static Entry<Counter>>;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Self::Value, Error> {
        let refused = |name: &str, reason: &str| {
            Error::raw(ErrorKind::ValueValidation, format!("--count {name}: {reason}\n")).with_cmd(command)
        };
        let one = |name: &str| match (counters::named(name), perf_names::nearest_to(name)) {
            (Some(found), _) => found.map_err(|reason| refused(name, &reason)),
            // Whoever types a hyphen means perf's names, which the list of counters has not.
            (None, Some(near)) if name.contains('-') => Err(refused(
                name,
                &format!("neither a counter nor an event of perf's is called so; did you mean {near}?"),
            )),
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

/// A primitive for each direction.
fn primitives() -> [Arg; 2] {
    let out = |primitive: &Primitive| primitive.moves.direction() == Direction::Out;
    [
        chosen_of("primitive", PRIMITIVES, out)
            .long("primitive")
            .default_value(usual::SENDS)
            .help("How bytes are sent"),
        chosen_of("receive", PRIMITIVES, |primitive| !out(primitive))
            .long("receive")
            .value_name("PRIMITIVE")
            .default_value(usual::RECEIVES)
            .help("How bytes are received"),
    ]
}

/// The settings of all entries of a kind.
pub fn settings<T, S: AsRef<[Setting]>>(entries: &[Entry<T>], of: impl Fn(&T) -> S) -> Vec<Setting> {
    entries.iter().flat_map(|entry| of(entry.item).as_ref().to_vec()).collect()
}

/// An option for every setting, each name once.
fn with_settings<const N: usize>(mut command: Command, groups: [(&'static str, Vec<Setting>); N]) -> Command {
    for (heading, group) in groups {
        for setting in group {
            if command.get_arguments().any(|argument| argument.get_id() == setting.name) {
                continue;
            }
            let unit = setting.unit.map(|unit| format!(" {unit};")).unwrap_or_default();
            let default = catalogue::defaults(&setting);
            command = command.arg(
                Arg::new(setting.name)
                    .long(setting.option())
                    .value_name("VALUE")
                    .allow_hyphen_values(true)
                    .help(format!("{} [{}{unit} default: {default}]", setting.help, setting.allowed() + ";"))
                    .help_heading(heading),
            );
        }
    }
    command
}
