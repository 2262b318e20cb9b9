//! The command line: runs the typed command, or refuses it.

pub mod arguments;
mod help;
mod other_programs;
mod shorthand;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use clap::ArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;

use crate::base::about::Entry;
use crate::base::mistake::{Blame, Mistake, mistake_with_hint};
use crate::base::output::{complain, remark, say, unless_closed, warn};
use crate::base::setting::{Setting, Settings, Value};
use crate::cli::arguments::{KINDS, command, settings};
use crate::client::load::Load;
use crate::count::counter::Counter;
use crate::count::event_name::FORMS;
use crate::designs::DESIGNS;
use crate::limits::LIMITS;
use crate::lines;
use crate::loads::LOADS;
use crate::net::address::{self, Address, Family};
use crate::net::tcp::TcpOptions;
use crate::primitives::PRIMITIVES;
use crate::protocol::workload::{End, Workload};
use crate::registry::{catalogue, fit};
use crate::requests::schedule;
use crate::runs;
use crate::server::design::Design;
use crate::stacks::flame_graph;
use crate::sys::process::{self, Pid};
use crate::sys::ring::number;
use crate::sys::signal::Signal;
use crate::sys::user::{self, User};
use crate::transfer::channel::Way;
use crate::transfer::primitive::Primitive;
use crate::workloads::WORKLOADS;

/// Runs the command line.
pub fn run(arguments: Vec<OsString>) -> Result<ExitCode> {
    let arguments = shorthand::expand(&arguments)?;
    let matches = match command().try_get_matches_from(&arguments) {
        Ok(matches) => matches,
        // Help and version, with colours only on a terminal.
        Err(error) if !error.use_stderr() => {
            let brief = Some(error.kind()).filter(|kind| *kind == ErrorKind::DisplayHelp).and(help::brief(&arguments));
            let printed = brief.map_or_else(|| error.print(), |mut page| page.print_help());
            return unless_closed(printed).map(|()| ExitCode::SUCCESS);
        }
        Err(error) => return Err(refused(&error, arguments)),
    };
    match matches.subcommand() {
        Some(("serve", matches)) => serve(matches),
        Some(("host", matches)) => host(matches),
        Some(("load", matches)) => load(matches).map(|()| ExitCode::SUCCESS),
        Some(("conform", matches)) => conform(matches),
        Some(("generate", matches)) => generate(matches),
        Some(("count", matches)) => count(matches),
        Some(("profile", matches)) => profile(matches),
        Some(("flame", matches)) => flame(matches).map(|()| ExitCode::SUCCESS),
        Some(("namespace", matches)) => namespace(matches).map(|()| ExitCode::SUCCESS),
        Some(("limits", matches)) => limits(matches).map(|()| ExitCode::SUCCESS),
        Some(("list", matches)) => list(matches).map(|()| ExitCode::SUCCESS),
        Some(("schema", _)) => say(&format!("{:#}\n", lines::schema())).map(|()| ExitCode::SUCCESS),
        _ => unreachable!("a subcommand is required"),
    }
}

/// Prints why a command failed: on standard error, and for a mistake with `--json` as a line on standard output, too.
/// Returns the exit status.
pub fn fail(error: &anyhow::Error) -> ExitCode {
    complain(error);
    let Some(mistake) = error.downcast_ref::<Mistake>() else { return ExitCode::FAILURE };
    // The command line may be what is wrong, so clap cannot say whether it has this option.
    if std::env::args_os().any(|argument| argument == "--json") {
        // The failure to print has no other place to be reported.
        let _ = say_line(&lines::Line::Refused(lines::Refused::of(mistake)));
    }
    ExitCode::from(2)
}

/// The chosen design or load with its workload and primitives: its name and its settings.
struct Chosen {
    name: String,
    declared: Vec<Setting>,
    family: Family,
}

impl Chosen {
    /// Reads the choice from a command line that may be wrong elsewhere.
    fn of(matches: &ArgMatches) -> Option<Chosen> {
        let (command, matches) = matches.subcommand()?;
        let word = |name| matches.try_get_one::<String>(name).ok().flatten();
        let way = catalogue::way(word("primitive")?, word("receive")?);
        let workload = catalogue::find(WORKLOADS, word("workload")?);
        let address = word(if command == "serve" { "listen" } else { "connect" });
        let family = address.map_or(Family::Tcp, |address| address::family(address));
        match command {
            "serve" => Some(Chosen::server(catalogue::find(DESIGNS, word("design")?), way, workload, family)),
            _ => Some(Chosen::load(catalogue::find(LOADS, word("load")?), way, workload, family)),
        }
    }

