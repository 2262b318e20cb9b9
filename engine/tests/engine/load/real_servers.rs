//! Loads of servers of the distribution, as far as they are installed.

use std::process::{Command, Stdio};

use super::traffic::Folder;
use crate::support::event_loops::{back_ends, count, load, with_each_back_end};
use crate::support::{eventually, process};

/// A server of the distribution on a separate port, ended on drop.
struct RealServer {
    child: std::process::Child,
    _folder: Folder,
    port: u16,
}

impl RealServer {
    /// Starts a program with `page.html` and an empty file in its folder. `{port}` and `{root}` in its configuration and
    /// arguments are filled in. Returns `None`, and prints the reason, if it is not installed.
    fn start(program: &str, configuration: &str, arguments: &[&str]) -> Option<Self> {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = Folder::new(&format!("{program}-{port}"));
        let root = folder.0.display().to_string();
        let filled = |text: &str| text.replace("{port}", &port.to_string()).replace("{root}", &root);
        folder.write("page.html", "nginx says so\n");
        folder.write("empty", "");
        folder.write("configuration", &filled(configuration));
        let arguments = arguments.iter().map(|argument| filled(argument));
        let spawned = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(child) = spawned else {
            println!("skipped: {program} is not installed");
            return None;
        };
        let server = RealServer { child, _folder: folder, port };
        eventually("the server listens", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        Some(server)
    }

    /// nginx with these lines in the configuration of its server.
    fn nginx(lines: &str) -> Option<Self> {
        let configuration = format!(
            "daemon off; pid {{root}}/pid; error_log {{root}}/errors;\nevents {{}}\nhttp {{ access_log off; \
             client_body_temp_path {{root}}/a; proxy_temp_path {{root}}/b; fastcgi_temp_path {{root}}/c; uwsgi_temp_path \
             {{root}}/d; scgi_temp_path {{root}}/e; server {{ listen 127.0.0.1:{{port}}; root {{root}}; {lines} }} }}\n"
        );
        RealServer::start("nginx", &configuration, &["-c", "{root}/configuration", "-e", "{root}/errors"])
    }

    /// haproxy, which replies by itself, with these lines among its defaults and this rule.
    fn haproxy(lines: &str, rule: &str) -> Option<Self> {
        let configuration = format!(
            "global\n nbthread 1\ndefaults\n mode http\n timeout connect 9s\n timeout client 9s\n timeout server 9s\n \
             {lines}\nfrontend web\n bind 127.0.0.1:{{port}}\n {rule}\n http-request return status 200 content-type text/plain \
             string hello\n"
        );
        RealServer::start("haproxy", &configuration, &["-db", "-f", "{root}/configuration"])
    }

    /// lighttpd with these lines in its configuration.
    fn lighttpd(lines: &str) -> Option<Self> {
        let configuration = format!(
            "server.document-root = \"{{root}}\"\nserver.bind = \"127.0.0.1\"\nserver.port = {{port}}\n\
             server.errorlog = \"{{root}}/errors\"\n{lines}\n"
        );
        RealServer::start("lighttpd", &configuration, &["-D", "-f", "{root}/configuration"])
    }

    /// Apache httpd of Debian with these lines in its configuration.
    fn apache(lines: &str) -> Option<Self> {
        let configuration = format!(
            "ServerRoot /usr/lib/apache2\nLoadModule mpm_event_module modules/mod_mpm_event.so\n\
             LoadModule authz_core_module modules/mod_authz_core.so\nPidFile {{root}}/pid\nDefaultRuntimeDir {{root}}\n\
             ErrorLog {{root}}/errors\nServerName localhost\nListen 127.0.0.1:{{port}}\nUser nobody\nGroup nogroup\n\
             DocumentRoot {{root}}\n{lines}\n"
        );
        RealServer::start("apache2", &configuration, &["-D", "FOREGROUND", "-f", "{root}/configuration"])
    }

    /// A server of Node, which replies to any request with its number of body bytes, after these lines of setup.
    fn node(lines: &str) -> Option<Self> {
        let program = format!(
            "const server = require('http').createServer((request, reply) => {{ let bytes = 0; \
             request.on('data', part => bytes += part.length); request.on('end', () => reply.end(`${{bytes}}`)); }});\n\
             {lines}\nserver.listen({{port}}, '127.0.0.1');\n"
        );
        RealServer::start("node", &program, &["{root}/configuration"])
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        process::signal(self.child.id() as i32, nix::sys::signal::Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

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

/// Most connections are idle for longer than the server keeps them. Some servers say so by a status before they close, and
/// some close connections that have had no request.
#[test]
fn connections_that_a_server_closes_while_idle_are_made_anew() {
    let servers = [
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

/// nginx takes the body as a file of its own, Apache discards it, Node counts it.
#[test]
fn bodies_of_any_size_reach_servers() {
    let servers = [
        (RealServer::node(""), "/", 200),
        (RealServer::apache(""), "/page.html", 200),
        (RealServer::nginx("client_max_body_size 0; location = /put { return 204; }"), "/put", 204),
    ];
    let folder = Folder::new("bodies");
    for (server, path, status) in servers {
        let Some(server) = server else { continue };
        for (bytes, header) in [(1, "X-Plain:1"), (5_000, "Expect:100-continue"), (3_000_000, "X-Plain:1")] {
            let body = folder.write("body", &"x".repeat(bytes));
            let options = format!(
                "--load closed_connections --clients 2 --loops 3 --method POST --path {path} --body-file {body} --header \
                 {header} --check count --expect {status}"
            );
            let (ran, line) = load("http", server.port, &options);
            assert_eq!((ran.status, count(&line, "tally.requests")), (Some(0), 6), "{options}: {ran:?} {line}");
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
