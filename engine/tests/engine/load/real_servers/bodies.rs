//! Bodies of requests at servers of the distribution: taken, refused, and held back.

use super::super::traffic::Folder;
use super::{RealServer, loads};
use crate::support::event_loops::{back_ends, count, load};

/// nginx replies as soon as it has said 100 Continue, and discards the body; Apache discards it first, Node and Go count it.
#[test]
fn bodies_of_any_size_reach_servers() {
    let servers = [
        (RealServer::go("1h"), "/", 200),
        (RealServer::node(""), "/", 200),
        (RealServer::apache(""), "/page.html", 200),
        (RealServer::nginx("client_max_body_size 0; location = /put { return 204; }"), "/put", 204),
    ];
    let folder = Folder::new("bodies");
    for (server, path, status) in servers {
        let Some(server) = server else { continue };
        for (bytes, header) in [
            (1, "X-Plain:1"),
            (5_000, "Expect:100-continue"),
            (3_000_000, "X-Plain:1"),
            (3_000_000, "Expect:100-continue"),
        ] {
            let body = folder.write("body", &"x".repeat(bytes));
            for which in loads() {
                let options = format!(
                    "{which} --clients 2 --loops 10 --method POST --path {path} --body-file {body} --header {header} \
                     --check count --expect {status}"
                );
                let (ran, line) = load("http", server.port, &options);
                assert_eq!((ran.status, count(&line, "tally.requests")), (Some(0), 20), "{options}: {ran:?} {line}");
            }
        }
    }
}

/// A server that refuses a body answers before it has all of it, and closes: the reply counts, not the failure to send.
#[test]
fn refusals_of_large_bodies_are_received() {
    let refuses = "server.removeAllListeners('request'); server.on('request', (request, reply) => { reply.writeHead(413, \
                   { Connection: 'close' }); reply.end(); });";
    let servers =
        [(RealServer::node(refuses), 413), (RealServer::haproxy("", "http-request deny deny_status 429"), 429)];
    let folder = Folder::new("refused-bodies");
    let body = folder.write("body", &"x".repeat(20_000_000));
    for (server, status) in servers {
        let Some(server) = server else { continue };
        let loops = back_ends().into_iter().map(|back_end| format!("closed_connections {back_end}"));
        for which in loops.chain(["closed_threads".to_owned()]) {
            let options = format!(
                "--load {which} --clients 2 --loops 5 --connections kept --method PUT --body-file {body} --check count \
                 --expect {status}"
            );
            let (ran, line) = load("http", server.port, &options);
            let errors = &line["tally"]["errors"];
            assert_eq!(
                (count(&line, "tally.requests"), errors),
                (10, &serde_json::json!({})),
                "{which}: {ran:?} {line}"
            );
        }
    }
}

/// A server that replies to the head of a request without a 100 Continue gets no body.
#[test]
fn a_final_reply_ends_the_wait_for_100_continue() {
    let servers = [(RealServer::haproxy("", ""), 200), (RealServer::go("1h"), 413)];
    for (server, status) in servers {
        let Some(server) = server else { continue };
        for which in loads() {
            let options = format!(
                "{which} --clients 2 --loops 5 --method PUT --body abc --header Expect:100-continue --check count --expect {status} \
                 --path /413 --timeout 1h"
            );
            let (ran, line) = load("http", server.port, &options);
            assert_eq!((ran.status, count(&line, "tally.requests")), (Some(0), 10), "{which}: {ran:?} {line}");
            assert_eq!(count(&line, "tally.sent_unbidden"), 0, "{which}: {line}");
        }
    }
}

/// Node replies when it has the body, and here does not ask for it.
#[test]
fn a_body_that_a_server_does_not_ask_for_is_sent_after_a_second() {
    let ignores = "server.on('checkContinue', (request, reply) => server.emit('request', request, reply));";
    let Some(node) = RealServer::node(ignores) else { return };
    let large = node.folder.write("body", &"x".repeat(3_000_000));
    let open = "--load open --rate 4 --arrivals constant --duration 500ms --connections kept".to_owned();
    let pipelined = back_ends()
        .into_iter()
        .map(|each| format!("--load closed_connections {each} --connections kept --pipeline 2 --loops 1"));
    let all = loads()
        .into_iter()
        .map(|which| which + " --loops 1")
        .chain(["--load closed --children 2 --loops 1".to_owned(), open]);
    for which in all.chain(pipelined) {
        let clients = if which.contains("--children") { "" } else { "--clients 2" };
        for body in ["--body abc".to_owned(), format!("--body-file {large}")] {
            let options = format!("{which} {clients} {body} --header Expect:100-continue --check count --timeout 1h");
            let (_, line) = load("http", node.port, &options);
            let counts = ["requests", "connections", "sent_unbidden"].map(|name| count(&line["tally"], name));
            assert_eq!((counts, &line["tally"]["errors"]), ([2, 2, 2], &serde_json::json!({})), "{options}: {line}");
            assert!(count(&line, "elapsed_ns") >= 1_000_000_000, "{options}: {line}");
        }
    }
}