    fn server(design: &Entry<Design>, way: Way, workload: &Entry<Workload>, family: Family) -> Chosen {
        Chosen {
            name: format!("{} with {}, {} and {}", design.name, workload.name, way.out.name, way.into.name),
            declared: catalogue::server_settings(design.item, way, workload.item, family),
            family,
        }
    }

    fn load(load: &Entry<Load>, way: Way, workload: &Entry<Workload>, family: Family) -> Chosen {
        Chosen {
            name: format!("{} with {}, {} and {}", load.name, workload.name, way.out.name, way.into.name),
            declared: catalogue::load_settings(load.item, way, workload.item, family),
            family,
        }
    }

    /// Refuses an option that it does not have, with the owners of that option and the options that it has.
    fn has_no(&self, option: &str) -> anyhow::Error {
        if self.family == Family::Unix && catalogue::TCP_SETTINGS.iter().any(|setting| setting.option() == option) {
            let message = format!("--{option} is an option of TCP, which Unix sockets do not have");
            return mistake_with_hint("setting.needs_tcp", message, format!("leave out --{option}"))
                .blaming(&[&option.replace('-', "_")]);
        }
        let owners = catalogue::owners(option).join(", ");
        let owners = if owners.is_empty() { owners } else { format!("--{option} is a setting of {owners}; ") };
        let names: Vec<String> = self.declared.iter().map(|setting| format!("--{}", setting.option())).collect();
        mistake_with_hint(
            "setting.unknown",
            format!("{} has no setting --{option}", self.name),
            format!("{owners}allowed: {}", names.join(", ")),
        )
        .blaming(&[&option.replace('-', "_")])
    }
}

/// Combines the given settings with the defaults. Refuses options that the choice does not have.
fn given_settings(matches: &ArgMatches, chosen: &Chosen) -> Result<Settings> {
    let given = parsed(matches, &chosen.declared)?;
    for id in matches.ids() {
        let name = id.as_str();
        let is_setting = all_settings().iter().any(|setting| setting.name == name);
        if is_setting && !given.contains_key(name) {
            return Err(chosen.has_no(&name.replace('_', "-")));
        }
    }
    Ok(Settings::new(&chosen.declared, &given))
}

/// Parses the given ones of these settings.
fn parsed(matches: &ArgMatches, declared: &[Setting]) -> Result<BTreeMap<&'static str, Value>> {
    let mut given = BTreeMap::new();
    for setting in declared {
        if let Some(texts) = matches.try_get_many::<String>(setting.name).ok().flatten() {
            let text = texts.map(String::as_str).collect::<Vec<_>>().join("\n");
            given.insert(setting.name, setting.parse(&text)?);
        }
    }
    Ok(given)
}

fn all_settings() -> Vec<Setting> {
    let mut all = [catalogue::SERVER_SETTINGS, catalogue::LOAD_SETTINGS].concat();
    all.extend(settings(DESIGNS, |design| design.settings));
    all.extend(settings(PRIMITIVES, Primitive::all_settings));
    all.extend(settings(LOADS, |load| load.settings));
    all.extend(settings(WORKLOADS, |workload| workload.service_settings));
    all.extend(settings(WORKLOADS, |workload| workload.client_settings));
    all
}

fn word<'a>(matches: &'a ArgMatches, name: &str) -> &'a str {
    matches.get_one::<String>(name).expect("it is required or has a default")
}

/// Returns the requested counters, each once. Warns about unavailable ones, such as a misspelled event.
fn requested_counters(matches: &ArgMatches) -> Vec<&'static Entry<Counter>> {
    let mut requested: Vec<&'static Entry<Counter>> = Vec::new();
    for &entry in matches.get_many::<Vec<&'static Entry<Counter>>>("count").into_iter().flatten().flatten() {
        if !requested.iter().any(|other| other.name == entry.name) {
            requested.push(entry);
            if let Err(reason) = entry.item.find() {
                warn(&format!("--count {} will be unavailable: {reason:#}", entry.name));
            }
        }
    }
    requested
}

