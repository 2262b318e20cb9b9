//! What a request has besides its path: method, host, header fields and body.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};

use crate::base::mistake::{Blame, mistake_with_hint};
use crate::base::regular_file::read_regular;
use crate::base::setting::{Form, Kind, NONE, Setting, Settings};
use crate::base::unit::Unit;

/// Method of the requests.
pub const METHOD: Setting = Setting {
    name: "method",
    help: "Method of the requests, instead of --mix. The reply to a method other than GET and HEAD may have any length, \
           unless --bytes is given. Default with a body: POST",
    unit: Unit::None,
    kind: Kind::Text { longest: 32, default: GET, form: Form::Plain },
    for_more: None,
};

/// Host field.
pub const HOST: Setting = Setting {
    name: "host",
    help: "Host field of the requests; none: the address as typed, with its port, or localhost for a Unix socket",
    unit: Unit::None,
    kind: Kind::Text { longest: 512, default: NONE, form: Form::Plain },
    for_more: None,
};

/// Further header fields.
pub const HEADER: Setting = Setting {
    name: "header",
    help: "Header field of the requests, such as 'Accept: text/html'. It replaces the field of the same name that this load \
           sends (User-Agent, Host); without a value, the field is left out. With 'Expect: 100-continue', the body waits for \
           the server's 100 Continue, for at most 1 s",
    unit: Unit::None,
    kind: Kind::Text { longest: 32768, default: NONE, form: Form::Lines },
    for_more: None,
};

/// Body of the requests.
pub const BODY: Setting = Setting {
    name: "body",
    help: "Body of the requests, none if it is empty; with a mix, of those with the methods POST, PUT and PATCH",
    unit: Unit::None,
    kind: Kind::Text { longest: 65536, default: NO_BODY, form: Form::Free },
    for_more: Some("for more, use --body-file"),
};

/// The default of [`BODY`]: any other text is a body.
pub const NO_BODY: &str = "";

/// File with that body.
pub const BODY_FILE: Setting = Setting {
    name: "body_file",
    help: "File with the body of the requests, instead of --body; it is read into memory before the first request",
    unit: Unit::None,
    kind: Kind::Text { longest: 4096, default: NONE, form: Form::File },
    for_more: None,
};

/// The largest body in bytes, as the studies of the lab allow.
const LARGEST_BODY: u64 = 100_000_000;

/// The default method.
pub const GET: &str = "GET";

/// Methods whose requests have the body in a mix.
const WITH_BODY: [&str; 3] = ["POST", "PUT", "PATCH"];

/// Methods that may be sent again (RFC 9110, section 9.2.2).
const IDEMPOTENT: [&str; 6] = ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"];

/// Returns whether a request with this method may be sent again.
pub fn is_idempotent(method: &str) -> bool {
    IDEMPOTENT.contains(&method)
}

