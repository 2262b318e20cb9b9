//! Loads of servers of the distribution, as far as they are installed.

mod bodies;
mod connections;
mod replies;
mod restarts;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use nix::sys::signal::Signal;

use super::traffic::Folder;
use crate::support::event_loops::back_ends;
use crate::support::{eventually, process};

/// Returns the options of the loads with persistent connections: each back end, and blocking threads.
fn loads() -> Vec<String> {
    let loops = back_ends().into_iter().map(|back_end| format!("--load closed_connections {back_end}"));
    loops.chain(["--load closed_threads".to_owned()]).map(|load| load + " --connections kept").collect()
}

/// A server of the distribution on a separate port, ended on drop.
struct RealServer {
    program: PathBuf,
    arguments: Vec<String>,
    child: Child,
    folder: Folder,
    port: u16,
}

impl RealServer {
    /// Starts a program with `page.html` and an empty file in its folder. `{port}` and `{root}` in its configuration and
    /// arguments are filled in. Returns `None`, and prints the reason, if it is not installed.
    fn start(program: impl AsRef<Path>, configuration: &str, arguments: &[&str]) -> Option<Self> {
        let program = program.as_ref();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let name = program.file_name().unwrap().to_string_lossy();
        let folder = Folder::new(&format!("{name}-{port}"));
        let root = folder.0.display().to_string();
        let filled = |text: &str| text.replace("{port}", &port.to_string()).replace("{root}", &root);
        folder.write("page.html", "nginx says so\n");
        folder.write("empty", "");
        for (host, page) in [("a", "of a\n"), ("b", "of host b\n")] {
            std::fs::create_dir(folder.0.join(host)).unwrap();
            folder.write(&format!("{host}/page.html"), page);
        }
        folder.write("configuration", &filled(configuration));
        if configuration.contains(CERTIFICATE) || arguments.contains(&CERTIFICATE) {
            certify(&folder)?;
        }
        let arguments: Vec<String> = arguments.iter().map(|argument| filled(argument)).collect();
        let Ok(child) = spawn(program, &arguments) else {
            println!("skipped: {name} is not installed");
            return None;
        };
        let server = RealServer { program: program.to_owned(), arguments, child, folder, port };
        server.listens();
        Some(server)
    }

    fn listens(&self) {
        eventually("the server listens", || std::net::TcpStream::connect(("127.0.0.1", self.port)).ok());
    }

    /// Ends it, whatever its connections do, and starts it again after a moment, on the same port.
    fn starts_again(&mut self, after: std::time::Duration) {
        process::signal(self.child.id() as i32, Signal::SIGTERM);
        self.child.wait().unwrap();
        std::thread::sleep(after);
        self.child = spawn(&self.program, &self.arguments).unwrap();
        self.listens();
    }

    fn signal(&self, signal: Signal) {
        process::signal(self.child.id() as i32, signal);
    }

    /// Lines of its access log that begin with these words. A server writes the line of a request after its reply.
    fn logged(&self, words: &str) -> u64 {
        let log = std::fs::read_to_string(self.folder.0.join("access")).unwrap_or_default();
        log.lines().filter(|line| line.starts_with(words)).count() as u64
    }

    /// Checks that this many lines with these words have come to its access log, if it has one.
    #[track_caller]
    fn has_logged(&self, words: &str, before: u64, requests: u64) {
        let has_log = self.folder.0.join("access").exists();
        let _ = has_log
            && eventually("the load counts what the server logs", || {
                let logged = self.logged(words) - before;
                assert!(
                    logged <= requests,
                    "{} has logged {logged}, but there were {requests}",
                    self.program.display()
                );
                (logged == requests).then_some(true)
            });
    }

    /// nginx with these lines in the configuration of its server. Its access log has the status and method of each request.
    fn nginx(lines: &str) -> Option<Self> {
        let page = format!("server {{ listen 127.0.0.1:{{port}}; root {{root}}; {lines} }}");
        RealServer::nginx_with(&page)
    }

    /// nginx with these servers, or other lines for HTTP.
    fn nginx_with(servers: &str) -> Option<Self> {
        let configuration = format!(
            "daemon off; pid {{root}}/pid; error_log {{root}}/errors;\nevents {{}}\nhttp {{ log_format short '$status \
             $request_method $request_length'; access_log {{root}}/access short; client_body_temp_path {{root}}/t1; \
             proxy_temp_path {{root}}/t2; fastcgi_temp_path {{root}}/t3; uwsgi_temp_path {{root}}/t4; scgi_temp_path \
             {{root}}/t5; {servers} }}\n"
        );
        RealServer::start("nginx", &configuration, &["-c", "{root}/configuration", "-e", "{root}/errors"])
    }