/// Enters the network namespace and follows the parent, before there is any thread, child or socket. Entering another user
/// namespace may clear the parent-death signal (prctl(2), PR_SET_PDEATHSIG), so the namespace comes first.
fn begin(matches: &ArgMatches) -> Result<()> {
    if let Some(path) = matches.get_one::<String>("network-namespace") {
        runs::namespace::enter(path)?;
    }
    follow_parent(matches)
}

fn follow_parent(matches: &ArgMatches) -> Result<()> {
    end_with_parent(matches, Signal::SIGKILL)
}

/// Begins a supervisor of programs that are not ours. It ends with the parent as after SIGTERM, since it must end them first. A
/// keeper ends them if the supervisor is killed.
fn supervise(matches: &ArgMatches) -> Result<()> {
    begin(matches)?;
    end_with_parent(matches, Signal::SIGTERM)?;
    runs::keeper::begin()
}

fn end_with_parent(matches: &ArgMatches, signal: Signal) -> Result<()> {
    let Some(&parent) = matches.get_one::<i32>("parent") else { return Ok(()) };
    process::end_with_parent(Pid::from_raw(parent), signal).map_err(|error| {
        if number(&error).is_some() {
            return anyhow!(error).context("this process cannot be made to end with its parent");
        }
        mistake_with_hint(
            "process.not_parent",
            format!("--parent {parent} is not this process's parent: {error}"),
            "give the id of the process that starts this command",
        )
    })
}

/// Pins this process and its future children to the requested CPUs. Refuses if any of them is missing.
fn pin(matches: &ArgMatches) -> Result<Option<Vec<usize>>> {
    let Some(cpus) = cpus(matches) else { return Ok(None) };
    let allowed = process::allowed_cpus()?;
    // The kernel silently ignores missing CPUs if it has at least one of them (sched_setaffinity(2)).
    let pinned = process::pin(&cpus).and_then(|()| process::allowed_cpus());
    if pinned.as_ref().is_ok_and(|pinned| *pinned == cpus) {
        return Ok(Some(cpus));
    }
    let listed = |cpus: &[usize]| cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    Err(mistake_with_hint(
        "cpus.unavailable",
        format!("--cpus {} has CPUs that this process may not use", listed(&cpus)),
        format!("allowed: {} (online CPUs: {}, counted from 0)", listed(&allowed), process::online_cpus()?),
    )
    .blaming(&["cpus"])
    .only_here())
}

/// Returns the user to run as. Refuses one that does not exist, or that this process may not become.
fn user(matches: &ArgMatches) -> Result<Option<User>> {
    let Some(name) = matches.get_one::<String>("user") else { return Ok(None) };
    if !user::may_change() {
        return Err(mistake_with_hint(
            "user.not_root",
            format!("--user {name}: only root may run something as another user"),
            "leave --user out",
        ));
    }
    match User::find(name).context("the list of users cannot be read")? {
        Some(user) => Ok(Some(user)),
        None => Err(mistake_with_hint(
            "user.unknown",
            format!("--user {name}: there is no such user"),
            "give a name or a number of /etc/passwd, such as nobody",
        )),
    }
}

/// Returns the requested CPUs in ascending order, each once.
fn cpus(matches: &ArgMatches) -> Option<Vec<usize>> {
    let cpus: BTreeSet<usize> = matches.get_many::<Vec<usize>>("cpus")?.flatten().copied().collect();
    Some(cpus.into_iter().collect())
}

