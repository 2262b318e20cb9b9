//! Settings: the declared, bounded knobs of designs, primitives, workloads and loads.
//!
//! Whoever has a knob declares it beside its own code as a [`Setting`]; the command line, the help, `list --json` and
//! the check of a study are all made from that declaration, so a new knob is written in one place.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

use crate::base::mistake::mistake_with_hint;

/// One knob: its name, what it means, and the values it may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The name in studies and results; `--drain-milliseconds` is the command-line form of `drain_milliseconds`.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Unit of an integer, for instance `bytes`.
    pub unit: Option<&'static str>,
    /// Type, bounds and default.
    #[serde(flatten)]
    pub kind: Kind,
    /// What helps whoever wants more than the largest value, in words that follow the values allowed. Every number that a load can
    /// be told has it.
    pub for_more: Option<&'static str>,
}

/// For [`Setting::for_more`], of what loads have together.
pub const SEVERAL_LOADS: &str =
    "for more, several loads beside each other, of several machines too: `thunderherd merge` adds them up";

/// For [`Setting::for_more`], of seeds.
pub const A_NUMBER_OF_64_BITS: &str = "a seed has 64 bits, and any other does as well";

/// The type of a setting with its bounds and its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Kind {
    /// A whole number within bounds, both included.
    Integer {
        /// Smallest value allowed.
        minimum: u64,
        /// Largest value allowed.
        maximum: u64,
        /// Value when none is given.
        default: u64,
    },
    /// `true` or `false`.
    Boolean {
        /// Value when none is given.
        default: bool,
    },
    /// One word of a list.
    Choice {
        /// The words allowed.
        choices: &'static [&'static str],
        /// Value when none is given.
        default: &'static str,
    },
    /// A text of visible ASCII characters, without spaces.
    Text {
        /// The most characters allowed; one is the least.
        longest: usize,
        /// Value when none is given.
        default: &'static str,
        /// What it says.
        form: Form,
    },
}

/// What a text says, for whoever has to know more of it than that it is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Whatever it likes.
    Plain,
    /// The path of a file, or [`NONE`].
    File,
    /// A distribution of sizes (`sizes`), which may be in a file, or [`NONE`].
    Sizes,
    /// Kinds of requests with their weights, or [`NONE`].
    Mix,
}

/// The text that says that there is nothing of the kind.
pub const NONE: &str = "none";

/// The value of one setting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum Value {
    /// Of an integer setting.
    Integer(u64),
    /// Of a boolean setting.
    Boolean(bool),
    /// Of a choice or a text.
    Word(String),
}

impl std::fmt::Display for Value {
    /// As it is typed.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Integer(number) => number.fmt(formatter),
            Value::Boolean(value) => value.fmt(formatter),
            Value::Word(word) => word.fmt(formatter),
        }
    }
}

impl Setting {
    /// The value when none is given.
    pub fn default(&self) -> Value {
        match self.kind {
            Kind::Integer { default, .. } => Value::Integer(default),
            Kind::Boolean { default } => Value::Boolean(default),
            Kind::Choice { default, .. } | Kind::Text { default, .. } => Value::Word(default.to_owned()),
        }
    }

    /// The long option, without its dashes.
    pub fn option(&self) -> String {
        self.name.replace('_', "-")
    }

    /// The values allowed, in words.
    pub fn allowed(&self) -> String {
        match self.kind {
            Kind::Integer { minimum, maximum, .. } => format!("a whole number from {minimum} to {maximum}"),
            Kind::Boolean { .. } => "true or false".to_owned(),
            Kind::Choice { choices, .. } => choices.join(" or "),
            Kind::Text { longest, .. } => format!("1 to {longest} visible ASCII characters, no spaces"),
        }
    }

    /// Reads a value as typed by a user; the error names the option, the value seen and the values allowed.
    pub fn parse(&self, text: &str) -> Result<Value> {
        let value = match self.kind {
            Kind::Integer { minimum, maximum, .. } => {
                text.parse().ok().filter(|number| (minimum..=maximum).contains(number)).map(Value::Integer)
            }
            Kind::Boolean { .. } => text.parse().ok().map(Value::Boolean),
            Kind::Choice { choices, .. } => choices.contains(&text).then(|| Value::Word(text.to_owned())),
            Kind::Text { longest, .. } => {
                let allowed = (1..=longest).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
                allowed.then(|| Value::Word(text.to_owned()))
            }
        };
        value.ok_or_else(|| {
            let help = self.for_more.filter(|_| self.is_exceeded_by(text));
            let help = help.map(|help| format!("; {help}")).unwrap_or_default();
            mistake_with_hint(
                "setting.invalid_value",
                format!("--{} cannot be '{text}'", self.option()),
                format!("allowed: {}{help}", self.allowed()),
            )
        })
    }

