//! The requests of a load: one path, or a mix of kinds of requests.

use std::ops::RangeInclusive;
use std::sync::Arc;

use anyhow::Result;

use crate::base::mistake::{Blame, mistake, mistake_with_hint};
use crate::base::setting::{Form, Kind as SettingKind, NONE, Setting, Settings};
use crate::base::unit::Unit;
use crate::protocol::pattern::{BYTES, CHECK, COUNT};
use crate::requests::sizes::{SIZES, weight};

use super::request::{BODY, BODY_FILE, Common, GET, METHOD, UNNAMED, check_method, is_idempotent};

/// Path to request.
pub const PATH: Setting = Setting {
    name: "path",
    help: "Path to request. Our servers have /, and /bytes/N if configured. {bytes} in the path stands for the size \
           of each request. For any other path a reply of any length is correct, unless --bytes or --check is given; \
           with --check count, for every path",
    unit: Unit::None,
    kind: SettingKind::Text { longest: 2048, default: "/", form: Form::Plain },
    for_more: None,
};

/// Mix of several kinds of requests.
pub const MIX: Setting = Setting {
    name: "mix",
    help: "Mix of requests with weights, instead of a single path: GET:/@9,HEAD:/@1,GET=404:/missing@1. METHOD=STATUS expects a status other than 200; METHOD+BYTES expects a different reply length; \
           {bytes} in a path stands for the size of each request",
    unit: Unit::None,
    kind: SettingKind::Text { longest: 4096, default: NONE, form: Form::Mix },
    for_more: None,
};

/// Statuses that are no errors.
pub const EXPECT: Setting = Setting {
    name: "expect",
    help: "Statuses of correct replies, separated by commas, such as 200,304; a reply with another status counts as an \
           error, by its status, and its connection persists. Kinds of a mix with a status of their own ignore it",
    unit: Unit::None,
    kind: SettingKind::Text { longest: 256, default: "200", form: Form::Plain },
    for_more: None,
};

/// Placeholder for a size in a path.
const SIZE: &str = "{bytes}";

/// Path of our servers' sized resources.
const SIZED: &str = "/bytes/{bytes}";

/// Format of one kind.
const FORM: &str = "METHOD:PATH@WEIGHT, METHOD=STATUS:PATH@WEIGHT or METHOD+BYTES:PATH@WEIGHT";

/// A kind of request, and the correct reply to it.
#[derive(Debug, Clone, PartialEq)]
pub struct KindOfRequest {
    /// As typed, without its weight.
    pub text: String,
    /// Weight among all kinds.
    pub weight: u64,
    /// Statuses of correct replies.
    pub statuses: Arc<[u16]>,
    /// Body of the reply.
    pub body: Body,
    /// The reply has no body, whatever its head announces.
    pub head_only: bool,
    /// The request's head.
    pub head: Head,
    /// Its body.
    pub content: Option<Arc<[u8]>>,
}

impl KindOfRequest {
    /// Returns whether a reply with this status is no error.
    pub fn expects(&self, status: u16) -> bool {
        self.statuses.contains(&status)
    }

    /// Returns whether [`KindOfRequest::body`] describes the body of a reply with this status. Any other body is correct.
    pub fn describes(&self, status: u16) -> bool {
        let has_body = !matches!(status, 204 | 304);
        has_body && self.expects(status) && (status == OK || matches!(self.body, Body::Any(_)))
    }

    /// Puts the server's name into the Host field.
    pub fn name(&mut self, host: &str) {
        self.head.name(host);
    }

    /// Joins the head and a small body, so that one call sends both.
    pub fn join(&mut self) {
        if let (Head::Same(head), Some(body)) = (&self.head, &self.content)
            && body.len() <= SMALL
        {
            self.head = Head::Same([&head[..], body].concat().into());
            self.content = None;
        }
    }

    /// Returns whether the request may be sent again.
    pub fn is_idempotent(&self) -> bool {
        is_idempotent(self.method())
    }

    /// Method of the request.
    pub fn method(&self) -> &str {
        let end = self.text.find(['=', '+', ':']).unwrap_or(self.text.len());
        &self.text[..end]
    }