fn serve(matches: &ArgMatches) -> Result<ExitCode> {
    begin(matches)?;
    let design = catalogue::find(DESIGNS, word(matches, "design"));
    let way = catalogue::way(word(matches, "primitive"), word(matches, "receive"));
    let workload = catalogue::find(WORKLOADS, word(matches, "workload"));
    let port = matches.get_one("port").copied().unwrap_or(workload.item.port);
    let listen = matches.get_one("listen").cloned().unwrap_or_else(|| format!("127.0.0.1:{port}"));
    let family = address::family(&listen);
    if listen.starts_with("unix:/") {
        return Err(mistake_with_hint(
            "address.path_to_listen",
            format!("--listen {listen}: a socket with a path would leave its file behind"),
            "--listen unix:@NAME, whose name disappears with the server",
        ));
    }
    fit::check_server(design, way, workload, family)?;
    if let Some(reason) = design.item.unavailable() {
        let message = format!("{} cannot run on this machine: {reason}", design.name);
        return Err(mistake_with_hint("design.unavailable", message, fit::MATRIX).blaming(&["design"]).only_here());
    }
    let settings = given_settings(matches, &Chosen::server(design, way, workload, family))?;
    check_tcp(&settings)?;
    fit::check_made_anew(workload, way, End::Service, &settings)?;
    // Allowed settings of a design may depend on the CPUs that it may use.
    let cpus = pin(matches)?;
    (design.item.check)(&settings)?;
    if matches.get_flag("dry-run") {
        address::resolve("--listen", &listen)?;
        let service = (workload.item.service)(&settings, design.item.waits)?;
        let accepted = lines::Accepted { source_bytes: service.source_bytes(), ..lines::Accepted::default() };
        return say_accepted(matches, accepted, &format!("serve {}", design.name)).map(|()| ExitCode::SUCCESS);
    }
    runs::serve::serve(&runs::serve::Plan {
        design,
        way,
        workload,
        listen,
        settings,
        cpus,
        user: user(matches)?,
        cpu_source: word(matches, "cpu-source").to_owned(),
        counters: requested_counters(matches),
        control: matches.get_flag("control"),
    })
}

fn host(matches: &ArgMatches) -> Result<ExitCode> {
    supervise(matches)?;
    let cpus = pin(matches)?;
    runs::serve::host::host(&runs::serve::host::Plan {
        command: matches.get_many("command").into_iter().flatten().cloned().collect(),
        address: word(matches, "listen").to_owned(),
        ready_line: matches.get_one("ready-line").cloned(),
        cpus,
        user: user(matches)?,
        counters: requested_counters(matches),
    })
}

fn load(matches: &ArgMatches) -> Result<()> {
    begin(matches)?;
    let load = catalogue::find(LOADS, word(matches, "load"));
    let way = catalogue::way(word(matches, "primitive"), word(matches, "receive"));
    let workload = catalogue::find(WORKLOADS, word(matches, "workload"));
    let connect = word(matches, "connect");
    let family = address::family(connect);
    fit::check_load(load, way, workload, family)?;
    let chosen = Chosen::load(load, way, workload, family);
    let mut settings = given_settings(matches, &chosen)?;
    let declared = chosen.declared;
    check_tcp(&settings)?;
    let given = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
    load.item.check(&settings, given)?;
    schedule::settle(&mut settings, given)?;
    workload.item.settle(&mut settings, given)?;
    fit::check_pipeline(workload, way, &settings)?;
    fit::check_made_anew(workload, way, End::Client, &settings)?;
    let mut requests = runs::load::Requests::read(workload.item, &settings)?;
    requests.client.named(&address::authority(connect));
    let replaced = declared.iter().map(|setting| setting.name).filter(|name| !settings.values().contains_key(name));
    let accepted = lines::Accepted {
        replaced: replaced.collect(),
        largest: requests.client.largest(),
        source_bytes: requests.client.source_bytes(),
        ..lines::Accepted::default()
    };
    let target = address::resolve("--connect", connect)?;
    if target.contains(&Address::Unix(String::new())) {
        return Err(mistake_with_hint(
            "address.no_name",
            "--connect unix:@ names no socket",
            "give the name that the server printed: --connect unix:@NAME",
        ));
    }
    if let Some(address) = target.iter().find(|address| address.port() == Some(0)) {
        return Err(mistake_with_hint(
            "address.port_zero",
            format!("--connect {connect}: no server can listen on port 0 ({address})"),
            "give the server's port",
        ));
    }
    if let Some(remote) = runs::remote::first_remote(&target)? {
        if !matches.get_flag("allow-remote") {
            return Err(mistake_with_hint(
                "address.remote",
                format!("--connect {connect}: {remote} is neither a loopback address nor in a namespace made for it"),
                "--allow-remote loads it anyway; `thunderherd-engine namespace` makes a namespace",
            ));
        }
        // The bounds are those of a request, which some clients must prepare.
        requests.client.prepare()?;
        remark(&runs::remote::bounds_in_words(&target, load.item, &requests, &settings));
    }
    pin(matches)?;
    let plan = runs::load::Plan {
        load,
        way,
        workload,
        connect: connect.to_owned(),
        target,
        settings,
        // If the reader has gone, the mark is lost, and the load goes on.
        mark: if matches.get_flag("json") { |mark| drop(say_line(&lines::Line::Mark(mark))) } else { |_| () },
        agree: if matches.get_flag("control") { runs::agreed_start::agree } else { || None },
        show: matches.get_flag("show"),
        is_live: !matches.get_flag("json") && !matches.get_flag("show") && has_live_terminal(),
        original: matches.get_flag("original"),
        counters: requested_counters(matches),
        user: user(matches)?,
    };
    if matches.get_flag("dry-run") {
        return say_accepted(matches, accepted, &format!("load {}", workload.name));
    }
    let result = runs::load::run(&plan, requests)?;
    let (complete, interrupted, is_valid) = (result.is_complete(), result.interrupted, result.is_valid());
    if matches.get_flag("json") {
        say_line(&lines::Line::Load(Box::new(result)))?;
    } else {
        say(&runs::load_report::in_words(&plan, &result))?;
        if plan.original {
            // The source's own lines must stay alone, but every figure needs this remark.
            remark(&way.copying_in_words(&result.tally));
        }
    }
    match (complete, interrupted) {
        (false, _) => bail!("replies are missing or wrong"),
        (true, true) => bail!("stopped by an interrupt before its end"),
        (true, false) if !is_valid => bail!("the load did not measure its server, so the result is not valid"),
        (true, false) => Ok(()),
    }
}

