//! The command line. Options for settings are made from their declarations, so a new setting needs no line here.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::IpAddr;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::builder::PossibleValuesParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::about::Entry;
use crate::asking;
use crate::channel::Way;
use crate::counters::{self, Counter};
use crate::counting;
use crate::cpu_time;
use crate::design::Design;
use crate::designs::DESIGNS;
use crate::holes;
use crate::lines;
use crate::load::Load;
use crate::loads::LOADS;
use crate::mistake::mistake;
use crate::output::{say, unless_closed};
use crate::primitive::{Direction, Primitive};
use crate::primitives::PRIMITIVES;
use crate::registry;
use crate::setting::{Setting, Settings, Value};
use crate::supervisor;
use crate::sys::process::{self, Pid};
use crate::workload::Workload;
use crate::workloads::WORKLOADS;

const KINDS: [&str; 5] = ["designs", "primitives", "workloads", "loads", "counters"];

/// Runs the command line.
pub fn run(arguments: Vec<OsString>) -> Result<ExitCode> {
    let matches = match command().try_get_matches_from(&arguments) {
        Ok(matches) => matches,
        // Help and version; colours only where a terminal shows them.
        Err(error) if !error.use_stderr() => return unless_closed(error.print()).map(|()| ExitCode::SUCCESS),
        Err(error) => return Err(refused(&error, arguments)),
    };
    match matches.subcommand() {
        Some(("serve", matches)) => serve(matches),
        Some(("load", matches)) => load(matches).map(|()| ExitCode::SUCCESS),
        Some(("count", matches)) => count(matches),
        Some(("list", matches)) => list(matches).map(|()| ExitCode::SUCCESS),
        Some(("schema", _)) => say(&format!("{:#}\n", lines::schema())).map(|()| ExitCode::SUCCESS),
        _ => unreachable!("a subcommand is required"),
    }
}

fn command() -> Command {
    Command::new("thunderherd-engine")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Serves and loads real sockets, so that server designs and ways of moving bytes can be measured")
        .subcommand_required(true)
        .subcommand(serve_command())
        .subcommand(load_command())
        .subcommand(count_command())
        .subcommand(list_command())
        .subcommand(Command::new("schema").about("Print the JSON Schema of the lines that serve, load and count print"))
}

fn serve_command() -> Command {
    let command = Command::new("serve")
        .about("Serve a workload with a design until SIGINT or SIGTERM")
        .arg(chosen("design", DESIGNS).required(true).help("How connections are handed to what serves them"))
        .arg(chosen("workload", WORKLOADS).long("workload").default_value("bytes").help("The protocol"))
        .args(primitives())
        .arg(text("listen", "HOST:PORT").help("Where to listen; port 0 is the kernel's choice"))
        .arg(
            text("port", "PORT")
                .value_parser(value_parser!(u16))
                .help("Port to listen on at 127.0.0.1; the textbook's port when neither is given")
                .conflicts_with("listen"),
        )
        .arg(
            text("cpu-source", "SOURCE")
                .value_parser(PossibleValuesParser::new(cpu_time::CHOICES))
                .default_value("auto")
                .help("Where the CPU time of a window comes from"),
        )
        .arg(flag("control").help("Print JSON lines, take the command `snapshot` on standard input, stop at its end"));
    let groups = [
        ("Settings of designs", settings(DESIGNS, |design| design.settings)),
        ("Settings of primitives", settings(PRIMITIVES, |primitive| primitive.settings)),
        ("Settings of workloads", settings(WORKLOADS, |workload| workload.service_settings)),
        ("Settings of every server", registry::SERVER_SETTINGS.to_vec()),
    ];
    with_settings(common(command), groups)
}

