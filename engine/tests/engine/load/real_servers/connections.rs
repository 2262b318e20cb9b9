//! Persistent connections that servers of the distribution close: while they are idle, and after some requests.

use serde_json::json;

use super::{RealServer, loads};
use crate::support::event_loops::{back_ends, count, load, with_each_back_end};
use crate::support::with;

/// Most connections are idle for longer than the server keeps them. Some servers say so by a status before they close, and
/// some close connections that have had no request.
#[test]
fn connections_that_a_server_closes_while_idle_are_made_anew() {
    let servers = [
        RealServer::go("500ms"),
        RealServer::nginx("keepalive_timeout 1s;"),
        RealServer::nginx("keepalive_timeout 50ms; client_header_timeout 50ms;"),
        RealServer::apache("KeepAliveTimeout 1"),
        RealServer::haproxy("timeout http-request 1s\n timeout http-keep-alive 1s", ""),
        RealServer::lighttpd("server.max-read-idle = 1\nserver.max-keep-alive-idle = 1"),
        RealServer::node(
            "server.keepAliveTimeout = 100; server.requestTimeout = 500; server.connectionsCheckingInterval = 100;",
        ),
    ];
    for (place, server) in servers.into_iter().flatten().enumerate() {
        // Each takes three seconds, so all back ends meet one server.
        for back_end in back_ends().into_iter().take(if place == 0 { usize::MAX } else { 1 }) {
            let options = format!(
                "--load open --rate 20 --arrivals constant --duration 3s --clients 30 --connections kept --path \
                 /page.html {back_end}"
            );
            let (ran, line) = load("http", server.port, &options);
            let [due, requests, connections, closed, again] =
                ["scheduled.due", "tally.requests", "tally.connections", "tally.closed_idle", "tally.sent_again"]
                    .map(|name| count(&line, name));
            // On a busy machine, a server's 408 may meet the first request of a connection, and count as its reply.
            let crossed = line["statuses"]["408"]["replies"].as_u64().unwrap_or(0);
            let errors = if crossed == 0 { json!({}) } else { json!({ "error_status": crossed }) };
            assert!(crossed <= 3, "{line}");
            assert_eq!((due, requests + crossed, &line["tally"]["errors"]), (60, 60, &errors), "{ran:?} {line}");
            assert!(connections > 30 && closed + again >= connections - 30, "{back_end}: {line}");
        }
    }
}

/// Every tenth reply of a connection is its last; Apache and lighttpd do not count the first request.
#[test]
fn connections_end_after_the_requests_that_a_server_allows() {
    let servers = [
        (RealServer::nginx("keepalive_requests 10;"), 10),
        (RealServer::apache("MaxKeepAliveRequests 10"), 11),
        (RealServer::lighttpd("server.max-keep-alive-requests = 10"), 11),
        (RealServer::node("server.maxRequestsPerSocket = 10;"), 10),
    ];
    for (server, most) in servers {
        let Some(server) = server else { continue };
        for which in loads() {
            let before = server.logged("200 GET");
            let (ran, line) = load("http", server.port, &format!("{which} --clients 3 --loops 110 --path /page.html"));
            let counts = ["requests", "connections"].map(|name| count(&line["tally"], name));
            assert_eq!(
                (ran.status, counts),
                (Some(0), [330, 330 / most]),
                "{} {which}: {line}",
                server.program.display()
            );
            server.has_logged("200 GET", before, 330);
        }
    }
}

/// Requests that were sent behind the last one that the server answers go over another connection, POST too: that reply says
/// that none of them was processed (RFC 9112, section 9.6).
#[test]
fn pipelined_requests_behind_a_last_reply_are_sent_again() {
    let Some(nginx) = RealServer::nginx("keepalive_requests 10; location = /post { return 200 ok; }") else { return };
    for (method, path) in [("GET", "/page.html"), ("POST", "/post")] {
        with_each_back_end(|back_end| {
            let logged = format!("200 {method}");
            let before = nginx.logged(&logged);
            let options = format!(
                "--load closed_connections {back_end} --connections kept --pipeline 3 --clients 4 --loops 2000 --method \
                 {method} --path {path}"
            );
            let (ran, line) = load("http", nginx.port, &options);
            assert_eq!((ran.status, count(&line, "tally.requests")), (Some(0), 8000), "{method} {back_end}: {line}");
            nginx.has_logged(&logged, before, 8000);
            assert!(count(&line, "tally.sent_again") > 0, "{method} {back_end}: {line}");
        });
    }
}

