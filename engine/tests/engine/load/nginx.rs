//! Loads of nginx, if it is installed.

use std::process::Command;

use super::traffic::Folder;
use crate::support::event_loops::{count, load, with_each_back_end};
use crate::support::{eventually, process};

/// nginx on a separate port, ended on drop.
pub struct Nginx {
    child: std::process::Child,
    _folder: Folder,
    /// Its port.
    pub port: u16,
}

impl Nginx {
    /// Returns `None`, and prints the reason, if nginx is not installed.
    pub fn start() -> Option<Self> {
        Nginx::with("location = /gone { return 204; }")
    }

    /// The same, with these lines in the configuration of its server.
    pub fn with(lines: &str) -> Option<Self> {
        if Command::new("nginx").arg("-v").output().is_err() {
            println!("skipped: nginx is not installed (apt-get install nginx-light)");
            return None;
        }
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = Folder::new(&format!("nginx-{port}"));
        let root = folder.0.display();
        folder.write("page.html", "nginx says so\n");
        folder.write("empty", "");
        let configuration = folder.write(
            "nginx.conf",
            &format!(
                "daemon off; pid {root}/pid; error_log {root}/errors;\nevents {{}}\nhttp {{ access_log off; \
                 client_body_temp_path {root}/a; proxy_temp_path {root}/b; fastcgi_temp_path {root}/c; uwsgi_temp_path \
                 {root}/d; scgi_temp_path {root}/e; server {{ listen 127.0.0.1:{port}; root {root}; \
                 {lines} }} }}\n"
            ),
        );
        let child =
            Command::new("nginx").args(["-c", &configuration, "-e", &format!("{root}/errors")]).spawn().unwrap();
        let nginx = Nginx { child, _folder: folder, port };
        eventually("nginx listens", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        Some(nginx)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        process::signal(self.child.id() as i32, nix::sys::signal::Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

#[test]
fn nginx_answers_a_mix() {
    let Some(nginx) = Nginx::start() else { return };
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

/// Most connections are idle for longer than nginx keeps them.
#[test]
fn connections_that_nginx_closes_while_idle_are_made_anew() {
    let Some(nginx) = Nginx::with("keepalive_timeout 1s;") else { return };
    with_each_back_end(|back_end| {
        let options = format!(
            "--load open --rate 20 --arrivals constant --duration 3s --clients 30 --connections kept --path /page.html {back_end}"
        );
        let (ran, line) = load("http", nginx.port, &options);
        let [due, requests, connections, closed] =
            ["scheduled.due", "tally.requests", "tally.connections", "tally.closed_idle"]
                .map(|name| count(&line, name));
        assert_eq!((due, requests, &line["tally"]["errors"]), (60, 60, &serde_json::json!({})), "{ran:?} {line}");
        assert!(connections > 30 && closed >= connections - 30, "{back_end}: {line}");
    });
}
