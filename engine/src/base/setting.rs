//! Settings of designs, primitives, workloads and loads: declared, with bounds and defaults.
//!
//! Each setting is declared next to the code that uses it. The command line, the help, `list --json` and the check of a study
//! are made from that declaration, so a new setting is written in one place.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use crate::base::mistake::{Blame, mistake_with_hint};
use crate::base::unit::{Fault, Unit};

/// A setting: its name, its meaning, and the allowed values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Name in studies and results. `--warm-up` is the command-line form of `warm_up`.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Unit of an integer.
    #[serde(flatten)]
    pub unit: Unit,
    /// Type, bounds and default.
    #[serde(flatten)]
    pub kind: Kind,
    /// Hint for users who need more than the largest value, or who give a number where a word is allowed. It follows the allowed
    /// values. Every number of a load has one.
    pub for_more: Option<&'static str>,
}

/// [`Setting::for_more`] of settings that several loads can share.
pub const SEVERAL_LOADS: &str =
    "for more, run several loads at once, also on several machines: `thunderherd merge` adds them up";

/// [`Setting::for_more`] of seeds.
pub const A_NUMBER_OF_64_BITS: &str = "a seed has 64 bits; any smaller number does as well";

/// Type of a setting, with its bounds and its default.
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
    /// A text: visible ASCII characters without spaces, unless its form allows more.
    Text {
        /// Maximum number of characters; the minimum is 1, and 0 in the form [`Form::Free`].
        longest: usize,
        /// Value when none is given.
        default: &'static str,
        /// Meaning of the text.
        form: Form,
    },
}

/// Meanings of a text, for programs that interpret it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Free text.
    Plain,
    /// The path of a file, or [`NONE`].
    File,
    /// A distribution of sizes (`sizes`), which may be in a file, or [`NONE`].
    Sizes,
    /// Kinds of requests with their weights, or [`NONE`].
    Mix,
    /// Lines of visible ASCII characters and spaces, or [`NONE`]. Each option adds a line.
    Lines,
    /// Any characters, or none.
    Free,
}

/// The text for no value.
pub const NONE: &str = "none";

/// Prefix of the path of a file in a text of the form [`Form::Sizes`].
pub const FILE_PREFIX: &str = "file:";

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
    /// Formats the value without its unit. [`Setting::format`] has the unit, too.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Integer(number) => number.fmt(formatter),
            Value::Boolean(value) => value.fmt(formatter),
            Value::Word(word) => word.fmt(formatter),
        }
    }
}

impl Setting {
    /// Returns the default.
    pub fn default(&self) -> Value {
        match self.kind {
            Kind::Integer { default, .. } => Value::Integer(default),
            Kind::Boolean { default } => Value::Boolean(default),
            Kind::Choice { default, .. } | Kind::Text { default, .. } => Value::Word(default.to_owned()),
        }
    }

    /// Returns the long option, without its dashes.
    pub fn option(&self) -> String {
        self.name.replace('_', "-")
    }

    /// Describes the allowed values.
    pub fn allowed(&self) -> String {
        match self.kind {
            Kind::Integer { minimum, maximum, .. } => self.unit.range(minimum, maximum),
            Kind::Boolean { .. } => "true or false".to_owned(),
            Kind::Choice { choices, .. } => choices.join(" or "),
            Kind::Text { longest, form: Form::Lines, .. } => {
                format!("1 to {longest} visible ASCII characters and spaces; may be given several times")
            }
            Kind::Text { longest, form: Form::Free, .. } => format!("0 to {longest} bytes of text"),
            Kind::Text { longest, .. } => format!("1 to {longest} visible ASCII characters, no spaces"),
        }
    }

    /// Formats a value as it is typed.
    pub fn format(&self, value: &Value) -> String {
        match value {
            Value::Integer(number) => self.unit.format(*number),
            other => other.to_string(),
        }
    }

    /// Parses a typed value. The error names the option, the value and the allowed values.
    pub fn parse(&self, text: &str) -> Result<Value> {
        let value = match self.kind {
            Kind::Integer { minimum, maximum, .. } => match self.unit.parse(text) {
                Ok(number) => (minimum..=maximum).contains(&number).then_some(Value::Integer(number)),
                Err(Fault::NotANumber | Fault::TooLarge) => None,
                Err(fault) => return Err(self.refusal(text, fault)),
            },
            Kind::Boolean { .. } => text.parse().ok().map(Value::Boolean),
            Kind::Choice { choices, .. } => {
                let word = text.replace('-', "_");
                choices.contains(&word.as_str()).then_some(Value::Word(word))
            }
            Kind::Text { longest, form, .. } => {
                let is_allowed = |byte: u8| match form {
                    Form::Free => true,
                    Form::Lines => byte.is_ascii_graphic() || matches!(byte, b' ' | b'\t' | b'\n'),
                    _ => byte.is_ascii_graphic(),
                };
                let shortest = usize::from(form != Form::Free);
                let allowed = (shortest..=longest).contains(&text.len()) && text.bytes().all(is_allowed);
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
            .blaming(&[self.name])
        })
    }

