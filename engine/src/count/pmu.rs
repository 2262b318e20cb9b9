//! Events of a PMU (`pmu/event/`, `pmu/key=value,…/`). sysfs lists its named events, and where each key's value belongs in
//! the three words of an event's configuration (Linux, Documentation/ABI/testing/sysfs-bus-event_source-devices-format and
//! -events). Their meaning is documented only there and in the processor's manual.
//!
//! perf-event2 has a builder for these. But it rejects keys with separate bit ranges, such as the event number of AMD
//! processors (`config:0-7,32-35`), and requires a value for every key.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow, bail};
use perf_event::Builder;
use perf_event::events::Raw;

use crate::count::missing_event::{MissingEvent, did_you_mean, names_in, nearest};

/// Folder of all PMUs (perf_event_open(2)).
const PMUS: &str = "/sys/bus/event_source/devices";

/// Keys that every PMU has, one for each word.
const WORDS: [&str; 3] = ["config", "config1", "config2"];

/// An event, as the kernel takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PmuEvent {
    /// The PMU's number.
    pub kind: u32,
    /// config, config1 and config2 of perf_event_open(2).
    pub config: [u64; WORDS.len()],
}

impl PmuEvent {
    /// Returns a builder of the event.
    pub fn builder(self) -> Builder<'static> {
        let [config, config1, config2] = self.config;
        let mut builder = Builder::new(Raw::new(config).config1(config1).config2(config2));
        builder.attrs_mut().type_ = self.kind;
        builder
    }
}

/// One of the terms between the slashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term<'a> {
    /// Name of an event or a key.
    pub name: &'a str,
    /// Value of a key. `None` for an event, and for a key with a single bit that is set.
    pub value: Option<u64>,
}

impl<'a> Term<'a> {
    /// Parses a term. The error describes the form of a value.
    pub fn new(text: &'a str) -> Result<Self, String> {
        let Some((name, value)) = text.split_once('=') else { return Ok(Term { name: text, value: None }) };
        let number = match value.strip_prefix("0x").or_else(|| value.strip_prefix("0X")) {
            Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
            None if !value.starts_with('+') => value.parse().ok(),
            _ => None,
        };
        let value = number.ok_or_else(|| format!("'{text}' has no number after the =, such as 60 or 0x3c"))?;
        Ok(Term { name, value: Some(value) })
    }
}

/// Resolves terms. The error is [`MissingEvent`] if this machine has no such PMU, or the PMU no such event or key.
pub fn event(pmu: &str, terms: &[Term]) -> Result<PmuEvent> {
    event_in(Path::new(PMUS), pmu, terms)
}

fn event_in(pmus: &Path, pmu: &str, terms: &[Term]) -> Result<PmuEvent> {
    let folder = pmus.join(pmu);
    let Some(kind) = text_of(&folder.join("type"))? else { return Err(no_pmu(pmus, pmu, terms)?.into()) };
    let kind =
        kind.parse().with_context(|| format!("{}/type contains '{kind}', which is not a number", folder.display()))?;
    let pmu = Pmu { name: pmu, folder };
    let mut event = PmuEvent { kind, config: [0; WORDS.len()] };
    for term in terms {
        pmu.apply(&mut event, term)?;
    }
    Ok(event)
}

fn no_pmu(pmus: &Path, pmu: &str, terms: &[Term]) -> Result<MissingEvent> {
    let known = names_in(pmus).with_context(|| format!("{} cannot be read", pmus.display()))?;
    // Users mostly know the event's name.
    let asked = terms.first().map_or("", |term| term.name);
    let elsewhere = known.iter().find(|other| pmus.join(other).join("events").join(asked).exists());
    let near = elsewhere.or_else(|| nearest(pmu, &known)).map(|near| format!("{near}/{}/", in_words(terms)));
    Ok(MissingEvent(format!("this kernel has no PMU '{pmu}'{} ({} lists them)", did_you_mean(near), pmus.display())))
}