/// Checks a method: a token (RFC 9110, section 5.6.2) other than CONNECT.
pub fn check_method(method: &str) -> Result<(), String> {
    match method {
        "CONNECT" => Err("CONNECT makes a tunnel, which this load does not use".to_owned()),
        _ if is_token(method) && !method.bytes().any(|byte| byte.is_ascii_lowercase()) => Ok(()),
        _ => Err(format!("'{method}' is not a method in capitals, such as GET or POST")),
    }
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// The parts that all requests of a load share.
pub struct Common {
    /// Value of the Host field; `None` for the server's name, which is not known yet.
    host: Option<String>,
    /// Other fields, as they are sent.
    fields: String,
    /// The body, if one is given.
    body: Option<Arc<[u8]>>,
    /// The body waits for 100 Continue.
    pub expects_continue: bool,
}

/// Host until the server's name is known.
pub const UNNAMED: &str = "localhost";

impl Common {
    /// Reads the settings, and the file with the body.
    pub fn of(settings: &Settings) -> Result<Self> {
        let given =
            |setting: &Setting| Some(settings.word(setting.name)).filter(|text| setting.default().to_string() != *text);
        let mut host = given(&HOST).map(str::to_owned);
        let (mut fields, mut agent, mut expects_continue) = (String::new(), true, false);
        for line in given(&HEADER).into_iter().flat_map(|lines| lines.split('\n')) {
            let refused = |why: &str, hint: &str| {
                Err(mistake_with_hint("http.invalid_header", format!("--header '{line}': {why}"), hint.to_owned())
                    .blaming(&[HEADER.name]))
            };
            let Some((name, value)) = line.split_once(':').filter(|(name, _)| is_token(name)) else {
                return refused("it is no header field", "NAME: VALUE, such as 'Accept: text/html'");
            };
            let value = value.trim();
            let is = |other: &str| name.eq_ignore_ascii_case(other);
            if is("content-length") || is("transfer-encoding") {
                return refused(
                    "the load sends the length of its body itself",
                    "leave it out, and use --body or --body-file",
                );
            } else if is("host") {
                host = Some(value.to_owned());
                continue;
            }
            agent &= !is("user-agent");
            expects_continue |= is("expect") && value.eq_ignore_ascii_case("100-continue");
            if !value.is_empty() {
                fields += &format!("{name}: {value}\r\n");
            }
        }
        if agent {
            fields.insert_str(0, AGENT);
        }
        let body = match (given(&BODY), given(&BODY_FILE)) {
            (None, None) => None,
            (Some(text), None) => Some(text.as_bytes().into()),
            (None, Some(path)) => {
                let bytes = read_regular(Path::new(path), LARGEST_BODY)
                    .with_context(|| format!("--body-file {path} cannot be read"));
                Some(
                    bytes
                        .map_err(|why| {
                            let hint = format!("give a regular file of at most {LARGEST_BODY} bytes");
                            mistake_with_hint("http.body_unreadable", format!("{why:#}"), hint)
                                .blaming(&[BODY_FILE.name])
                        })?
                        .into(),
                )
            }
            (Some(_), Some(_)) => {
                return Err(mistake_with_hint(
                    "http.two_bodies",
                    "--body and --body-file are both given",
                    "leave one of them out",
                )
                .blaming(&[BODY.name, BODY_FILE.name]));
            }
        };
        if expects_continue && body.is_none() {
            return Err(mistake_with_hint(
                "http.nothing_to_continue",
                "--header 'Expect: 100-continue' needs a request with a body",
                "add --body or --body-file",
            )
            .blaming(&[HEADER.name]));
        }
        Ok(Common { host, fields, body, expects_continue })
    }

    /// Returns whether the server's name belongs into the Host field.
    pub fn is_named_by_server(&self) -> bool {
        self.host.is_none()
    }

    /// The method of requests for a single path: the configured one, or POST with a body.
    pub fn method<'a>(&self, configured: &'a str) -> &'a str {
        if configured == GET && self.body.is_some() { "POST" } else { configured }
    }

    /// Body of a request with this method. `is_only`: every request has this method.
    pub fn body(&self, method: &str, is_only: bool) -> Option<Arc<[u8]>> {
        let has = is_only || WITH_BODY.contains(&method);
        self.body.clone().filter(|_| has)
    }

    /// What follows the path in the head of a request with this method and body.
    pub fn rest(&self, method: &str, body: Option<&[u8]>) -> String {
        let length = match body {
            Some(body) => format!("Content-Length: {}\r\n", body.len()),
            None if WITH_BODY.contains(&method) => "Content-Length: 0\r\n".to_owned(),
            None => String::new(),
        };
        let host = self.host.as_deref().unwrap_or(UNNAMED);
        format!(" HTTP/1.1\r\nHost: {host}\r\n{}{length}\r\n", self.fields)
    }
}

/// The field that names this program. Some servers refuse requests without it.
const AGENT: &str = "User-Agent: thunderherd\r\n";