    /// Path of the request.
    pub fn path(&self) -> &str {
        self.text.split_once(':').map_or("", |(_, path)| path)
    }

    /// Describes a reply with a status that is not expected.
    pub fn unexpected(&self, status: u16) -> String {
        let listed = |statuses: &[u16]| statuses.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
        let wrong = format!("the reply's status is {status}, expected {}", listed(&self.statuses));
        let has_own = self.text.split(':').next().is_some_and(|what| what.contains('='));
        match (has_own, STATUSES.contains(&status)) {
            (_, false) => wrong,
            (true, true) => format!("{wrong}; if that is correct: --mix {}={status}:{}@1", self.method(), self.path()),
            (false, true) => {
                format!("{wrong}; if that is correct: --expect {}", listed(&[&self.statuses[..], &[status]].concat()))
            }
        }
    }
}

/// The largest body that is stored behind the head of its request.
const SMALL: usize = 64 * 1024;

/// The method whose replies have no body.
const HEAD: &str = "HEAD";

/// Status of the replies whose bodies are compared.
const OK: u16 = 200;

/// Length of a reply's body.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Body {
    /// This many bytes, as our servers send them.
    Exactly(u64),
    /// As many bytes as requested, as our servers send them.
    Drawn,
    /// This many bytes of any value; if `None`, as many as the head says.
    Any(Option<u64>),
}

/// Head of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Head {
    /// Constant.
    Same(Arc<[u8]>),
    /// With a size between these two parts.
    Around(String, String),
}

impl Head {
    /// `rest` follows the path.
    fn new(method: &str, path: &str, rest: &str) -> Self {
        match path.split_once(SIZE) {
            None => Head::Same(format!("{method} {path}{rest}").into_bytes().into()),
            Some((before, behind)) => Head::Around(format!("{method} {before}"), format!("{behind}{rest}")),
        }
    }

    /// Puts the server's name into the Host field.
    fn name(&mut self, host: &str) {
        let [unnamed, named] = [UNNAMED, host].map(|host| format!("\r\nHost: {host}\r\n"));
        match self {
            Head::Same(bytes) => {
                let text = String::from_utf8_lossy(bytes).replacen(&unnamed, &named, 1);
                *bytes = text.into_bytes().into();
            }
            Head::Around(_, behind) => *behind = behind.replacen(&unnamed, &named, 1),
        }
    }

    /// Returns the bytes of a request for a resource of this size, if the head contains a size.
    pub fn bytes(&self, size: u64) -> Arc<[u8]> {
        match self {
            Head::Same(bytes) => Arc::clone(bytes),
            Head::Around(before, behind) => format!("{before}{size}{behind}").into_bytes().into(),
        }
    }
}

/// Returns the configured kinds, at least one.
pub fn kinds(settings: &Settings, common: &Common) -> Result<Vec<KindOfRequest>> {
    let has_sizes = settings.word(SIZES.name) != NONE;
    let expected = expected(settings)?;
    let mix = settings.word(MIX.name);
    let kinds = if mix == NONE {
        vec![of_path(settings.word(PATH.name), has_sizes, &expected, common, settings)?]
    } else {
        let refused = |why: String| {
            mistake_with_hint(
                "http.invalid_mix",
                format!("--{} is '{mix}': {why}", MIX.name),
                format!("allowed: {FORM}, separated by commas"),
            )
            .blaming(&[MIX.name])
        };
        let kinds = mix.split(',').map(|text| of_mix(text, has_sizes, &expected, common, settings));
        kinds.collect::<Result<_, _>>().map_err(refused)?
    };
    if has_sizes && !kinds.iter().any(|kind| kind.body == Body::Drawn) {
        return Err(mistake_with_hint(
            "http.no_place_for_size",
            format!("--{} has no effect: no path contains {SIZE}", SIZES.name),
            format!("put {SIZE} into a path in place of the size, as in {SIZED}"),
        )
        .blaming(&[SIZES.name]));
    }
    Ok(kinds)
}