fn load_command() -> Command {
    let command = Command::new("load")
        .about("Ask a server, count the replies and check their bytes; exit status 1 unless all came and were right")
        .arg(chosen("workload", WORKLOADS).required(true).help("The protocol"))
        .arg(text("connect", "HOST:PORT").required(true).help("The server: a name, IPv4, or IPv6 in brackets"))
        .arg(chosen("load", LOADS).long("load").default_value("closed").help("Who asks, how often"))
        .args(primitives())
        .arg(flag("allow-remote").help("Load a server that is not on a loopback address"))
        .arg(
            flag("show")
                .conflicts_with("json")
                .help("Print every connection, request and reply, and what failed, each with its client's number"),
        )
        .arg(flag("original").conflicts_with_all(["show", "json"]).help("Print what the source's own client prints"))
        .arg(flag("json").help("Print the result as a JSON line, and before it the marks of a load that ends by time"));
    let groups = [
        ("Settings of loads", settings(LOADS, |load| load.settings)),
        ("Settings of primitives", settings(PRIMITIVES, |primitive| primitive.settings)),
        ("Settings of workloads", settings(WORKLOADS, |workload| workload.client_settings)),
        ("Settings of every load", registry::LOAD_SETTINGS.to_vec()),
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
        .arg(
            Arg::new("command")
                .value_name("serve ... | load ...")
                .value_parser(value_parser!(OsString))
                .num_args(1..)
                .trailing_var_arg(true)
                .allow_hyphen_values(true)
                .required(true)
                .help("What to run"),
        )
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
        .arg(
            text("cpus", "LIST")
                .value_delimiter(',')
                .value_parser(value_parser!(usize))
                .action(ArgAction::Append)
                .help("CPUs to be pinned to, for instance 0 or 0,1"),
        )
        .arg(counters_asked())
        .arg(parent())
}

fn parent() -> Arg {
    text("parent", "PID")
        .value_parser(value_parser!(i32))
        .help("Be killed when this process, which must be the parent, ends")
}

fn counters_asked() -> Arg {
    text("count", "NAME,NAME")
        .value_delimiter(',')
        .value_parser(PossibleValuesParser::new(counters::countable().map(|entry| entry.name)))
        .action(ArgAction::Append)
        .help("Counters to read, of everything that is started")
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
        chosen_of("primitive", PRIMITIVES, out).long("primitive").default_value("send_each").help("How bytes are sent"),
        chosen_of("receive", PRIMITIVES, |primitive| !out(primitive))
            .long("receive")
            .value_name("PRIMITIVE")
            .default_value("recv")
            .help("How bytes are received"),
    ]
}

fn settings<T>(entries: &[Entry<T>], of: impl Fn(&T) -> &'static [Setting]) -> Vec<Setting> {
    entries.iter().flat_map(|entry| of(entry.item)).copied().collect()
}

