//! The command line: replies to mistakes, and output for people and programs.
//!
//! A mistake ends with exit status 2, a line on standard error that says what is wrong and ends in a code, and a hint on the
//! next line. With `--json`, standard output has a line with the same content.

use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::process::Command;

use serde_json::Value;

use crate::support::client::Client;
use crate::support::interactive::Interactive;
use crate::support::lines::schema;
use crate::support::server::Server;
use crate::support::table::{Table, quantity};
use crate::support::{
    Ran, Unprivileged, engine, engine_with_descriptors, eventually, mistake, one_line, process, refused, run, with,
};

#[test]
fn a_port_in_use_is_named_with_a_remedy() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port();
    mistake(
        &format!("serve iterative --port {port}"),
        "listen.in_use",
        &[&format!("port {port}"), "--port", "ss -ltnp"],
    );
    mistake(&format!("serve prefork --control --listen localhost:{port}"), "listen.in_use", &[&format!("port {port}")]);
}

#[test]
fn an_unknown_name_gets_the_registered_ones_and_the_nearest() {
    mistake("serve prefrok", "arguments.invalid_value", &["prefrok", "similar", "'prefork'", "prefork_file_lock"]);
    mistake("serve iterativ", "arguments.invalid_value", &["'iterative'"]);
    mistake(
        "serve nothing_like_it",
        "arguments.invalid_value",
        &["nothing_like_it", "possible values", "iterative", "thread_per_client"],
    );
    mistake("serve prefork --workload byte", "arguments.invalid_value", &["--workload", "'bytes'"]);
    mistake("serve prefork --primitive sned_each", "arguments.invalid_value", &["--primitive", "'send_each'"]);
    mistake("serve prefork --receive redv", "arguments.invalid_value", &["--receive", "'readv'"]);
    mistake(
        "serve prefork --primitive recv",
        "arguments.invalid_value",
        &["--primitive", "'recv'", "send_each", "writev"],
    );
    mistake(
        "load bytes --connect 127.0.0.1:1 --receive writev",
        "arguments.invalid_value",
        &["--receive", "'writev'", "recv", "busy_poll"],
    );
    mistake("load byts --connect 127.0.0.1:1", "arguments.invalid_value", &["byts", "'bytes'"]);
    mistake("load bytes --connect 127.0.0.1:1 --load close", "arguments.invalid_value", &["--load", "'closed'"]);
    mistake("list design", "arguments.invalid_value", &["design", "'designs'"]);
    mistake("sevre prefork", "arguments.unknown_command", &["sevre", "'serve'"]);
}

#[test]
fn a_setting_of_another_design_is_refused_with_the_available_ones() {
    mistake("serve iterative --pool 3", "setting.unknown", &["iterative", "--pool", "--backlog"]);
    mistake("serve prefork --ring 3", "setting.unknown", &["prefork", "--ring", "--pool", "--respawn"]);
    mistake("serve prethread --respawn true", "setting.unknown", &["prethread", "--respawn", "--pool"]);
    mistake("serve prefork --polo 3", "arguments.unknown", &["--polo", "'--pool'"]);
}

/// Settings of a pair of namespaces belong neither to a server nor to a load.
#[test]
fn a_setting_of_a_pair_of_namespaces_is_refused_by_servers_and_loads() {
    for command in ["serve prefork", "load bytes --connect 127.0.0.1:1"] {
        // --rate makes a load an open one.
        let rate = if command.starts_with("serve") { &["rate"][..] } else { &[] };
        for option in ["mtu", "delay", "loss"].iter().chain(rate) {
            let belongs = format!("thunderherd serve DESIGN --lab veth --{option} VALUE");
            mistake(
                &format!("{command} --{option} 9000"),
                "setting.unknown",
                &[&format!("--{option}"), "namespace", &belongs],
            );
        }
    }
    let ran = with("serve prefork --per-second 5");
    refused(&ran, "setting.unknown", &["--per-second"]);
    assert!(!ran.errors.contains("veth"), "{ran:?}");
}