/// Returns the settings of the reply, if a reply of any length is correct: no length is given, and either replies are not to be
/// compared, or the path is none of our servers'.
pub fn without_effect(settings: &Settings, given: &dyn Fn(&str) -> bool) -> &'static [Setting] {
    let word = |setting: &Setting| settings.values().get(setting.name).map(ToString::to_string).unwrap_or_default();
    let (path, method) = (word(&PATH), word(&METHOD));
    let path = without_fragment(&path);
    let is_another = path.starts_with('/') && path != "/" && !path.starts_with("/bytes/") && !path.contains(SIZE);
    let has_body = [BODY, BODY_FILE].iter().any(|body| word(body) != body.default().to_string());
    let is_another = is_another || !method.is_empty() && (has_body || !matches!(&method[..], GET | HEAD));
    let is_compared = settings.word(CHECK.name) != COUNT;
    let any_is_correct = !given(BYTES.name) && if given(CHECK.name) { !is_compared } else { is_another };
    match (any_is_correct, given(CHECK.name)) {
        (false, _) => &[],
        (true, true) => &[BYTES],
        (true, false) => &[BYTES, CHECK],
    }
}

/// Reads the statuses of correct replies.
fn expected(settings: &Settings) -> Result<Arc<[u16]>> {
    let text = settings.word(EXPECT.name);
    text.split(',').map(status).collect::<Result<Vec<_>, _>>().map(Into::into).map_err(|why| {
        mistake_with_hint(
            "http.invalid_status",
            format!("--{} is '{text}': {why}", EXPECT.name),
            "allowed: statuses separated by commas, such as 200,304",
        )
        .blaming(&[EXPECT.name])
    })
}

fn status(text: &str) -> Result<u16, String> {
    let (first, last) = (STATUSES.start(), STATUSES.end());
    let is_final = text.parse().ok().filter(|status| STATUSES.contains(status));
    is_final.ok_or(format!("'{text}' is not a status from {first} to {last}"))
}

fn of_path(
    path: &str,
    has_sizes: bool,
    expected: &Arc<[u16]>,
    common: &Common,
    settings: &Settings,
) -> Result<KindOfRequest> {
    let path = without_fragment(path);
    let path = if has_sizes && path == "/" { SIZED } else { path };
    let refused = |why: String| {
        mistake("http.invalid_path", format!("--{} is '{path}', but {why}", PATH.name)).blaming(&[PATH.name])
    };
    let bytes = settings.values().get(BYTES.name).map(|_| settings.integer(BYTES.name));
    // Without a length, the size is drawn; if there is no place for a size, it is refused.
    let body = if path.contains(SIZE) { Body::Drawn } else { bytes.map_or(Body::Any(None), Body::Exactly) };
    check_path(path, has_sizes).map_err(refused)?;
    let method = common.method(settings.values().get(METHOD.name).map_or(GET, |_| settings.word(METHOD.name)));
    check_method(method).map_err(|why| {
        let hint = "allowed: GET, HEAD, POST, PUT, DELETE and the like";
        mistake_with_hint("http.invalid_method", format!("--{}: {why}", METHOD.name), hint).blaming(&[METHOD.name])
    })?;
    let content = common.body(method, true);
    Ok(KindOfRequest {
        text: format!("{method}:{path}"),
        weight: 1,
        statuses: Arc::clone(expected),
        body,
        head_only: method == HEAD,
        head: Head::new(method, path, &common.rest(method, content.as_deref())),
        content,
    })
}

/// The fragment of a URL is the client's own, and never sent (RFC 9110, section 4.2.5).
fn without_fragment(path: &str) -> &str {
    path.split('#').next().unwrap_or_default()
}

fn check_path(path: &str, has_sizes: bool) -> Result<(), String> {
    if !path.starts_with('/') {
        return Err(format!("a path begins with a slash: /{path}"));
    }
    match path.matches(SIZE).count() {
        0 => Ok(()),
        1 if has_sizes => Ok(()),
        1 => Err(format!("{SIZE} needs sizes: give --{}, such as --{0} fixed:4000", SIZES.name)),
        _ => Err(format!("{SIZE} occurs in it more than once")),
    }
}