    /// Refuses a number with a wrong unit, or without one.
    fn refusal(&self, text: &str, fault: Fault) -> anyhow::Error {
        let option = self.option();
        let (code, message, hint) = match fault {
            Fault::NoUnit => {
                let mut guesses = self.unit.guesses(text);
                guesses.retain(|guess| self.parse(guess).is_ok());
                let allowed = || format!("allowed: {}", self.allowed());
                let hint = if guesses.is_empty() { allowed() } else { guesses.join(" or ") };
                ("setting.no_unit", format!("--{option} {text}: no unit"), hint)
            }
            Fault::NotWhole => (
                "setting.not_whole",
                format!("--{option} {text}: not a multiple of {}", self.unit.step()),
                format!("allowed: {}", self.allowed()),
            ),
            _ => {
                let mut near = self.unit.near(text);
                near.retain(|guess| self.parse(guess).is_ok());
                let near = if near.is_empty() { String::new() } else { format!("{}; ", near.join(" or ")) };
                let hint = format!("{near}units: {}; allowed: {}", self.unit.names(), self.allowed());
                ("setting.unknown_unit", format!("--{option} {text}: unknown unit"), hint)
            }
        };
        mistake_with_hint(code, message, hint).blaming(&[self.name])
    }

    /// Returns whether the text is a number, of any length, that is larger than the maximum. Words have no numbers at all.
    fn is_exceeded_by(&self, text: &str) -> bool {
        if matches!(self.kind, Kind::Choice { .. }) {
            return self.unit.parse(text).is_ok();
        }
        let Kind::Integer { maximum, .. } = self.kind else { return false };
        match self.unit.parse(text) {
            Ok(number) => number > maximum,
            Err(fault) => fault == Fault::TooLarge,
        }
    }
}

/// All settings of a server or a load: every declared setting has a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Settings(BTreeMap<&'static str, Value>);

impl Settings {
    /// Combines the given values with the defaults of the declared settings.
    pub fn new<'a>(declared: impl IntoIterator<Item = &'a Setting>, given: &BTreeMap<&str, Value>) -> Self {
        Settings(
            declared
                .into_iter()
                .map(|setting| (setting.name, given.get(setting.name).cloned().unwrap_or_else(|| setting.default())))
                .collect(),
        )
    }

    /// Returns an integer setting.
    ///
    /// # Panics
    /// If the code never declared the setting, which is a fault of the program.
    pub fn integer(&self, name: &str) -> u64 {
        match self.0.get(name) {
            Some(Value::Integer(number)) => *number,
            other => panic!("the setting {name} is not a declared integer: {other:?}"),
        }
    }

    /// Returns a time; panics as [`Settings::integer`] does.
    pub fn time(&self, name: &str) -> Duration {
        Duration::from_nanos(self.integer(name))
    }

    /// Returns a boolean setting; panics as [`Settings::integer`] does.
    pub fn boolean(&self, name: &str) -> bool {
        match self.0.get(name) {
            Some(Value::Boolean(value)) => *value,
            other => panic!("the setting {name} is not a declared boolean: {other:?}"),
        }
    }

    /// Returns a choice or a text; panics as [`Settings::integer`] does.
    pub fn word(&self, name: &str) -> &str {
        match self.0.get(name) {
            Some(Value::Word(word)) => word,
            other => panic!("the setting {name} is not a declared choice or text: {other:?}"),
        }
    }

    /// Removes a setting that has no effect with the others.
    pub fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Returns all names with their values, as printed in results.
    pub fn values(&self) -> &BTreeMap<&'static str, Value> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::mistake::Mistake;
    use crate::base::unit::{MILLISECOND, MINUTE, SECOND};

    const POOL: Setting = Setting {
        name: "pool_size",
        help: "",
        unit: Unit::None,
        kind: Kind::Integer { minimum: 1, maximum: 8, default: 4 },
        for_more: Some("two pools"),
    };

    #[test]
    fn bounds_are_allowed_and_other_values_refused_with_the_bounds() {
        assert_eq!(POOL.parse("1").unwrap(), Value::Integer(1));
        assert_eq!(POOL.parse("8").unwrap(), Value::Integer(8));
        for wrong in ["0", "9", "-1", "x", "", "1.5", "2ms", "99999999999999999999"] {
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
    fn a_time_has_a_unit_and_each_fault_a_code() {
        let unit = Unit::Time { resolution: MILLISECOND };
        let kind = Kind::Integer { minimum: MILLISECOND, maximum: MINUTE, default: SECOND };
        let length = Setting { name: "length", unit, kind, ..POOL };
        assert_eq!(length.parse("1.5s").unwrap(), Value::Integer(1500 * MILLISECOND));
        assert_eq!(length.format(&length.default()), "1s");
        for (wrong, code, hint) in [
            ("5", "setting.no_unit", "5s or 5ms"),
            ("5000", "setting.no_unit", "5000ms"),
            ("100000", "setting.no_unit", "allowed: a time from 1ms to 1min"),
            ("5m", "setting.unknown_unit", "5ms; units: ns, us, ms, s, min, h; allowed: a time from 1ms to 1min"),
            ("0.5ms", "setting.not_whole", "allowed: a time from 1ms to 1min"),
            ("0", "setting.invalid_value", "allowed: a time from 1ms to 1min"),
            ("2min", "setting.invalid_value", "allowed: a time from 1ms to 1min; two pools"),
        ] {
            let error = length.parse(wrong).unwrap_err();
            let mistake = error.downcast_ref::<Mistake>().unwrap();
            assert_eq!((mistake.code, mistake.hint.as_deref()), (code, Some(hint)), "{wrong}");
            assert_eq!(mistake.blamed, ["length"]);
        }
    }

    #[test]
    fn a_text_is_visible_and_not_too_long() {
        let path = Setting {
            name: "path",
            help: "",
            unit: Unit::None,
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
    fn a_missing_value_is_the_default() {
        let settings = Settings::new([&POOL], &BTreeMap::new());
        assert_eq!(settings.integer("pool_size"), 4);
    }
}