fn in_words(terms: &[Term]) -> String {
    let word = |term: &Term| match term.value {
        Some(value) => format!("{}={value:#x}", term.name),
        None => term.name.to_owned(),
    };
    terms.iter().map(word).collect::<Vec<_>>().join(",")
}

/// Reads a file; `None` if it does not exist.
fn text_of(file: &Path) -> Result<Option<String>> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::new(error).context(format!("{} cannot be read", file.display()))),
    }
}

struct Pmu<'a> {
    name: &'a str,
    folder: PathBuf,
}

impl Pmu<'_> {
    /// Applies a term. Later terms override earlier ones.
    fn apply(&self, event: &mut PmuEvent, term: &Term) -> Result<()> {
        if term.value.is_none()
            && let Some(text) = text_of(&self.folder.join("events").join(term.name))?
        {
            for text in text.split(',') {
                if text.ends_with("=?") {
                    bail!("'{}' leaves {text} to you: {}/{},KEY=VALUE/", term.name, self.name, term.name);
                }
                let part = Term::new(text).map_err(|why| anyhow!("{}: {why}", self.of(&["events", term.name])))?;
                self.set(event, part.name, part.value.unwrap_or(1))?;
            }
            return Ok(());
        }
        self.set(event, term.name, term.value.unwrap_or(1))
    }

    fn set(&self, event: &mut PmuEvent, key: &str, value: u64) -> Result<()> {
        if let Some(word) = WORDS.iter().position(|each| *each == key) {
            event.config[word] = value;
            return Ok(());
        }
        let Some(format) = text_of(&self.folder.join("format").join(key))? else { return Err(self.lacks(key)?.into()) };
        let (word, bits) = places(&format).with_context(|| self.of(&["format", key]))?;
        let room = bits.len();
        if room < 64 && value >> room != 0 {
            bail!("{key}={value:#x} does not fit into the {room} bits that {} gives it", self.of(&["format", key]));
        }
        for (number, bit) in bits.into_iter().enumerate() {
            event.config[word] = event.config[word] & !(1 << bit) | (value >> number & 1) << bit;
        }
        Ok(())
    }

    fn lacks(&self, key: &str) -> Result<MissingEvent> {
        let names = |folder: &str| names_in(&self.folder.join(folder)).with_context(|| self.of(&[folder]));
        let (mut events, keys) = (names("events")?, names("format")?);
        let keys_here = [&keys[..], &WORDS.map(str::to_owned)].concat();
        events.extend(keys_here.iter().cloned());
        let near = nearest(key, &events).map(|near| match keys_here.contains(near) {
            true => format!("{}/{near}=VALUE/", self.name),
            false => format!("{}/{near}/", self.name),
        });
        Ok(MissingEvent(format!(
            "'{}' has no event and no key '{key}'{} ({} lists its events; its keys are {})",
            self.name,
            did_you_mean(near),
            self.of(&["events"]),
            keys_here.join(", ")
        )))
    }

    fn of(&self, parts: &[&str]) -> String {
        parts.iter().fold(self.folder.clone(), |path, part| path.join(part)).display().to_string()
    }
}