/// Final statuses (RFC 9110, section 15).
pub const STATUSES: RangeInclusive<u16> = 200..=599;

fn of_mix(
    text: &str,
    has_sizes: bool,
    expected: &Arc<[u16]>,
    common: &Common,
    settings: &Settings,
) -> Result<KindOfRequest, String> {
    let (request, of_all) = text.rsplit_once('@').ok_or(format!("'{text}' has no weight"))?;
    let weight = weight(of_all)?;
    let request = without_fragment(request);
    let (what, path) = request.split_once(':').ok_or(format!("'{request}' has no colon before its path"))?;
    check_path(path, has_sizes).map_err(|why| format!("the path '{path}': {why}"))?;
    let (what, bytes) = what.split_once('+').map_or((what, None), |(what, bytes)| (what, Some(bytes)));
    let (method, own_status) = what.split_once('=').map_or((what, None), |(what, own)| (what, Some(own)));
    check_method(method)?;
    let own_status = own_status.map(status).transpose()?;
    let statuses = own_status.map_or_else(|| Arc::clone(expected), |own| [own].into());
    let status = own_status.unwrap_or(OK);
    let SettingKind::Integer { maximum, .. } = BYTES.kind else { unreachable!("{} is a number", BYTES.name) };
    let number = |text: &str| {
        let bytes = text.parse().ok().filter(|bytes| (0..=maximum).contains(bytes));
        bytes.ok_or(format!("'{text}' is not a number of bytes from 0 to {maximum}"))
    };
    let own = bytes.map(number).transpose()?;
    let all = settings.values().get(BYTES.name).map(|_| settings.integer(BYTES.name));
    let body = match (status, own, path.contains(SIZE)) {
        (_, Some(_), true) => return Err(format!("'{request}' has two sizes: +BYTES, and {SIZE} in its path")),
        (200, None, true) => Body::Drawn,
        (_, None, true) => return Err(format!("'{request}' has a size, but status {status} has no body")),
        (200, own, false) => match own.or(all.filter(|_| matches!(method, GET | HEAD))) {
            Some(bytes) => Body::Exactly(bytes),
            None if !has_sizes || method != GET => Body::Any(None),
            None => return Err(format!("'{request}' does not give the length of its reply: {method}+BYTES:{path}")),
        },
        // These statuses have no body (RFC 9110, sections 15.3.5 and 15.4.5).
        (204 | 304, None, false) => Body::Any(Some(0)),
        (_, own, false) => Body::Any(own),
    };
    let content = common.body(method, false);
    let head = Head::new(method, path, &common.rest(method, content.as_deref()));
    Ok(KindOfRequest { text: request.to_owned(), weight, statuses, body, head_only: method == HEAD, head, content })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::base::setting::Value;
    use crate::workloads::http::ENTRY;

    fn read(given: &[(&'static str, &str)]) -> Result<Vec<KindOfRequest>> {
        let given =
            given.iter().map(|(name, value)| (*name, Value::Word((*value).to_owned()))).collect::<BTreeMap<_, _>>();
        let mut settings = Settings::new(ENTRY.client_settings, &given);
        if given.contains_key("sizes") {
            settings.forget(BYTES.name);
        }
        let common = Common::of(&settings)?;
        kinds(&settings, &common)
    }

    #[test]
    fn a_mix_defines_the_correct_reply_of_each_kind() {
        let kinds =
            read(&[("mix", "GET:/@9,HEAD:/a=b@2,GET=404:/missing@1,GET+300:/x@y@4,HEAD=204:/@1,GET=500+7:/@1")])
                .unwrap();
        let seen = |kind: &KindOfRequest| (kind.weight, kind.statuses[0], kind.body, kind.head_only);
        assert_eq!(
            kinds.iter().map(seen).collect::<Vec<_>>(),
            [
                (9, 200, Body::Exactly(4000), false),
                (2, 200, Body::Exactly(4000), true),
                (1, 404, Body::Any(None), false),
                (4, 200, Body::Exactly(300), false),
                (1, 204, Body::Any(Some(0)), true),
                (1, 500, Body::Any(Some(7)), false),
            ]
        );
        assert_eq!(kinds[1].text, "HEAD:/a=b");
        assert_eq!(
            &kinds[1].head.bytes(0)[..],
            b"HEAD /a=b HTTP/1.1\r\nHost: localhost\r\nUser-Agent: thunderherd\r\n\r\n"
        );
        assert_eq!(&kinds[3].head.bytes(0)[..15], b"GET /x@y HTTP/1");
    }

    #[test]
    fn a_size_takes_the_place_of_its_placeholder() {
        for (given, path) in [("/", "/bytes/77"), ("/data?n={bytes}&m=1", "/data?n=77&m=1")] {
            let kinds = read(&[("sizes", "uniform:1..100"), ("path", given)]).unwrap();
            assert_eq!(kinds[0].body, Body::Drawn);
            assert_eq!(
                kinds[0].head.bytes(77)[..],
                format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: thunderherd\r\n\r\n").into_bytes()
            );
        }
        let kinds = read(&[("sizes", "uniform:1..100"), ("mix", "GET:/bytes/{bytes}@1,GET+5:/@1")]).unwrap();
        assert_eq!((kinds[0].body, kinds[1].body), (Body::Drawn, Body::Exactly(5)));
    }

    #[test]
    fn a_fragment_is_not_sent() {
        for given in [("path", "/a?b#c"), ("mix", "GET:/a?b#c@1")] {
            let kinds = read(&[given]).unwrap();
            assert!(
                kinds[0].head.bytes(0).starts_with(b"GET /a?b HTTP/1.1\r\n") && kinds[0].path() == "/a?b",
                "{given:?}"
            );
        }
    }

    #[test]
    fn replies_of_any_length_are_correct_wherever_that_is_requested() {
        let given = BTreeMap::from([("mix", Value::Word("GET:/@1,HEAD:/a@1,GET+7:/b@1".to_owned()))]);
        let mut settings = Settings::new(ENTRY.client_settings, &given);
        settings.forget(BYTES.name);
        let kinds = kinds(&settings, &Common::of(&settings).unwrap()).unwrap();
        let seen: Vec<_> = kinds.iter().map(|kind| kind.body).collect();
        assert_eq!(seen, [Body::Any(None), Body::Any(None), Body::Exactly(7)]);
    }

    #[test]
    fn an_invalid_mix_is_refused_with_the_allowed_form() {
        let sizes = ("sizes", "uniform:1..100");
        for (given, words) in [
            (vec![("mix", "GET:/")], "'GET:/' has no weight"),
            (vec![("mix", "GET:/@0")], "'0' is not a weight"),
            (vec![("mix", "GET@1")], "no colon"),
            (vec![("mix", "GET:x@1")], "begins with a slash: /x"),
            (vec![("mix", "CONNECT:/@1")], "makes a tunnel"),
            (vec![("mix", "get:/@1")], "'get' is not a method"),
            (vec![("mix", "GET=99:/@1")], "'99' is not a status from 200 to 599"),
            (vec![("mix", "GET=x:/@1")], "'x' is not a status"),
            (vec![("mix", "GET+-1:/@1")], "'-1' is not a number of bytes"),
            (vec![("mix", "GET:/@1,")], "has no weight"),
            (vec![("mix", "GET:/bytes/{bytes}@1")], "give --sizes"),
            (vec![("path", "/bytes/{bytes}")], "give --sizes"),
            (vec![("path", "x")], "begins with a slash: /x"),
            (vec![("path", "#/x")], "begins with a slash: /"),
            (vec![("path", "/x"), sizes], "no effect"),
            (vec![("mix", "GET+5:/@1"), sizes], "no effect"),
            (vec![("mix", "GET:/@1"), sizes], "GET+BYTES:/"),
            (vec![("mix", "GET+5:/{bytes}@1"), sizes], "two sizes"),
            (vec![("mix", "GET=404:/{bytes}@1"), sizes], "status 404 has no body"),
            (vec![("path", "/{bytes}/{bytes}"), sizes], "more than once"),
        ] {
            let error = read(&given).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains('\n'), "{given:?}: {error}");
        }
    }
}