    /// haproxy, which replies by itself, with these lines among its defaults and this rule.
    fn haproxy(lines: &str, rule: &str) -> Option<Self> {
        RealServer::haproxy_at("127.0.0.1:{port}", lines, rule)
    }

    /// The same, bound to an address, with or without TLS.
    fn haproxy_at(bind: &str, lines: &str, rule: &str) -> Option<Self> {
        let configuration = format!(
            "global\n nbthread 1\ndefaults\n mode http\n timeout connect 9s\n timeout client 9s\n timeout server 9s\n \
             {lines}\nfrontend web\n bind {bind}\n {rule}\n http-request return status 200 content-type text/plain \
             string hello\n"
        );
        RealServer::start("haproxy", &configuration, &["-db", "-f", "{root}/configuration"])
    }

    /// lighttpd with these lines in its configuration. Its access log has the status and method of each request.
    fn lighttpd(lines: &str) -> Option<Self> {
        let configuration = format!(
            "server.document-root = \"{{root}}\"\nserver.bind = \"127.0.0.1\"\nserver.port = {{port}}\n\
             server.errorlog = \"{{root}}/errors\"\nserver.modules += (\"mod_accesslog\")\n\
             accesslog.filename = \"{{root}}/access\"\naccesslog.format = \"%s %m\"\n{lines}\n"
        );
        RealServer::start("lighttpd", &configuration, &["-D", "-f", "{root}/configuration"])
    }

    /// Apache httpd of Debian with these lines in its configuration. Its access log has the status and method of each request.
    fn apache(lines: &str) -> Option<Self> {
        let configuration = format!(
            "ServerRoot /usr/lib/apache2\nLoadModule mpm_event_module modules/mod_mpm_event.so\n\
             LoadModule authz_core_module modules/mod_authz_core.so\nPidFile {{root}}/pid\nDefaultRuntimeDir {{root}}\n\
             ErrorLog {{root}}/errors\nLogFormat \"%>s %m\" short\nCustomLog {{root}}/access short\nServerName localhost\n\
             Listen 127.0.0.1:{{port}}\nUser nobody\nGroup nogroup\nDocumentRoot {{root}}\n{lines}\n"
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

    /// The server of `server.go`, which replies like that of Node, and closes a connection that is idle for this long.
    fn go(idle: &str) -> Option<Self> {
        RealServer::start(go_program()?, "", &["{port}", idle])
    }

    /// The same with TLS.
    fn go_with(certificate: &str) -> Option<Self> {
        RealServer::start(go_program()?, "", &["{port}", "1h", certificate])
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        self.signal(Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

fn spawn(program: &Path, arguments: &[String]) -> std::io::Result<Child> {
    Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

/// File with a self-signed certificate and its key, for servers of TLS.
const CERTIFICATE: &str = "{root}/certificate";

/// Makes that file. Returns `None`, and prints the reason, without openssl.
fn certify(folder: &Folder) -> Option<()> {
    let [key, certificate] = ["key", "certificate"].map(|name| folder.0.join(name));
    let mut command = Command::new("openssl");
    command.args("req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -keyout".split(' ')).arg(&key);
    let Ok(output) = command.arg("-out").arg(&certificate).output() else {
        println!("skipped: openssl is not installed");
        return None;
    };
    assert!(output.status.success(), "{output:?}");
    let both = [certificate.clone(), key].map(|path| std::fs::read_to_string(path).unwrap()).concat();
    std::fs::write(certificate, both).unwrap();
    Some(())
}

/// Builds `server.go`, once. Returns `None`, and prints the reason, if Go is not installed.
fn go_program() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (source, program) = (folder.join("server.go"), folder.join("go-server"));
        std::fs::write(&source, include_str!("server.go")).unwrap();
        let mut command = Command::new("go");
        command.args(["build", "-o"]).args([&program, &source]).env("GOCACHE", folder.join("go-cache"));
        // Nothing is downloaded.
        command.env("GOTOOLCHAIN", "local").env("GOPROXY", "off").env("GOFLAGS", "").env("GO111MODULE", "off");
        let output = command.output().ok()?;
        assert!(output.status.success(), "{output:?}");
        Some(program)
    });
    if built.is_none() {
        println!("skipped: go is not installed");
    }
    built.as_deref()
}
