//! Requirements between settings of a load, as data: the engine refuses settings that break them, and so do readers of
//! studies.

use anyhow::Result;
use serde::Serialize;

use crate::base::mistake::{Blame, mistake_with_hint};
use crate::base::setting::Settings;

/// A requirement of a setting that applies as soon as the setting has an effect; the lab checks studies against it.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Requirement {
    /// Name of an integer setting.
    pub setting: &'static str,
    /// It has an effect above this value.
    pub beyond: u64,
    /// The requirement.
    #[serde(flatten)]
    pub needs: Needs,
}

/// See [`Requirement`].
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(tag = "needs", rename_all = "snake_case")]
pub enum Needs {
    /// The other setting has this value.
    Word {
        /// Its name.
        other: &'static str,
        /// The value.
        word: &'static str,
    },
    /// The other setting is at least as large.
    AsMany {
        /// Its name.
        other: &'static str,
    },
    /// The product with the other setting is at most this.
    Product {
        /// Its name.
        other: &'static str,
        /// The bound.
        most: u64,
    },
}

impl Requirement {
    /// Refuses settings that break it.
    pub fn check(&self, settings: &Settings) -> Result<()> {
        let option = |name: &str| format!("--{}", name.replace('_', "-"));
        let (value, own) = (settings.integer(self.setting), option(self.setting));
        if value <= self.beyond {
            return Ok(());
        }
        let (Needs::Word { other: second, .. }
        | Needs::AsMany { other: second }
        | Needs::Product { other: second, .. }) = self.needs;
        let refused = |code, message: String, hint: String| {
            Err(mistake_with_hint(code, message, hint).blaming(&[self.setting, second]))
        };
        match self.needs {
            Needs::Word { other, word } if settings.word(other) != word => {
                let other = option(other);
                refused(
                    "load.needs_another_setting",
                    format!("{own} {value} needs {other} {word}"),
                    format!("add {other} {word}, or leave out {own}"),
                )
            }
            Needs::AsMany { other } if settings.integer(other) < value => {
                let (other, less) = (option(other), settings.integer(other));
                refused(
                    "load.more_than_another_setting",
                    format!("{own} {value} needs {other} {value} or more, but it is {less}"),
                    format!("use {own} {less} or less, or {other} {value} or more"),
                )
            }
            Needs::Product { other, most } if value.saturating_mul(settings.integer(other)) > most => {
                let (other, factor) = (option(other), settings.integer(other));
                let product = value.saturating_mul(factor);
                refused(
                    "load.product_too_large",
                    format!("{own} {value} with {other} {factor} is {product}, but the maximum is {most}"),
                    format!("use a smaller {own}, or a smaller {other}"),
                )
            }
            _ => Ok(()),
        }
    }
}