/// Parses the place of a key: its word, and the bits of its value, lowest first (`config:0-7,32-35`).
pub fn places(format: &str) -> Result<(usize, Vec<u32>)> {
    let strange = || anyhow!("'{format}' is not of the form {} and bits, such as config:0-7", WORDS.join(", "));
    let (word, ranges) = format.split_once(':').ok_or_else(strange)?;
    let word = WORDS.iter().position(|each| *each == word).ok_or_else(strange)?;
    let mut bits = Vec::new();
    for range in ranges.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (low, high): (u32, u32) = (low.parse().map_err(|_| strange())?, high.parse().map_err(|_| strange())?);
        if low > high || high > 63 {
            return Err(strange());
        }
        bits.extend(low..=high);
    }
    // A value has no more.
    if bits.len() > 64 {
        return Err(strange());
    }
    Ok((word, bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes folders like those of sysfs for made-up PMUs, since real ones differ between machines.
    fn made_up() -> PathBuf {
        let pmus = std::env::temp_dir().join(format!("thunderherd-pmus-{}", std::process::id()));
        for (file, text) in [
            ("chip/type", "42\n"),
            ("chip/format/event", "config:0-7,32-35\n"),
            ("chip/format/umask", "config:8-15\n"),
            ("chip/format/edge", "config:18\n"),
            ("chip/format/whole", "config1:0-63\n"),
            ("chip/format/far", "config3:0-7\n"),
            ("chip/events/stalls", "event=0x9a9,umask=0x01\n"),
            ("chip/events/edges", "event=0x12,edge\n"),
            ("chip/events/edges.unit", "Edges\n"),
            ("chip/events/of-a-core", "event=0x12,umask=?\n"),
            ("plain/type", "7\n"),
        ] {
            let path = pmus.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        pmus
    }

    fn found(pmus: &Path, pmu: &str, terms: &str) -> Result<PmuEvent> {
        let terms: Vec<Term> = terms.split(',').map(|term| Term::new(term).unwrap()).collect();
        event_in(pmus, pmu, &terms)
    }

    #[test]
    fn terms_are_put_where_the_pmu_has_them() {
        let pmus = made_up();
        for (terms, config) in [
            ("stalls", [0x9_0000_01a9, 0, 0]),
            ("edges", [0x4_0012, 0, 0]),
            ("event=0x3c,umask=0x0", [0x3c, 0, 0]),
            ("event=60,umask=15", [0x0f3c, 0, 0]),
            ("stalls,umask=0xff,edge", [0x9_0004_ffa9, 0, 0]),
            ("event=0x3c,whole=0xffffffffffffffff", [0x3c, u64::MAX, 0]),
            ("config=0x1234,config2=5", [0x1234, 0, 5]),
            ("config=0xff,event=0", [0, 0, 0]),
        ] {
            assert_eq!(found(&pmus, "chip", terms).unwrap(), PmuEvent { kind: 42, config }, "{terms}");
        }
        for (pmu, terms, is_absent, words) in [
            ("chip", "stals", true, &["no event and no key 'stals'", "did you mean chip/stalls/?", "umask"][..]),
            ("chip", "umsk=3", true, &["no key 'umsk'", "did you mean chip/umask=VALUE/?"]),
            ("chpi", "event=0x3c", true, &["no PMU 'chpi'", "did you mean chip/event=0x3c/?"]),
            ("plain", "stalls", true, &["'plain' has no event"]),
            ("plainly", "stalls", true, &["no PMU 'plainly'", "did you mean chip/stalls/?"]),
            ("chip", "umask=0x100", false, &["umask=0x100", "8 bits"]),
            ("chip", "of-a-core", false, &["umask=?", "chip/of-a-core,KEY=VALUE/"]),
            ("chip", "far=1", false, &["config3:0-7", "format/far"]),
        ] {
            let error = found(&pmus, pmu, terms).unwrap_err();
            assert_eq!(error.is::<MissingEvent>(), is_absent, "{terms}: {error:#}");
            for word in words {
                assert!(format!("{error:#}").contains(word), "{terms}: '{word}' is not in {error:#}");
            }
        }
        fs::remove_dir_all(pmus).unwrap();
    }

    #[test]
    fn a_value_is_a_number() {
        for (text, value) in [("event=0x3C", 60), ("event=60", 60), ("event=0", 0)] {
            assert_eq!(Term::new(text), Ok(Term { name: "event", value: Some(value) }));
        }
        for text in
            ["event=", "event=zz", "event=0x", "event=-1", "event=+1", "event=0x+1", "event=99999999999999999999"]
        {
            assert!(Term::new(text).is_err(), "{text}");
        }
    }
}