/// Returns whether standard error is a terminal that can erase a line.
fn has_live_terminal() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|terminal| terminal != "dumb")
}

/// Prints that a dry run found nothing wrong.
fn say_accepted(matches: &ArgMatches, accepted: lines::Accepted, command: &str) -> Result<()> {
    if matches.get_flag("json") {
        return say_line(&lines::Line::Accepted(accepted));
    }
    say(&format!("accepted: {command}\n"))
}

fn say_line(line: &lines::Line) -> Result<()> {
    say(&(serde_json::to_string(line)? + "\n"))
}

fn conform(matches: &ArgMatches) -> Result<ExitCode> {
    follow_parent(matches)?;
    let json = matches.get_flag("json");
    if matches.get_flag("list") {
        return runs::conform::list(json).map(|()| ExitCode::SUCCESS);
    }
    let settings = Settings::new(runs::conform::SETTINGS, &parsed(matches, runs::conform::SETTINGS)?);
    let target = address::resolve("--connect", word(matches, "connect"))?;
    if let Some(remote) = runs::remote::first_remote(&target)?.filter(|_| !matches.get_flag("allow-remote")) {
        return Err(mistake_with_hint(
            "address.remote",
            format!("--connect: {remote} is neither a loopback address nor in a namespace made for it"),
            "--allow-remote sends the cases anyway, with garbage and resets",
        ));
    }
    let failed = runs::conform::run(&runs::conform::Plan {
        workload: word(matches, "workload").to_owned(),
        target,
        cases: matches.get_many("case").into_iter().flatten().copied().collect(),
        settings,
        control: matches.get_flag("control"),
        until_failure: matches.get_flag("until-failure"),
        plain: matches.get_flag("plain"),
        any_status: matches.get_flag("any-status"),
        json,
    })?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn generate(matches: &ArgMatches) -> Result<ExitCode> {
    supervise(matches)?;
    let cpus = pin(matches)?;
    let words = matches.get_many("command").into_iter().flatten().cloned().collect();
    say_life(matches, runs::start_gate::Command { words, cpus, user: user(matches)?, of_user: true })
}

fn count(matches: &ArgMatches) -> Result<ExitCode> {
    say_life(matches, behind_gate("count", matches)?)
}

/// Runs a command to its end, and prints what it used.
fn say_life(matches: &ArgMatches, command: runs::start_gate::Command) -> Result<ExitCode> {
    let (life, status) = runs::count::count(&runs::count::Plan { counters: requested_counters(matches), command })?;
    say_line(&lines::Line::Life(life))?;
    Ok(status)
}

fn profile(matches: &ArgMatches) -> Result<ExitCode> {
    let event = matches.get_one::<String>("event").and_then(|name| runs::profile::event(name));
    let frequency = *matches.get_one("frequency").expect("it has a default");
    if matches.get_flag("check") {
        say_line(&lines::Line::ProfileCheck(runs::profile::check(event, frequency)?))?;
        return Ok(ExitCode::SUCCESS);
    }
    let plan = runs::profile::Plan {
        command: behind_gate("profile", matches)?,
        event,
        frequency,
        output: matches.get_one("output").cloned().expect("it is required"),
    };
    let (profile, status) = runs::profile::profile(&plan)?;
    say_line(&lines::Line::Profile(profile))?;
    Ok(status)
}

/// Returns the command that `count` or `profile` runs behind a start gate. Options that the command would refuse are refused
/// before it runs.
fn behind_gate(by: &str, matches: &ArgMatches) -> Result<runs::start_gate::Command> {
    follow_parent(matches)?;
    let words: Vec<OsString> = matches.get_many("command").into_iter().flatten().cloned().collect();
    let inner = shorthand::expand(&[&[OsString::from(by)], &words[..]].concat())?;
    let cpus = match command().try_get_matches_from(&inner) {
        Err(error) if error.use_stderr() => return Err(refused(&error, inner)),
        Ok(inner) => match inner.subcommand() {
            Some(("serve" | "host" | "load" | "generate", inner)) if inner.contains_id("parent") => {
                return Err(mistake_with_hint(
                    "arguments.parent_behind_command",
                    format!("--parent belongs before the command, whose parent is {by}"),
                    format!("thunderherd-engine {by} --parent PID -- COMMAND"),
                ));
            }
            Some(("serve" | "host" | "load" | "generate", inner)) => cpus(inner),
            other => {
                let name = other.map_or("nothing", |(name, _)| name);
                return Err(mistake_with_hint(
                    "arguments.not_serve_or_load",
                    format!("{by} runs serve, host, load or generate, not {name}"),
                    format!("thunderherd-engine {by} -- serve DESIGN, or {by} -- load WORKLOAD --connect ADDRESS"),
                ));
            }
        },
        // Help.
        Err(_) => None,
    };
    Ok(runs::start_gate::Command { words, cpus, user: None, of_user: false })
}

fn flame(matches: &ArgMatches) -> Result<()> {
    let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
    flame_graph::draw(&flame_graph::Plan {
        stacks: path("stacks").expect("it is required"),
        before: path("before"),
        output: path("output").expect("it is required"),
        title: word(matches, "title").to_owned(),
        subtitle: matches.get_one("subtitle").cloned(),
        unit: word(matches, "unit").to_owned(),
        minimum_width: *matches.get_one("minimum-width").expect("it has a default"),
    })
}

fn check_tcp(settings: &Settings) -> Result<()> {
    TcpOptions::of(settings).map_or(Ok(()), |options| options.check())
}

fn namespace(matches: &ArgMatches) -> Result<()> {
    let settings = Settings::new(runs::namespace::SETTINGS, &parsed(matches, runs::namespace::SETTINGS)?);
    runs::namespace::check(&settings)?;
    let sysctls: Vec<String> = matches.get_many("sysctls").into_iter().flatten().cloned().collect();
    let pair = runs::namespace::make(&settings, &sysctls)?;
    follow_parent(matches)?;
    say_line(&lines::Line::Namespaces(pair.line))?;
    runs::namespace::hold(pair.server)
}

fn limits(matches: &ArgMatches) -> Result<()> {
    follow_parent(matches)?;
    let names: Vec<&String> = matches.get_many("names").into_iter().flatten().collect();
    let settings = Settings::new(runs::limits::SETTINGS, &parsed(matches, runs::limits::SETTINGS)?);
    // In the typed order: the first is this process's, the second the peer's.
    let typed: Option<Vec<usize>> =
        matches.get_many::<Vec<usize>>("cpus").map(|cpus| cpus.flatten().copied().collect());
    pin(matches)?;
    let cpus = runs::limits::cpus(typed)?;
    let limits = LIMITS.iter().filter(|entry| names.is_empty() || names.iter().any(|name| *name == entry.name));
    runs::limits::probe(&runs::limits::Plan { limits: limits.collect(), cpus, settings }, say_line)
}

fn list(matches: &ArgMatches) -> Result<()> {
    if matches.get_flag("matrix") {
        return say(&fit::matrix());
    }
    let catalogue = catalogue::as_json();
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
            if let Some(names) = entry["names_of_perf"].as_array().filter(|names| !names.is_empty()) {
                text += &format!("  {:24} perf: {}\n", "", listed(names));
            }
            if let Some(reason) = entry["reason"].as_str() {
                text += &format!("  {:24} unavailable on this machine: {reason}\n", "");
            }
        }
        if *kind == "counters" {
            let more = catalogue["events_of_perf"].as_array().map(|names| listed(names)).unwrap_or_default();
            text += &format!("  any event by its name: {FORMS}\n  further names of perf: {more}\n");
        }
    }
    say(&text)
}