    /// Whether that is a number larger than the largest; one of any length is.
    fn is_exceeded_by(&self, text: &str) -> bool {
        let Kind::Integer { maximum, .. } = self.kind else { return false };
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number && text.parse::<u64>().map_or(true, |number| number > maximum)
    }
}

/// The complete settings of one server or one load: every declared setting has a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Settings(BTreeMap<&'static str, Value>);

impl Settings {
    /// Takes the given values over the defaults of the declared settings.
    pub fn new<'a>(declared: impl IntoIterator<Item = &'a Setting>, given: &BTreeMap<&str, Value>) -> Self {
        Settings(
            declared
                .into_iter()
                .map(|setting| (setting.name, given.get(setting.name).cloned().unwrap_or_else(|| setting.default())))
                .collect(),
        )
    }

    /// An integer setting.
    ///
    /// # Panics
    /// When the code asks for a setting that it never declared: a fault of the program, not of its user.
    pub fn integer(&self, name: &str) -> u64 {
        match self.0.get(name) {
            Some(Value::Integer(number)) => *number,
            other => panic!("the setting {name} is not a declared integer: {other:?}"),
        }
    }

    /// A boolean setting; panics as [`Settings::integer`] does.
    pub fn boolean(&self, name: &str) -> bool {
        match self.0.get(name) {
            Some(Value::Boolean(value)) => *value,
            other => panic!("the setting {name} is not a declared boolean: {other:?}"),
        }
    }

    /// A choice or a text; panics as [`Settings::integer`] does.
    pub fn word(&self, name: &str) -> &str {
        match self.0.get(name) {
            Some(Value::Word(word)) => word,
            other => panic!("the setting {name} is not a declared choice or text: {other:?}"),
        }
    }

    /// Takes a setting away that has no effect beside the others.
    pub fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// All names with their values, as they stand in the results.
    pub fn values(&self) -> &BTreeMap<&'static str, Value> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: Setting = Setting {
        name: "pool_size",
        help: "",
        unit: None,
        kind: Kind::Integer { minimum: 1, maximum: 8, default: 4 },
        for_more: Some("two pools"),
    };

    #[test]
    fn bounds_are_included_and_all_else_is_refused_with_the_bounds() {
        assert_eq!(POOL.parse("1").unwrap(), Value::Integer(1));
        assert_eq!(POOL.parse("8").unwrap(), Value::Integer(8));
        for wrong in ["0", "9", "-1", "x", "", "1.5", "99999999999999999999"] {
            let message = POOL.parse(wrong).unwrap_err().to_string();
            assert!(
                message.contains("--pool-size") && message.contains(wrong) && message.contains("1 to 8"),
                "{message}"
            );
            let is_more = ["9", "99999999999999999999"].contains(&wrong);
            assert_eq!(message.ends_with("1 to 8; two pools"), is_more, "{message}");
        }
    }

    #[test]
    fn a_text_is_visible_and_not_too_long() {
        let path = Setting {
            name: "path",
            help: "",
            unit: None,
            kind: Kind::Text { longest: 8, default: "/", form: Form::Plain },
            for_more: None,
        };
        for right in ["/", "/a?b=%20", "12345678"] {
            assert_eq!(path.parse(right).unwrap(), Value::Word(right.to_owned()));
        }
        for wrong in ["", "123456789", "/a b", "/a\r\nb", "/\u{e9}", "/\0", "\u{7f}"] {
            let message = path.parse(wrong).unwrap_err().to_string();
            assert!(message.contains("--path") && message.contains("1 to 8 visible ASCII"), "{message}");
        }
        assert_eq!(path.default(), Value::Word("/".to_owned()));
    }

    #[test]
    fn what_is_not_given_has_its_default() {
        let settings = Settings::new([&POOL], &BTreeMap::new());
        assert_eq!(settings.integer("pool_size"), 4);
    }
}