#[test]
fn a_value_out_of_range_is_refused_with_the_range() {
    for value in ["0", "16001", "-1", "99999999999999999999", "many", "''"] {
        mistake(
            &format!("serve prefork --pool {value}"),
            "setting.invalid_value",
            &["--pool", value, "from 1 to 16000"],
        );
    }
    mistake("serve prefork --pool 1.5", "setting.not_whole", &["--pool", "1.5", "from 1 to 16000"]);
    mistake("serve prefork --pool 0x10", "setting.unknown_unit", &["--pool", "0x10", "from 1 to 16000"]);
    mistake("serve prefork --drain 5", "setting.no_unit", &["--drain", "5s or 5ms"]);
    mistake("serve prefork --drain 5m", "setting.unknown_unit", &["--drain", "5m", "min"]);
    mistake("serve prefork --drain 1us", "setting.not_whole", &["--drain", "1us", "1ms"]);
    mistake("serve prefork --respawn maybe", "setting.invalid_value", &["--respawn", "maybe", "true or false"]);
    mistake("serve prefork --limit 0", "setting.invalid_value", &["--limit", "from 1 to"]);
    mistake("serve prefork --drain -5", "setting.invalid_value", &["--drain", "-5"]);
    mistake(
        "load bytes --connect 127.0.0.1:1 --children 0",
        "setting.invalid_value",
        &["--children", "from 1 to 4096"],
    );
    mistake(
        "load bytes --connect 127.0.0.1:1 --load closed_threads --connections 64",
        "setting.invalid_value",
        &["--connections", "-c N"],
    );
    mistake("load bytes --connect 127.0.0.1:1 --load open --duration 5m", "setting.unknown_unit", &["5ms or 5min"]);
    mistake("load bytes --connect 127.0.0.1:1 --bytes 4K", "setting.unknown_unit", &["4k or 4KiB"]);
    mistake("load localhost:8080", "load.no_scheme", &["http://localhost:8080"]);
    mistake("load bytes --connect 127.0.0.1:1 --check some", "setting.invalid_value", &["--check", "pattern or count"]);
    for value in ["65536", "-1", "http"] {
        mistake(&format!("serve prefork --port={value}"), "arguments.invalid_value", &["--port", value]);
    }
}

#[test]
fn missing_and_surplus_arguments_are_named() {
    mistake("serve", "arguments.missing", &["design"]);
    mistake("load", "arguments.missing", &["workload"]);
    mistake("load bytes", "arguments.missing", &["--connect"]);
    mistake("serve prefork --pool", "arguments.invalid_value", &["--pool"]);
    mistake("serve prefork prethread", "arguments.invalid_value", &["prethread", "bytes"]);
    mistake("serve prefork bytes more", "arguments.unknown", &["more"]);
    mistake("serve prefork --pool 3 --pool 4", "arguments.conflict", &["--pool"]);
    mistake("serve prefork --port 8888 --listen 127.0.0.1:8888", "arguments.conflict", &["--port", "--listen"]);
    mistake("list --matrix --json", "arguments.conflict", &["--matrix", "--json"]);
}

#[test]
fn without_a_command_the_available_ones_are_named() {
    mistake("", "arguments.missing_command", &["serve", "load", "list", "--help"]);
}

#[test]
fn an_invalid_address_is_refused() {
    for (option, command) in [("--listen", "serve prefork"), ("--connect", "load bytes")] {
        for address in ["8888", "127.0.0.1", "127.0.0.1:99999", "::1:8888:"] {
            mistake(&format!("{command} {option} {address}"), "address.invalid", &[option, address, "HOST:PORT"]);
        }
        for name in ["no-such-host.invalid:8888", "1.2.3.4.5:80"] {
            mistake(&format!("{command} {option} {name}"), "address.unresolved", &[option, name]);
        }
    }
    // An address for documentation (RFC 5737), which no machine has.
    mistake("serve prefork --listen 192.0.2.1:8888", "listen.no_such_address", &["192.0.2.1", "127.0.0.1"]);
    mistake("serve prefork --listen [2001:db8::1]:8888", "listen.no_such_address", &["2001:db8::1"]);
}

#[test]
fn a_remote_server_needs_permission() {
    mistake("load bytes --connect 192.0.2.1:8888", "address.remote", &["192.0.2.1:8888", "--allow-remote"]);
}

