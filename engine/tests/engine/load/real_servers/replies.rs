//! Replies of servers of the distribution: of mixes, of hosts, with any status, and of ports that speak TLS.

use std::collections::BTreeMap;

use serde_json::json;

use super::{CERTIFICATE, RealServer, loads};
use crate::support::event_loops::{count, load, with_each_back_end};
use crate::support::{Ran, with};

#[test]
fn nginx_answers_a_mix() {
    let Some(nginx) = RealServer::nginx("location = /gone { return 204; }") else { return };
    let mix = "--check count --mix GET+14:/page.html@5,HEAD+14:/page.html@2,GET=404:/missing@2,GET=204:/gone@1";
    // A resource that our servers do not have may have any length.
    for path in ["/page.html", "/empty"] {
        let (ran, line) = load("http", nginx.port, &format!("--load closed_connections --loops 5 --path {path}"));
        assert_eq!((ran.status, &line["tally"]["requests"]), (Some(0), &20.into()), "{ran:?} {line}");
        assert_eq!((line["settings"].get("bytes"), line["settings"].get("check")), (None, None), "{line}");
    }
    for (options, words) in [("/missing", "404"), ("/page.html --bytes 15", "14 bytes")] {
        let (ran, line) = load("http", nginx.port, &format!("--load closed --loops 1 --path {options}"));
        assert_eq!(ran.status, Some(1), "{ran:?}");
        assert!(line["first_error"].as_str().unwrap().contains(words), "{line}");
    }
    let (ran, line) = load("http", nginx.port, "--load closed_connections --loops 1 --path /empty --check count");
    assert_eq!((ran.status, &line["statuses"]["200"]["replies"]), (Some(0), &4.into()), "{line}");
    with_each_back_end(|back_end| {
        let empty = format!("--load closed_connections --clients 3 --loops 10 --mix GET+0:/empty@1 {back_end}");
        for kept in ["kept", "per_request"] {
            let (ran, line) = load("http", nginx.port, &format!("{empty} --connections {kept}"));
            assert_eq!((ran.status, &line["tally"]["requests"]), (Some(0), &30.into()), "{ran:?} {line}");
        }
        let options = format!("--load closed_connections --clients 3 --loops 100 --connections kept {mix} {back_end}");
        let (ran, line) = load("http", nginx.port, &options);
        assert_eq!((ran.status, &line["tally"]["requests"]), (Some(0), &300.into()), "{ran:?} {line}");
        let kinds = line["traffic"]["kinds"].as_array().unwrap();
        assert!(kinds.iter().all(|kind| count(kind, "requests") > 5), "{kinds:?}");
    });
}

/// Each name has a page of another length.
#[test]
fn name_based_hosts_are_reached_by_name() {
    let of =
        |name: &str| format!("server {{ listen 127.0.0.1:{{port}}; server_name {name}.test; root {{root}}/{name}; }}");
    let vhost = |name: &str| {
        format!("<VirtualHost *:{{port}}>\nServerName {name}.test\nDocumentRoot {{root}}/{name}\n</VirtualHost>\n")
    };
    let servers = [
        RealServer::nginx_with(&(of("a") + &of("b"))),
        RealServer::apache(&(vhost("a") + &vhost("b"))),
        RealServer::lighttpd(
            "$HTTP[\"host\"] == \"b.test\" { server.document-root = \"{root}/b\" }\n\
                              else $HTTP[\"host\"] =~ \"\" { server.document-root = \"{root}/a\" }",
        ),
    ];
    for server in servers.into_iter().flatten() {
        let all = loads().into_iter().chain(["--load closed --children 4".to_owned()]);
        for which in all {
            // The first one is the default.
            for (options, bytes) in [("", 5), ("--host a.test", 5), ("--host b.test", 10), ("--header Host:b.test", 10)]
            {
                let options = format!("{which} --loops 3 --path /page.html --bytes {bytes} --check count {options}");
                let (ran, line) = load("http", server.port, &options);
                assert_eq!((ran.status, count(&line, "tally.requests")), (Some(0), 12), "{options}: {ran:?} {line}");
            }
        }
    }
}

