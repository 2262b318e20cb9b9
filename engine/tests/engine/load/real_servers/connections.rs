//! Persistent connections that servers of the distribution close: while they are idle, and after some requests.

use super::{RealServer, loads};
use crate::support::event_loops::{count, load, with_each_back_end};

/// Most connections are idle for longer than the server keeps them. Some servers say so by a status before they close, and
/// some close connections that have had no request.
#[test]
fn connections_that_a_server_closes_while_idle_are_made_anew() {
    let servers = [
        RealServer::go("500ms"),
        RealServer::nginx("keepalive_timeout 1s;"),
        RealServer::apache("KeepAliveTimeout 1"),
        RealServer::haproxy("timeout http-request 1s\n timeout http-keep-alive 1s", ""),
        RealServer::lighttpd("server.max-read-idle = 1\nserver.max-keep-alive-idle = 1"),
        RealServer::node(
            "server.keepAliveTimeout = 100; server.requestTimeout = 500; server.connectionsCheckingInterval = 100;",
        ),
    ];
    for server in servers.into_iter().flatten() {
        with_each_back_end(|back_end| {
            let options = format!(
                "--load open --rate 20 --arrivals constant --duration 3s --clients 30 --connections kept --path \
                 /page.html {back_end}"
            );
            let (ran, line) = load("http", server.port, &options);
            let [due, requests, connections, closed, again] =
                ["scheduled.due", "tally.requests", "tally.connections", "tally.closed_idle", "tally.sent_again"]
                    .map(|name| count(&line, name));
            assert_eq!((due, requests, &line["tally"]["errors"]), (60, 60, &serde_json::json!({})), "{ran:?} {line}");
            assert!(connections > 30 && closed + again >= connections - 30, "{back_end}: {line}");
        });
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

/// Requests that were sent behind the last one that the server answers go over another connection.
#[test]
fn pipelined_requests_behind_a_last_reply_are_sent_again() {
    let Some(nginx) = RealServer::nginx("keepalive_requests 10;") else { return };
    with_each_back_end(|back_end| {
        let before = nginx.logged("200 GET");
        let options = format!(
            "--load closed_connections {back_end} --connections kept --pipeline 3 --clients 4 --loops 2000 --path /page.html"
        );
        let (ran, line) = load("http", nginx.port, &options);
        assert_eq!((ran.status, count(&line, "tally.requests")), (Some(0), 8000), "{back_end}: {line}");
        nginx.has_logged("200 GET", before, 8000);
        assert!(count(&line, "tally.sent_again") > 0, "{back_end}: {line}");
    });
}