/// nginx closes instead of replying (444). What may be sent twice is sent again, once; the rest fails, and the hint says why.
#[test]
fn only_a_request_that_may_be_sent_twice_is_sent_again() {
    let Some(nginx) = RealServer::nginx("location = /closes { return 444; } location = /stays { return 204; }") else {
        return;
    };
    for which in loads() {
        for (method, kind, repeats) in
            [("GET", "truncated", true), ("PUT", "truncated", true), ("POST", "not_repeated", false)]
        {
            let options = format!("{which} --clients 2 --mix GET=204:/stays@1,{method}=204:/closes@1");
            let (_, line) = load("http", nginx.port, &format!("{options} --loops 50 --give-up never"));
            let [again, failed] = [("sent_again"), &format!("errors.{kind}")].map(|name| count(&line["tally"], name));
            // A connection that was made for its request was not idle.
            let [others, known] =
                [count(&line, "tally.errors.truncated"), failed + count(&line, "tally.errors.truncated")];
            assert!(failed > 0 && (again > 0) == repeats, "{which} {method}: {line}");
            let all: u64 =
                line["tally"]["errors"].as_object().unwrap().values().map(|each| each.as_u64().unwrap()).sum();
            assert_eq!(all, if repeats { others } else { known }, "{which} {method}: {line}");
        }
        let ran = with(&format!(
            "load http --connect 127.0.0.1:{} {which} --clients 1 --loops 50 --mix GET=204:/stays@9,POST=204:/closes@1",
            nginx.port
        ));
        let lines = ran.output.lines().chain(ran.errors.lines());
        let hint = lines.filter(|line| line.starts_with("hint: ")).collect::<String>();
        assert!(hint.contains("POST") && hint.contains("--connections per-request"), "{which}: {ran:?}");
    }
}

/// Node closes each connection beyond the second. Two clients are another load: how many gave up is reported, and no rate.
#[test]
fn no_rate_is_reported_if_clients_gave_up() {
    let Some(node) = RealServer::node("server.maxConnections = 2;") else { return };
    let open = back_ends().into_iter().map(|back_end| format!("--load open --rate 500 {back_end} --connections kept"));
    for which in loads().into_iter().chain(open) {
        let options = format!("{which} --clients 5 --duration 500ms --give-up 3 --path /page");
        let (ran, line) = load("http", node.port, &options);
        let [gave_up, of] = ["clients", "of"].map(|name| count(&line["gave_up"], name));
        assert_eq!((ran.status, gave_up, of), (Some(1), 3, 5), "{which}: {line}");
        let [first, last] = ["first", "last"].map(|which| count(&line["gave_up"], &format!("{which}_monotonic_ns")));
        let [started, ended] = ["started", "ended"].map(|edge| count(&line["window"], &format!("{edge}_monotonic_ns")));
        assert!(started <= first && first <= last && last < ended, "{which}: {line}");
        let checks = line["validity"]["checks"].as_array().unwrap();
        let check = checks.iter().find(|check| check["name"] == "gave_up").unwrap();
        assert_eq!((&check["value"], &line["validity"]["valid"]), (&json!(3.0), &json!(false)), "{which}: {line}");
        assert!(count(&line, "window.requests") > 0, "{which}: {line}");
        let rate = &line["scheduled"]["achieved_per_second"];
        assert!(rate.is_null(), "{which}: {line}");
        let ran = with(&format!("load http --connect 127.0.0.1:{} {options}", node.port));
        let row = |name: &str| ran.output.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
        for row in [row("Requests"), row("Transfer")] {
            assert!(row.contains(" - ") || row.ends_with(" -"), "{which}: {row}");
        }
        assert!(ran.output.contains("3 of 5 clients"), "{which}: {ran:?}");
    }
}