fn listed(names: &[serde_json::Value]) -> String {
    names.iter().filter_map(serde_json::Value::as_str).collect::<Vec<_>>().join(", ")
}

/// The mistake that clap has found. For an unknown option without a near match, the hint lists the known options: clap's own
/// advice, to pass the option as a value, never helps.
fn refused(error: &clap::Error, arguments: Vec<OsString>) -> anyhow::Error {
    let everything = help::of_everything(&arguments);
    if error.kind() == ErrorKind::UnknownArgument
        && arguments.get(1).is_some_and(|command| command == "load")
        && let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg)
        && let Some(instead) = other_programs::instead_of(option)
    {
        return mistake_with_hint("arguments.unknown", format!("load has no option {option}"), instead);
    }
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg)
        && let Some(option) = option.strip_prefix("--")
        && (error.get(ContextKind::SuggestedArg).is_none() || !catalogue::owners(option).is_empty())
        && let Ok(rest) = command().ignore_errors(true).try_get_matches_from(arguments)
        && let Some(chosen) = Chosen::of(&rest)
    {
        return chosen.has_no(option);
    }
    if error.kind() == ErrorKind::InvalidValue
        && let Some(ContextValue::String(address)) = error.get(ContextKind::InvalidValue)
        && matches!(error.get(ContextKind::InvalidArg), Some(ContextValue::String(arg)) if arg == "<workload>")
        && address.contains([':', '/', '.'])
    {
        let message = format!("{address} is no workload and no URL");
        return mistake_with_hint("load.no_scheme", message, format!("http://{address} is a URL"));
    }
    as_mistake(error, everything)
}