#[test]
fn a_missing_cpu_is_refused() {
    for command in ["serve prefork", "load bytes --connect 127.0.0.1:1"] {
        // An existing CPU does not make up for a missing one.
        for cpus in ["999", "0,999", "99999", "4294967296"] {
            mistake(&format!("{command} --cpus {cpus}"), "cpus.unavailable", &["--cpus", cpus]);
        }
        for wrong in ["one", "1-0", ""] {
            mistake(
                &format!("{command} --cpus={wrong}"),
                "arguments.invalid_value",
                &["--cpus", wrong, "for instance 0-3,6"],
            );
        }
        mistake(&format!("{command} --cpus=-1"), "arguments.invalid_value", &["--cpus", "-1"]);
    }
}

#[test]
fn a_process_that_is_not_the_parent_is_refused() {
    mistake("serve prefork --parent 1", "process.not_parent", &["--parent 1"]);
    mistake("load bytes --connect 127.0.0.1:1 --parent 1", "process.not_parent", &["--parent 1"]);
}

#[test]
fn an_unavailable_cpu_source_is_refused() {
    mistake(
        "serve prefork --cpu-source clock",
        "arguments.invalid_value",
        &["--cpu-source", "perf_event", "cgroup", "whole_life"],
    );
    let Ok(user) = Unprivileged::new().inspect_err(|reason| println!("skipped: {reason}")) else { return };
    let arguments = ["serve", "prefork", "--listen", "127.0.0.1:0", "--cpu-source", "cgroup"];
    one_line(&run(user.command(None).args(arguments)), 1, &["no control group could be made", "systemd-run"]);
}

/// If no control group can be made, the next best CPU source is used, with the reason.
#[test]
fn without_a_control_group_another_cpu_source_is_used_and_reported() {
    let Ok(user) = Unprivileged::new().inspect_err(|reason| println!("skipped: {reason}")) else { return };
    let mut server = Server::launch(&mut user.command(None), "prefork", "bytes", &[]);
    assert_eq!(server.ready["cpu_source"], "process_clocks", "{}", server.ready);
    assert!(server.ready["cpu_source_reason"].is_string(), "{}", server.ready);
    server.settle();
    assert!(server.snapshot()["cpu_ns"].as_u64().is_some_and(|time| time > 0));
    server.stop().is_good();
}

#[test]
fn a_port_that_needs_a_permission_is_refused() {
    let lowest = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap_or_default();
    if lowest.trim().parse().is_ok_and(|lowest: u16| lowest <= 80) {
        return println!("skipped: here every user may have port 80 (net.ipv4.ip_unprivileged_port_start = {lowest})");
    }
    let Ok(user) = Unprivileged::new().inspect_err(|reason| println!("skipped: {reason}")) else { return };
    let ran = run(user.command(None).args(["serve", "prefork", "--port", "80"]));
    one_line(&ran, 2, &["port 80", "permission", "1023", "--port"]);
}

/// At whatever number of descriptors they run out, the server prints one line with a remedy. From a certain limit on it
/// starts.
#[test]
fn too_low_a_limit_on_descriptors_is_reported() {
    for design in ["iterative", "prefork_pass_descriptor"] {
        let mut starts = false;
        for limit in 4..40 {
            let mut command = engine_with_descriptors(limit);
            let ran = ended_or_interrupted(command.args(["serve", design, "--listen", "127.0.0.1:0"]));
            starts = ran.status == Some(0);
            if starts {
                break;
            }
            assert!(ran.errors.lines().count() <= 2, "{design} with {limit} descriptors: {ran:?}");
            assert!(
                ["ulimit -Hn", "prlimit"].iter().any(|remedy| ran.errors.contains(remedy)),
                "{design} with {limit} descriptors: {ran:?}"
            );
            assert!(ran.errors.starts_with("thunderherd-engine: ") && !ran.errors.contains("panicked"), "{ran:?}");
        }
        assert!(starts, "{design} does not start with 40 descriptors");
    }
}