/// An option for every setting, each name once.
fn with_settings<const N: usize>(mut command: Command, groups: [(&'static str, Vec<Setting>); N]) -> Command {
    for (heading, group) in groups {
        for setting in group {
            if command.get_arguments().any(|argument| argument.get_id() == setting.name) {
                continue;
            }
            let unit = setting.unit.map(|unit| format!(" {unit};")).unwrap_or_default();
            let default = match setting.default() {
                Value::Integer(number) => number.to_string(),
                Value::Boolean(value) => value.to_string(),
                Value::Word(word) => word,
            };
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

/// What was chosen, for its name and for the settings that it has.
struct Chosen {
    name: String,
    declared: Vec<Setting>,
}

impl Chosen {
    /// As far as a command line that may be wrong elsewhere goes.
    fn of(matches: &ArgMatches) -> Option<Chosen> {
        let (command, matches) = matches.subcommand()?;
        let word = |name| matches.try_get_one::<String>(name).ok().flatten();
        let way = registry::way(word("primitive")?, word("receive")?);
        let workload = registry::find(WORKLOADS, word("workload")?);
        match command {
            "serve" => Some(Chosen::server(registry::find(DESIGNS, word("design")?), way, workload)),
            _ => Some(Chosen::load(registry::find(LOADS, word("load")?), way, workload)),
        }
    }

    fn server(design: &Entry<Design>, way: Way, workload: &Entry<Workload>) -> Chosen {
        Chosen {
            name: format!("{} with {}, {} and {}", design.name, workload.name, way.out.name, way.into.name),
            declared: registry::server_settings(design.item, way, workload.item),
        }
    }

    fn load(load: &Entry<Load>, way: Way, workload: &Entry<Workload>) -> Chosen {
        Chosen {
            name: format!("{} with {}, {} and {}", load.name, workload.name, way.out.name, way.into.name),
            declared: registry::load_settings(load.item, way, workload.item),
        }
    }

    /// That it has no such option, whose setting that is, and those that it has.
    fn has_no(&self, option: &str) -> String {
        let owners = registry::owners(option).join(", ");
        let owners = if owners.is_empty() { owners } else { format!(", which is one of {owners}") };
        let names: Vec<String> = self.declared.iter().map(|setting| format!("--{}", setting.option())).collect();
        format!("{} has no setting --{option}{owners}; it has {}", self.name, names.join(", "))
    }
}

/// The given settings over the defaults; an option that means nothing to what was chosen is refused.
fn given_settings(matches: &ArgMatches, chosen: &Chosen) -> Result<Settings> {
    let declared = &chosen.declared;
    let mut given = BTreeMap::new();
    for setting in declared {
        if let Some(text) = matches.try_get_one::<String>(setting.name).ok().flatten() {
            given.insert(setting.name, setting.parse(text)?);
        }
    }
    for id in matches.ids() {
        let name = id.as_str();
        let is_setting = all_settings().iter().any(|setting| setting.name == name);
        if is_setting && !given.contains_key(name) {
            return Err(mistake(chosen.has_no(&name.replace('_', "-"))));
        }
    }
    Ok(Settings::new(declared, &given))
}

fn all_settings() -> Vec<Setting> {
    let mut all = [registry::SERVER_SETTINGS, registry::LOAD_SETTINGS].concat();
    all.extend(settings(DESIGNS, |design| design.settings));
    all.extend(settings(PRIMITIVES, |primitive| primitive.settings));
    all.extend(settings(LOADS, |load| load.settings));
    all.extend(settings(WORKLOADS, |workload| workload.service_settings));
    all.extend(settings(WORKLOADS, |workload| workload.client_settings));
    all
}

fn word<'a>(matches: &'a ArgMatches, name: &str) -> &'a str {
    matches.get_one::<String>(name).expect("it is required or has a default")
}

/// The counters asked for, each once.
fn asked(matches: &ArgMatches) -> Vec<&'static Entry<Counter>> {
    let names: Vec<&String> = matches.get_many("count").into_iter().flatten().collect();
    counters::countable().filter(|entry| names.iter().any(|name| *name == entry.name)).collect()
}

fn follow_parent(matches: &ArgMatches) -> Result<()> {
    let Some(&parent) = matches.get_one::<i32>("parent") else { return Ok(()) };
    process::die_with_parent(Pid::from_raw(parent))
        .map_err(|error| mistake(format!("--parent {parent} is not this process's parent: {error}")))
}

/// Pins this process, and all that it will fork, to the CPUs asked for.
fn pin(matches: &ArgMatches) -> Result<Option<Vec<usize>>> {
    let Some(cpus) = cpus(matches) else { return Ok(None) };
    process::pin(&cpus)
        .map_err(|error| mistake(format!("--cpus {cpus:?}: {error}; `nproc` CPUs are there, counted from 0")))?;
    Ok(Some(cpus))
}

fn cpus(matches: &ArgMatches) -> Option<Vec<usize>> {
    Some(matches.get_many("cpus")?.copied().collect())
}

fn serve(matches: &ArgMatches) -> Result<ExitCode> {
    follow_parent(matches)?;
    let design = registry::find(DESIGNS, word(matches, "design"));
    let way = registry::way(word(matches, "primitive"), word(matches, "receive"));
    let workload = registry::find(WORKLOADS, word(matches, "workload"));
    holes::check_server(design, way, workload)?;
    if let Some(reason) = (design.item.unavailable)() {
        return Err(mistake(format!("{} cannot run here: {reason}", design.name)));
    }
    let settings = given_settings(matches, &Chosen::server(design, way, workload))?;
    // What a design can be told may depend on the CPUs that it may use.
    let cpus = pin(matches)?;
    (design.item.check)(&settings)?;
    let port = matches.get_one("port").copied().unwrap_or(workload.item.port);
    supervisor::serve(&supervisor::Plan {
        design,
        way,
        workload,
        listen: matches.get_one("listen").cloned().unwrap_or_else(|| format!("127.0.0.1:{port}")),
        settings,
        cpus,
        cpu_source: word(matches, "cpu-source").to_owned(),
        counters: asked(matches),
        control: matches.get_flag("control"),
    })
}

fn load(matches: &ArgMatches) -> Result<()> {
    follow_parent(matches)?;
    let load = registry::find(LOADS, word(matches, "load"));
    let way = registry::way(word(matches, "primitive"), word(matches, "receive"));
    let workload = registry::find(WORKLOADS, word(matches, "workload"));
    holes::check_load(load, way, workload)?;
    let settings = given_settings(matches, &Chosen::load(load, way, workload))?;
    load.item.check(&settings, |name| matches.contains_id(name))?;
    let connect = word(matches, "connect");
    let target = crate::listener::resolve("--connect", connect)?;
    if !matches.get_flag("allow-remote")
        && let Some(remote) = target.iter().find(|address| !is_loopback(address.ip()))
    {
        return Err(mistake(format!(
            "--connect {connect} leads to {remote}, which is not a loopback address; --allow-remote loads it all the same"
        )));
    }
    pin(matches)?;
    let plan = asking::Plan {
        load,
        way,
        workload,
        target,
        settings,
        // A reader that has gone away cannot be told that the window begins; the load is made all the same.
        mark: if matches.get_flag("json") { |mark| drop(say_line(&lines::Line::Mark(mark))) } else { |_| () },
        show: matches.get_flag("show"),
        original: matches.get_flag("original"),
        counters: asked(matches),
    };
    let result = asking::ask(&plan)?;
    let (all, tally) = (result.expected_requests, &result.tally);
    let complete = all.is_none_or(|all| tally.requests == all) && tally.errors.is_empty() && tally.workers_lost == 0;
    let interrupted = result.interrupted;
    if matches.get_flag("json") {
        say_line(&lines::Line::Load(Box::new(result)))?;
    } else {
        say(&asking::in_words(&plan, &result))?;
    }
    match (complete, interrupted) {
        (false, _) => bail!("not every reply came and was right"),
        (true, true) => bail!("stopped by an interrupt before its end"),
        (true, false) => Ok(()),
    }
}

fn say_line(line: &lines::Line) -> Result<()> {
    say(&(serde_json::to_string(line)? + "\n"))
}

fn count(matches: &ArgMatches) -> Result<ExitCode> {
    follow_parent(matches)?;
    let words: Vec<OsString> = matches.get_many("command").into_iter().flatten().cloned().collect();
    // What it would refuse itself is refused before it is run.
    let inner = [&[OsString::from("count")], &words[..]].concat();
    let cpus = match command().try_get_matches_from(&inner) {
        Err(error) if error.use_stderr() => return Err(refused(&error, inner)),
        Ok(inner) => match inner.subcommand() {
            Some(("serve" | "load", inner)) if inner.contains_id("parent") => {
                return Err(mistake("--parent belongs before serve or load: it is count's, and count is theirs"));
            }
            Some(("serve" | "load", inner)) => cpus(inner),
            other => {
                let name = other.map_or("nothing", |(name, _)| name);
                return Err(mistake(format!("count runs serve or load, not {name}")));
            }
        },
        // Help.
        Err(_) => None,
    };
    let (life, status) = counting::count(&counting::Plan { counters: asked(matches), words, cpus })?;
    say(&(serde_json::to_string(&lines::Line::Life(life))? + "\n"))?;
    Ok(status)
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

fn list(matches: &ArgMatches) -> Result<()> {
    if matches.get_flag("matrix") {
        return say(&holes::matrix());
    }
    let catalogue = registry::catalogue();
    let only = matches.get_one::<String>("kind").map(String::as_str);
    if matches.get_flag("json") {
        return say(&format!("{:#}\n", only.map_or(&catalogue, |kind| &catalogue[kind])));
    }
    let mut text = String::new();
    for kind in KINDS.iter().filter(|&&kind| only.is_none_or(|only| only == kind)) {
        text += &format!("{kind}\n");
        for entry in catalogue[kind].as_array().into_iter().flatten() {
            let field = |name: &str| entry[name].as_str().unwrap_or_default();
            let moves = match field("moves") {
                "out" => "sends: ",
                "in" => "receives: ",
                _ => "",
            };
            text += &format!("  {:24} {moves}{} ({})\n", field("name"), field("summary"), field("source"));
            if let Some(reason) = entry["reason"].as_str() {
                text += &format!("  {:24} not available here: {reason}\n", "");
            }
        }
    }
    say(&text)
}

/// The user's mistake, as clap has found it. An option that there is not, and that is like no other or is another's, is told
/// with those that there are: clap would advise to pass it as a value, which is of no use anywhere.
fn refused(error: &clap::Error, arguments: Vec<OsString>) -> anyhow::Error {
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg)
        && let Some(option) = option.strip_prefix("--")
        && (error.get(ContextKind::SuggestedArg).is_none() || !registry::owners(option).is_empty())
        && let Ok(rest) = command().ignore_errors(true).try_get_matches_from(arguments)
        && let Some(chosen) = Chosen::of(&rest)
    {
        return mistake(chosen.has_no(option));
    }
    mistake(in_one_line(error))
}

/// What clap has to say, in one line: the message, the values allowed, the near match.
fn in_one_line(error: &clap::Error) -> String {
    let rendered = error.render().to_string();
    let parts: Vec<&str> = rendered
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty() && !line.starts_with("tip: to pass"))
        .collect();
    let text = parts.join("; ").replace(":;", ":");
    format!("{} (--help shows what there is)", text.trim_start_matches("error: "))
}