/// An error of clap as a mistake: its message, and as a hint the allowed values, the near match, and the option that lists
/// everything.
fn as_mistake(error: &clap::Error, everything: &str) -> anyhow::Error {
    let rendered = error.render().to_string();
    let mut parts = rendered
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty() && !line.starts_with("tip: to pass"));
    let mut message = parts.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    let mut hints = Vec::new();
    for part in parts {
        // A message that ends in a colon goes on with one name a line.
        if part.starts_with('[') {
            hints.push(part.trim_matches(['[', ']']));
        } else if let Some(tip) = part.strip_prefix("tip: ") {
            // A near match says more than a long list.
            hints.insert(0, tip);
        } else {
            message = format!("{message} {part}");
        }
    }
    let all = format!("{everything} lists everything");
    hints.push(&all);
    let code = match error.kind() {
        ErrorKind::UnknownArgument => "arguments.unknown",
        ErrorKind::InvalidSubcommand => "arguments.unknown_command",
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => "arguments.invalid_value",
        ErrorKind::MissingRequiredArgument => "arguments.missing",
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            "arguments.missing_command"
        }
        ErrorKind::ArgumentConflict => "arguments.conflict",
        ErrorKind::TooFewValues | ErrorKind::NoEquals | ErrorKind::WrongNumberOfValues => "arguments.missing_value",
        ErrorKind::TooManyValues => "arguments.too_many_values",
        _ => "arguments.invalid",
    };
    mistake_with_hint(code, message, hints.join("; "))
}