#[test]
fn too_low_a_limit_on_processes_is_reported() {
    let Ok(user) = Unprivileged::new().inspect_err(|reason| println!("skipped: {reason}")) else { return };
    for design in ["prefork", "prefork_pass_descriptor", "prethread", "prethread_queue"] {
        for limit in [1, 2, 3, 10] {
            let mut command = user.command(Some(limit));
            let ran = ended_or_interrupted(command.args(["serve", design, "--listen", "127.0.0.1:0"]));
            assert_eq!(ran.errors.lines().count(), 1, "{design} with {limit} processes: {ran:?}");
            assert!(ran.errors.contains("ulimit -u"), "{design} with {limit} processes: {ran:?}");
            assert_eq!(ran.status, Some(1), "{design} with {limit} processes: {ran:?}");
        }
    }
    let ran = run(user.command(Some(3)).args(["load", "bytes", "--connect", "127.0.0.1:1", "--children", "5"]));
    one_line(&ran, 1, &["cannot fork child", "--children", "ulimit -u"]);
}

/// Runs a server that should not start, and interrupts it if it does.
fn ended_or_interrupted(command: &mut Command) -> Ran {
    use std::io::{BufRead, BufReader, Read};
    use std::process::Stdio;
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let (mut output, mut errors) = (String::new(), String::new());
    stdout.read_line(&mut output).unwrap();
    if !output.is_empty() {
        // It listens. If it still has to make something, that succeeds or fails within this time.
        // On a busy machine both take long.
        for _ in 0..200 {
            if child.try_wait().unwrap().is_some() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        if child.try_wait().unwrap().is_none() {
            process::signal(child.id() as i32, nix::sys::signal::Signal::SIGINT);
        }
    }
    let status = eventually("the server ends", || child.try_wait().unwrap());
    stdout.read_to_string(&mut output).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    Ran { status: status.code(), output, errors }
}

#[test]
fn an_unknown_command_ends_the_server_with_a_message() {
    use std::io::Write;
    use std::process::Stdio;
    let mut command = engine();
    command.args(["serve", "prefork", "--control", "--listen", "127.0.0.1:0"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    child.stdin.as_mut().unwrap().write_all(b"snapshto\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.contains("'snapshto'") && errors.contains("snapshot"), "{errors}");
    assert_ne!(output.status.code(), Some(0));
}

#[test]
fn names_and_both_kinds_of_addresses_can_be_listened_on_and_connected_to() {
    let mut hosts = vec!["localhost".to_owned(), Ipv4Addr::LOCALHOST.to_string()];
    match TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) {
        Ok(_) => hosts.push("[::1]".to_owned()),
        Err(error) => println!("[::1] is skipped: {error}"),
    }
    for host in hosts {
        let server = Interactive::start(&["prefork", "--pool", "2", "--listen", &format!("{host}:0")]);
        let port = server.address.port();
        let ran = with(&format!("load bytes --connect {host}:{port} --children 2 --loops 3 --json"));
        assert_eq!(ran.status, Some(0), "{ran:?}");
        let line: Value = serde_json::from_str(&ran.output).unwrap();
        assert_eq!(
            (&line["tally"]["requests"], &line["tally"]["errors"]),
            (&6.into(), &serde_json::json!({})),
            "{line}"
        );
        let summary = server.interrupt();
        let table = Table::of(&summary);
        assert_eq!(["Connections", "Requests"].map(|label| table.row(label)[0]), ["6", "6"], "{summary}");
    }
}

/// As the textbook's servers do: CPU time by mode, by server process and children, and the clients of each worker.
#[test]
fn an_interrupted_server_prints_its_summary() {
    let server = Interactive::start(&["prefork", "--pool", "3", "--port", "0"]);
    assert!(server.address.ip().is_loopback(), "without a word about it, a server listens on loopback only");
    let ran = with(&format!("load bytes --connect {} --children 2 --loops 20", server.address));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(Table::of(&ran.output).row("Requests")[0], "40 of 40", "{ran:?}");
    let account = server.interrupt();
    let table = Table::of(&account);
    assert_eq!(["Connections", "Requests", "Errors"].map(|label| table.row(label)[0]), ["40", "40", "0"], "{account}");
    assert_eq!([table.row("Transfer")[0], table.below("Transfer")[0]].map(quantity), [200.0, 160e3], "{account}");
    // User and system time of all, then each of the server process and of its children.
    let [user, system] = table.row("CPU")[0].split(", ").collect::<Vec<_>>()[..] else { panic!("{account}") };
    let time = |text: &str| quantity(text.rsplit_once(' ').unwrap().0);
    assert!(time(user) + time(system) > 0.0 && table.below("CPU")[0].matches(" + ").count() == 2, "{account}");
    let [number, spread] = table.row("Workers")[..] else { panic!("{account}") };
    let (range, counts) = spread.split_once(": ").unwrap();
    // A worker that served none is not listed: on a busy machine it comes too late.
    let counts: Vec<u64> = counts.split(';').next().unwrap().split(' ').map(|count| count.parse().unwrap()).collect();
    assert_eq!((number, counts.iter().sum::<u64>()), (&counts.len().to_string()[..], 40), "{account}");
    assert!((1..=3).contains(&counts.len()) && (counts.len() < 3) == spread.contains(';'), "{account}");
    let [fewest, most] = [counts.iter().min(), counts.iter().max()].map(|count| count.unwrap().to_string());
    assert!(range.starts_with(&format!("{fewest} ")) && range.contains(&format!(" {most} ")), "{account}");

    let account = Interactive::start(&["fork_per_client", "--port", "0"]).interrupt();
    assert!(Table::of(&account).find("Workers").is_none(), "a design without a pool has no workers to list");
}

#[test]
fn all_entries_are_listed() {
    let listed = with("list");
    assert_eq!(listed.status, Some(0));
    let catalogue: Value = serde_json::from_str(&with("list --json").output).unwrap();
    assert_eq!(catalogue["schema"], 4);
    for kind in ["designs", "primitives", "workloads", "loads", "counters"] {
        assert!(listed.output.contains(kind), "{listed:?}");
        let entries = catalogue[kind].as_array().unwrap();
        assert!(!entries.is_empty(), "{kind}");
        let only: Value = serde_json::from_str(&with(&format!("list {kind} --json")).output).unwrap();
        // Availability of a counter may change between two lists, but not its name.
        assert_eq!(only.as_array().unwrap().len(), entries.len(), "{kind}");
        let text = with(&format!("list {kind}")).output;
        for entry in entries {
            let name = entry["name"].as_str().unwrap();
            assert!(listed.output.contains(name) && text.contains(name), "{kind} {name}");
            for field in ["summary", "source"] {
                assert!(entry[field].as_str().is_some_and(|text| !text.is_empty()), "{kind} {name} {field}");
            }
        }
    }
    // A file in this folder is a design of that name.
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/designs");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<String> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("mod.rs"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let designs = catalogue["designs"].as_array().unwrap().iter();
    let mut names: Vec<&str> = designs.filter_map(|design| design["name"].as_str()).collect();
    files.sort_unstable();
    names.sort_unstable();
    assert_eq!(names, files);
}

/// A setting's default is within its own bounds, and can be typed.
#[test]
fn every_setting_can_be_typed() {
    let catalogue: Value = serde_json::from_str(&with("list --json").output).unwrap();
    let help = with("serve --help-all").output + &with("load --help-all").output;
    let lists = |kind: &str, key: &str| -> Vec<Value> {
        catalogue[kind].as_array().unwrap().iter().flat_map(|entry| entry[key].as_array().unwrap().clone()).collect()
    };
    let mut settings =
        [lists("designs", "settings"), lists("primitives", "settings"), lists("loads", "settings")].concat();
    settings.extend(lists("workloads", "service_settings"));
    settings.extend(lists("workloads", "client_settings"));
    settings.extend(catalogue["server_settings"].as_array().unwrap().clone());
    settings.extend(catalogue["load_settings"].as_array().unwrap().clone());
    for setting in settings {
        let option = format!("--{}", setting["name"].as_str().unwrap().replace('_', "-"));
        assert!(help.contains(&option), "{option} is not in the help");
        match setting["kind"].as_str().unwrap() {
            "integer" => {
                let [minimum, default, maximum] = ["minimum", "default", "maximum"].map(|key| setting[key].as_u64());
                assert!(minimum <= default && default <= maximum, "{setting}");
            }
            "boolean" => assert!(setting["default"].is_boolean(), "{setting}"),
            "choice" => assert!(setting["choices"].as_array().unwrap().contains(&setting["default"]), "{setting}"),
            "text" => {
                let length = setting["default"].as_str().map(|text| text.len() as u64);
                let shortest = u64::from(setting["form"] != "free");
                assert!(length >= Some(shortest) && length <= setting["longest"].as_u64(), "{setting}");
            }
            kind => panic!("{kind} is no kind of setting: {setting}"),
        }
    }
}

#[test]
fn help_and_version_are_output_without_colours_for_a_program() {
    for arguments in
        ["--help", "serve --help", "serve --help-all", "load --help", "load --help-all", "list --help", "--version"]
    {
        let ran = with(arguments);
        assert_eq!((ran.status, ran.errors.as_str()), (Some(0), ""), "{arguments}");
        assert!(!ran.output.contains('\u{1b}'), "{arguments} prints escape sequences into a pipe");
    }
}

#[test]
fn help_is_the_same_in_each_form_and_shorter_than_all_options() {
    for (command, entry) in [("serve", "epoll"), ("load", "bytes")] {
        let page = with(&format!("{command} --help")).output;
        for other in [format!("{command} -h"), format!("help {command}"), format!("{command} {entry} --help")] {
            assert_eq!(with(&other).output, page, "{other}");
        }
        let all = with(&format!("{command} --help-all")).output;
        assert!(page.len() < all.len() && page.contains("--help-all"), "{page}");
    }
    mistake("load bytes --connect", "arguments.invalid_value", &["--help-all"]);
}

#[test]
fn all_lines_fit_the_schema() {
    let schema: Value = serde_json::from_str(&with("schema").output).unwrap();
    let fits = |line: &Value| {
        schema::check(&schema, line).unwrap_or_else(|wrong| panic!("{wrong}\nin {line}"));
    };
    for options in [&[][..], &["--cpus", "0", "--cpu-source", "whole_life"]] {
        let mut server = Server::start("prefork", "bytes", options);
        fits(&server.ready);
        fits(&server.snapshot());
        let ran = with(&format!("load bytes --connect 127.0.0.1:{} --children 1 --loops 2 --json", server.port));
        fits(&serde_json::from_str(&ran.output).unwrap());
        Client::connect(server.port).send(b"letters\n");
        server.snapshot_when("an error", |snapshot| snapshot["tally"]["errors"]["bad_request"] == 1);
        fits(&server.snapshot());
        let ending = server.stop();
        fits(ending.summary());
    }
    let server = Server::start("iterative", "bytes", &[]);
    fits(&server.ready);
    process::signal(server.first, nix::sys::signal::Signal::SIGKILL);
    fits(server.wait().summary());
    let refusal: Value = serde_json::from_str(&with("load bytes --connect 127.0.0.1:0 --json").output).unwrap();
    fits(&refusal);
    assert_eq!(refusal["code"], "address.port_zero", "{refusal}");
    let ran = with("load bytes --connect 127.0.0.1:1 --json");
    fits(&serde_json::from_str(&ran.output).unwrap());

    // The schema must reject lines with missing fields or wrong types.
    let mut line: Value = serde_json::from_str(&ran.output).unwrap();
    line["tally"]["requests"] = "many".into();
    assert!(schema::check(&schema, &line).is_err());
    line.as_object_mut().unwrap().remove("tally");
    assert!(schema::check(&schema, &line).is_err());
    line["line"] = "other".into();
    assert!(schema::check(&schema, &line).is_err());
}

#[test]
fn ready_has_the_servers_configuration() {
    let server = Server::start(
        "prethread_queue",
        "bytes",
        &["--pool", "4", "--ring", "7", "--backlog", "33", "--nodelay", "false", "--cpus", "0"],
    );
    let ready = &server.ready;
    let values = [("pool", 4.into()), ("ring", 7.into()), ("backlog", 33.into()), ("nodelay", false.into())];
    for (name, value) in values {
        assert_eq!(ready["settings"][name], Value::clone(&value), "{name} in {ready}");
    }
    assert_eq!(ready["settings"]["limit"], 16384, "what was not given has its default: {ready}");
    assert_eq!((&ready["socket"]["backlog"], &ready["socket"]["backlog_effective"]), (&33.into(), &33.into()));
    assert_eq!(ready["socket"]["nodelay"], false);
    assert_eq!(ready["cpus"], serde_json::json!([0]));
    assert_eq!((&ready["design"], &ready["workload"]), (&"prethread_queue".into(), &"bytes".into()));
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.first)).unwrap();
    assert!(status.contains("Cpus_allowed_list:\t0\n"), "the server is not pinned: {status}");
}
