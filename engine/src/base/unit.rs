//! Quantities: how numbers with units are typed, printed and described. In JSON every quantity is a whole number of its
//! smallest unit.

use serde::{Serialize, Serializer};

/// Nanoseconds of a microsecond.
pub const MICROSECOND: u64 = 1_000;
/// Nanoseconds of a millisecond.
pub const MILLISECOND: u64 = 1_000_000;
/// Nanoseconds of a second.
pub const SECOND: u64 = 1_000_000_000;
/// Nanoseconds of a minute.
pub const MINUTE: u64 = 60 * SECOND;
/// Nanoseconds of an hour.
pub const HOUR: u64 = 60 * MINUTE;

/// Unit of an integer setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A plain number.
    None,
    /// Counted things, for instance `workers`.
    Of(&'static str),
    /// Counted things after which something happens; 0 stands for `never`.
    After(&'static str),
    /// Bytes.
    Bytes,
    /// Time in nanoseconds. Values are multiples of the resolution.
    Time {
        /// Nanoseconds of the smallest step.
        resolution: u64,
    },
    /// Bits per second.
    BitRate,
    /// A share in millionths, typed in percent.
    Share,
}

/// Why a text is no quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It does not begin with a number.
    NotANumber,
    /// The quantity needs a unit.
    NoUnit,
    /// The quantity has no such unit.
    UnknownUnit,
    /// It is not a multiple of the smallest step.
    NotWhole,
    /// It has more than 64 bits.
    TooLarge,
}