/// Counts and latencies by status, over connections that persist. nginx counts the same replies.
#[test]
fn replies_of_each_status_are_counted_timed_and_keep_their_connections() {
    let servers = [
        RealServer::nginx(
            "location = /404 { return 404; } location = /500 { return 500 wrong; } location = /503 { return 503; }",
        ),
        RealServer::go("1h"),
        RealServer::node(
            "server.removeAllListeners('request'); server.on('request', (request, reply) => { reply.writeHead(\
             Number(request.url.slice(1)) || 200); reply.end(); });",
        ),
    ];
    for server in servers.into_iter().flatten() {
        for which in loads().into_iter().chain(["--load open --rate 2000 --duration 200ms".to_owned()]) {
            let before = ["200", "404", "500", "503"].map(|status| server.logged(status));
            let mix = "--mix GET:/page.html@3,GET:/404@1,GET:/500@1,GET:/503@1 --check count";
            let is_open = which.contains("open");
            let loops = if is_open { "" } else { "--loops 150" };
            let options = format!("{which} --clients 2 {loops} {mix}");
            let (ran, line) = load("http", server.port, &options);
            assert_eq!((ran.status, count(&line, "tally.connections")), (Some(1), 2), "{options}: {line}");
            let statuses = line["statuses"].as_object().unwrap();
            let errors: u64 = statuses.values().map(|status| count(status, "errors")).sum();
            assert_eq!(line["tally"]["errors"], json!({"error_status": errors}), "{options}: {line}");
            assert_eq!(
                (&line["statuses"]["200"]["errors"], count(&line, "tally.requests")),
                (&json!(0), count(&line, "statuses.200.replies"))
            );
            for (status, before) in ["200", "404", "500", "503"].into_iter().zip(before) {
                let replies = count(&statuses[status], "replies");
                assert!(count(&statuses[status], "latency.requests") > 0, "{options}: {status}: {line}");
                server.has_logged(status, before, replies);
            }
            // Expected statuses are no errors, and are counted apart all the same.
            let (ran, line) = load("http", server.port, &format!("{options} --expect 200,404,500,503"));
            assert_eq!(&line["tally"]["errors"], &json!({}), "{options}: {line}");
            // Whether an open load kept its schedule depends on the machine.
            assert!(ran.status == Some(0) || is_open, "{ran:?}");
            let all: u64 = line["statuses"].as_object().unwrap().values().map(|status| count(status, "replies")).sum();
            assert_eq!(all, count(&line, "tally.requests"), "{options}: {line}");
        }
    }
}

/// The hint against a reply of another length says how this server can be loaded, and does so.
#[test]
fn a_reply_of_another_length_has_a_hint_that_helps() {
    let Some(nginx) = RealServer::nginx("location = / { return 200 hello; }") else { return };
    let loaded = |options: &str| with(&format!("load http://127.0.0.1:{}/ -c 1 --loops 1 {options}", nginx.port));
    let hints = |ran: &Ran| -> Vec<String> {
        let lines = ran.output.lines().chain(ran.errors.lines());
        lines.filter(|line| line.starts_with("hint: ")).map(str::to_owned).collect()
    };
    for (options, needed) in [("", "--bytes 4000"), ("--check count --bytes 6", "--bytes")] {
        let ran = loaded(options);
        let hints = hints(&ran);
        assert_eq!((ran.status, hints.len()), (Some(1), 1), "{ran:?}");
        assert!(hints[0].contains(needed), "{ran:?}");
        assert_eq!(hints[0].contains("--check count"), options.is_empty(), "{ran:?}");
    }
    for helps in ["--check count", "--check count --bytes 5"] {
        let ran = loaded(helps);
        assert_eq!((ran.status, hints(&ran)), (Some(0), vec![]), "{ran:?}");
    }
}

/// Loads of our own protocols find that the port is one of HTTP.
#[test]
fn a_port_that_speaks_http_is_named() {
    let Some(nginx) = RealServer::nginx("") else { return };
    let echo = loads().into_iter().map(|load| ("echo", load));
    for (workload, which) in echo.chain(["closed", "closed_threads"].map(|load| ("bytes", format!("--load {load}")))) {
        let (ran, line) = load(workload, nginx.port, &format!("{which} --loops 2 --timeout 2s"));
        let errors = line["tally"]["errors"].as_object().unwrap();
        let only = errors.len() == 1 && errors.contains_key("other_protocol");
        assert!(ran.status == Some(1) && only, "{workload} {which}: {line}");
        assert!(line["first_error"].as_str().unwrap().contains("load http"), "{line}");
    }
}

/// Plain HTTP at a port of TLS: some servers say so in a page, some send an alert, and some close.
#[test]
fn a_port_that_speaks_tls_is_named() {
    let of_nginx = format!(
        "server {{ listen 127.0.0.1:{{port}} ssl; root {{root}}; ssl_certificate {CERTIFICATE}; ssl_certificate_key {CERTIFICATE}; }}"
    );
    let of_apache = format!(
        "LoadModule socache_shmcb_module modules/mod_socache_shmcb.so\nLoadModule ssl_module modules/mod_ssl.so\n\
         SSLEngine on\nSSLCertificateFile {CERTIFICATE}"
    );
    let servers = [
        (RealServer::nginx_with(&of_nginx), "other_protocol"),
        (RealServer::apache(&of_apache), "other_protocol"),
        (RealServer::go_with(CERTIFICATE), "other_protocol"),
        // It closes.
        (RealServer::haproxy_at(&format!("127.0.0.1:{{port}} ssl crt {CERTIFICATE}"), "", ""), "truncated"),
    ];
    for (server, kind) in servers {
        let Some(server) = server else { continue };
        for which in loads().into_iter().chain(["--load closed".to_owned()]) {
            let (ran, line) = load("http", server.port, &format!("{which} --loops 1 --path /page.html"));
            let errors: BTreeMap<String, u64> = serde_json::from_value(line["tally"]["errors"].clone()).unwrap();
            assert_eq!(
                (ran.status, errors.keys().next().unwrap().as_str(), errors.len()),
                (Some(1), kind, 1),
                "{line}"
            );
        }
        let shown = with(&format!("load http://127.0.0.1:{}/ --loops 1 -c 1", server.port));
        let said: Vec<&str> = shown.output.lines().chain(shown.errors.lines()).collect();
        let hint = said.iter().find(|line| line.starts_with("hint: "));
        assert!(hint.is_some_and(|hint| hint.contains("check the port")), "{shown:?}");
        assert!(said.iter().any(|line| line.contains("TLS")), "{shown:?}");
    }
}