const COUNTS: &[(&str, u64)] = &[("", 1), ("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];

const BYTES: &[(&str, u64)] = &[
    ("", 1),
    ("k", 1_000),
    ("kB", 1_000),
    ("M", 1_000_000),
    ("MB", 1_000_000),
    ("G", 1_000_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// The micro sign, the Greek letter, and `us`, which is printed.
const TIMES: &[(&str, u64)] = &[
    ("ns", 1),
    ("\u{b5}s", MICROSECOND),
    ("\u{3bc}s", MICROSECOND),
    ("us", MICROSECOND),
    ("ms", MILLISECOND),
    ("s", SECOND),
    ("min", MINUTE),
    ("h", HOUR),
];

const BIT_RATES: &[(&str, u64)] = &[("bit", 1), ("kbit", 1_000), ("mbit", 1_000_000), ("gbit", 1_000_000_000)];

const SHARES: &[(&str, u64)] = &[("%", 10_000)];

/// The word for 0 of [`Unit::After`].
const NEVER: &str = "never";

/// Maximum number of decimals; a longer fraction is not a multiple of any step.
const MOST_DECIMALS: usize = 15;

impl Unit {
    /// Units that may follow a number, smallest first, with their sizes.
    fn units(self) -> &'static [(&'static str, u64)] {
        match self {
            Unit::None | Unit::Of(_) | Unit::After(_) => COUNTS,
            Unit::Bytes => BYTES,
            Unit::Time { .. } => TIMES,
            Unit::BitRate => BIT_RATES,
            Unit::Share => SHARES,
        }
    }

    /// Size of the smallest step.
    fn resolution(self) -> u64 {
        if let Unit::Time { resolution } = self { resolution } else { 1 }
    }

    /// Units as printed, largest first. Numbers of bytes are printed in powers of 1,024, and counted things without a
    /// unit.
    fn printed(self) -> impl Iterator<Item = (&'static str, u64)> {
        let is_printed = move |name: &str| match self {
            Unit::None | Unit::Of(_) | Unit::After(_) => name.is_empty(),
            Unit::Bytes => name.is_empty() || name.ends_with("iB"),
            _ => true,
        };
        self.units().iter().rev().copied().filter(move |(name, _)| is_printed(name))
    }

    /// Parses a number with its unit, such as `1.5s`, as a whole number of the smallest unit. 0 needs no unit.
    pub fn parse(self, text: &str) -> Result<u64, Fault> {
        if matches!(self, Unit::After(_)) && text == NEVER {
            return Ok(0);
        }
        let end = text.find(|each: char| !each.is_ascii_digit() && each != '.').unwrap_or(text.len());
        let (number, unit) = (&text[..end], text[end..].trim());
        let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
        let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !are_digits(whole) || !are_digits(decimals) {
            return Err(Fault::NotANumber);
        }
        let decimals = decimals.trim_end_matches('0');
        let is_zero = decimals.is_empty() && whole.bytes().all(|byte| byte == b'0');
        let folded = if self == Unit::BitRate { unit.to_ascii_lowercase() } else { unit.to_owned() };
        let size = match self.units().iter().find(|(name, _)| *name == folded) {
            Some((_, size)) => u128::from(*size),
            None if unit.is_empty() && is_zero => 1,
            None if unit.is_empty() => return Err(Fault::NoUnit),
            None => return Err(Fault::UnknownUnit),
        };
        if decimals.len() > MOST_DECIMALS {
            return Err(Fault::NotWhole);
        }
        let Ok(scaled) = format!("{whole}{decimals}").parse::<u128>() else { return Err(Fault::TooLarge) };
        let Some(scaled) = scaled.checked_mul(size) else { return Err(Fault::TooLarge) };
        let power = 10_u128.pow(decimals.len() as u32);
        let number = u64::try_from(scaled / power).map_err(|_| Fault::TooLarge)?;
        let is_whole = scaled.is_multiple_of(power) && number.is_multiple_of(self.resolution());
        if is_whole { Ok(number) } else { Err(Fault::NotWhole) }
    }

    /// Formats a quantity as it is typed: in the largest unit of which it is a multiple.
    pub fn format(self, value: u64) -> String {
        if value == 0 {
            return if matches!(self, Unit::After(_)) { NEVER } else { "0" }.to_owned();
        }
        match self.printed().find(|(_, size)| value.is_multiple_of(*size)) {
            Some((name, size)) => format!("{}{name}", value / size),
            // Only a share can be smaller than its unit.
            None => {
                let (name, size) = self.units()[0];
                let decimals = format!("{:04}", value % size);
                format!("{}.{}{name}", value / size, decimals.trim_end_matches('0'))
            }
        }
    }

    /// Describes a range.
    pub fn range(self, minimum: u64, maximum: u64) -> String {
        let quantity = match self {
            Unit::After(_) => return format!("{NEVER}, or a whole number from 1 to {}", self.format(maximum)),
            Unit::None | Unit::Of(_) => "a whole number",
            Unit::Bytes => "a size",
            Unit::Time { .. } => "a time",
            Unit::BitRate => "a rate",
            Unit::Share => "a share",
        };
        format!("{quantity} from {} to {}", self.format(minimum), self.format(maximum))
    }

    /// Names the counted things, for the help of a setting.
    pub fn counted(self) -> Option<&'static str> {
        if let Unit::Of(things) | Unit::After(things) = self { Some(things) } else { None }
    }

    /// Names the smallest step, as typed.
    pub fn step(self) -> String {
        self.format(self.resolution())
    }

    /// Names the units that may be typed, smallest first.
    pub fn names(self) -> String {
        let names = self.units().iter().map(|(name, _)| *name).filter(|name| name.is_ascii() && !name.is_empty());
        names.collect::<Vec<_>>().join(", ")
    }

    /// The likeliest meanings of a quantity with an unknown unit: `5m` is `5ms` or `5min`, `4K` is `4k` or `4KiB`, `5sec` is `5s`.
    pub fn near(self, text: &str) -> Vec<String> {
        let end = text.find(|each: char| !each.is_ascii_digit() && each != '.').unwrap_or(text.len());
        let typed = text[end..].trim().to_ascii_lowercase();
        let names: Vec<&str> = self.units().iter().map(|(name, _)| *name).filter(|name| !name.is_empty()).collect();
        let meant = |is_meant: &dyn Fn(&str) -> bool| -> Vec<&str> {
            names.iter().copied().filter(|name| is_meant(name)).collect()
        };
        let mut found = meant(&|name| is_another_case(name, &typed));
        if found.is_empty() {
            found = meant(&|name| name.to_ascii_lowercase().starts_with(&typed));
        }
        if found.is_empty() && matches!(self, Unit::Time { .. }) {
            let begins = |name: &&&str| typed.starts_with(&name.to_ascii_lowercase());
            found = names.iter().filter(begins).max_by_key(|name| name.len()).copied().into_iter().collect();
        }
        found.iter().map(|unit| format!("{}{unit}", &text[..end])).collect()
    }

    /// The likeliest meanings of a bare number, largest unit first.
    pub fn guesses(self, number: &str) -> Vec<String> {
        let units: &[&str] = match self {
            Unit::Time { resolution } if resolution < MILLISECOND => &["ms", "us"],
            Unit::Time { .. } => &["s", "ms"],
            Unit::BitRate => &["gbit", "mbit"],
            Unit::Share => &["%"],
            _ => &[],
        };
        units.iter().map(|unit| format!("{number}{unit}")).collect()
    }
}

/// Whether a unit is one that a reader may have meant: the same but for its case, or of bytes the power of 1,024 (`K` is `k` or
/// `KiB`).
fn is_another_case(unit: &str, typed: &str) -> bool {
    let unit = unit.to_ascii_lowercase();
    unit == typed || unit.strip_suffix("ib") == Some(typed)
}

impl Serialize for Unit {
    /// The name of the smallest unit, or of the counted things, and the smallest step.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Described {
            unit: Option<&'static str>,
            resolution: u64,
        }
        let unit = match *self {
            Unit::None => None,
            Unit::Of(things) | Unit::After(things) => Some(things),
            Unit::Bytes => Some("bytes"),
            Unit::Time { .. } => Some("ns"),
            Unit::BitRate => Some("bit/s"),
            Unit::Share => Some("ppm"),
        };
        Described { unit, resolution: self.resolution() }.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TIME: Unit = Unit::Time { resolution: MILLISECOND };
    const FINE: Unit = Unit::Time { resolution: 1 };

    #[test]
    fn an_unknown_unit_has_near_ones() {
        for (unit, text, near) in [
            (TIME, "5m", &["5ms", "5min"][..]),
            (TIME, "1.5 Sec", &["1.5s"]),
            (TIME, "5minutes", &["5min"]),
            (TIME, "5MS", &["5ms"]),
            (TIME, "5x", &[]),
            (Unit::Bytes, "4K", &["4k", "4KiB"]),
            (Unit::Bytes, "4kb", &["4kB"]),
            (Unit::Of("clients"), "4m", &["4M"]),
            (Unit::BitRate, "1Gb", &["1gbit"]),
            (Unit::None, "4%", &[]),
            (Unit::None, "4KiB", &[]),
        ] {
            let found: Vec<String> = unit.near(text).iter().map(|each| each.replace(' ', "")).collect();
            assert_eq!(found, near, "{text}");
        }
    }

    #[test]
    fn a_number_counts_its_unit() {
        for (unit, text, expected) in [
            (TIME, "500ms", 500 * MILLISECOND),
            (TIME, "1.5s", 1500 * MILLISECOND),
            (TIME, "2 min", 2 * MINUTE),
            (TIME, "1h", HOUR),
            (TIME, "1000us", MILLISECOND),
            (FINE, "1\u{b5}s", MICROSECOND),
            (FINE, "1\u{3bc}s", MICROSECOND),
            (FINE, "7ns", 7),
            (TIME, "0", 0),
            (TIME, "0.0", 0),
            (TIME, "0s", 0),
            (Unit::Bytes, "4000", 4000),
            (Unit::Bytes, "64KiB", 65_536),
            (Unit::Bytes, "64k", 64_000),
            (Unit::Bytes, "64kB", 64_000),
            (Unit::Bytes, "1.5MiB", 3 << 19),
            (Unit::Of("clients"), "10k", 10_000),
            (Unit::None, "1.5M", 1_500_000),
            (Unit::After("failures"), "never", 0),
            (Unit::After("failures"), "3", 3),
            (Unit::None, "18446744073709551615", u64::MAX),
            (Unit::BitRate, "2.5Gbit", 2_500_000_000),
            (Unit::Share, "0.1%", 1000),
        ] {
            assert_eq!(unit.parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn each_fault_is_named() {
        for (unit, text, fault) in [
            (TIME, "5", Fault::NoUnit),
            (TIME, "5.5", Fault::NoUnit),
            (Unit::BitRate, "5", Fault::NoUnit),
            (Unit::Share, "5", Fault::NoUnit),
            (TIME, "5x", Fault::UnknownUnit),
            (TIME, "5S", Fault::UnknownUnit),
            (TIME, "5m", Fault::UnknownUnit),
            (Unit::Bytes, "5K", Fault::UnknownUnit),
            (Unit::None, "5KiB", Fault::UnknownUnit),
            (TIME, "1us", Fault::NotWhole),
            (TIME, "0.0000000000000000000001s", Fault::NotWhole),
            (Unit::Bytes, "1.5", Fault::NotWhole),
            (Unit::None, "18446744073709551616", Fault::TooLarge),
            (TIME, "99999999999999999999999999999999999999999h", Fault::TooLarge),
        ] {
            assert_eq!(unit.parse(text), Err(fault), "{text}");
        }
        for text in ["", "s", "-5s", "+5s", ".5s", "5.s", "1..2s", "1,5s", "1e3s"] {
            let fault = TIME.parse(text).unwrap_err();
            let expected = if text == "1,5s" || text == "1e3s" { Fault::UnknownUnit } else { Fault::NotANumber };
            assert_eq!(fault, expected, "{text}");
        }
    }

    #[test]
    fn a_quantity_is_printed_in_the_largest_unit_that_fits() {
        for (unit, value, expected) in [
            (TIME, 0, "0"),
            (TIME, 500 * MILLISECOND, "500ms"),
            (TIME, 1500 * MILLISECOND, "1500ms"),
            (TIME, 10 * SECOND, "10s"),
            (TIME, 24 * HOUR, "24h"),
            (FINE, 50 * MICROSECOND, "50us"),
            (Unit::Bytes, 4000, "4000"),
            (Unit::Bytes, 4096, "4KiB"),
            (Unit::Bytes, 1 << 50, "1024TiB"),
            (Unit::Of("clients"), 100_000, "100000"),
            (Unit::BitRate, 2_500_000_000, "2500mbit"),
            (Unit::Share, 1000, "0.1%"),
            (Unit::Share, 1_000_000, "100%"),
            (Unit::Share, 1, "0.0001%"),
        ] {
            assert_eq!(unit.format(value), expected);
        }
    }

    proptest! {
        #[test]
        fn a_printed_quantity_is_parsed_as_itself(value: u64, which in 0..6_usize, zeros in 0..16_u32) {
            let unit = [FINE, TIME, Unit::Bytes, Unit::None, Unit::BitRate, Unit::Share][which];
            let value = value / 10_u64.pow(zeros) * 10_u64.pow(zeros);
            let value = value / unit.resolution() * unit.resolution();
            prop_assert_eq!(unit.parse(&unit.format(value)), Ok(value));
        }
    }
}
