//! Profiles the whole life of a server or a load from exec to exit, including its supervisor, as `perf record` does.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::base::mistake::{Mistake, mistake_with_hint};
use crate::count::process_tree::{Beginning, Tree};
use crate::count::tally::Tally;
use crate::lines::profile::{Profile, ProfileCheck, Stack};
use crate::lines::{Line, SCHEMA};
use crate::runs::start_gate::{self, Command, Passed, Watcher};
use crate::stacks::address_space::{AddressSpaces, Place};
use crate::stacks::perf_record::Moment;
use crate::stacks::sampling::{Event, Sampling, Scope};
use crate::stacks::symbols::{self, Frame};
use crate::sys::process::Pid;

/// The command to run, and how to sample it.
pub struct Plan {
    /// The command.
    pub command: Command,
    /// Event at which the kernel takes a sample. `None`: cycles if available, otherwise the clock.
    pub event: Option<Event>,
    /// Samples per second of CPU time of a thread.
    pub frequency: u64,
    /// File to write.
    pub output: PathBuf,
}

/// Values of `--event`.
pub const EVENTS: [&str; 3] = ["auto", "cycles", "cpu-clock"];

/// Returns the event of this name; `None` if the machine decides.
pub fn event(name: &str) -> Option<Event> {
    match name {
        "cycles" => Some(Event::Cycles),
        "cpu-clock" => Some(Event::CpuClock),
        _ => None,
    }
}

/// Runs the command to its end, and writes its profile. Returns its first line, and the exit status for this process.
pub fn profile(plan: &Plan) -> Result<(Profile, ExitCode)> {
    let shown = plan.output.display();
    let begin = |tree| {
        let watch = Watch::begin(plan.event, plan.frequency, &tree)?;
        // If nothing can be sampled, the file of an earlier profile stays.
        let file = File::create(&plan.output).map_err(|error| {
            let message = format!("--output {shown} cannot be written: {error}");
            mistake_with_hint("profile.output", message, "name a file in a folder that exists")
        })?;
        Ok(Watched { watch, file })
    };
    let (Watched { mut watch, file }, passed) = start_gate::run(&plan.command, begin)?;
    let rest = watch.sampling.rest()?;
    watch.take_in(rest);
    let why_unnamed = symbols::kernel_unknown();
    let stacks = watch.named(why_unnamed.is_none())?;
    let profile = watch.profile(plan, why_unnamed, &passed);
    write(BufWriter::new(file), &profile, stacks).with_context(|| format!("--output {shown} cannot be written"))?;
    Ok((profile, passed.exit_code()))
}

/// Checks what a profile on this machine would record. Opens everything that it needs, and closes it again.
pub fn check(wanted: Option<Event>, frequency: u64) -> Result<ProfileCheck> {
    let reaped = &Tally::new(0)?.general().reaped;
    let tree = Tree { root: Pid::this(), from: Beginning::Exec, reaped };
    let (opened, reason) = match Watch::begin(wanted, frequency, &tree) {
        Ok(watch) => (Some(watch), None),
        Err(error) => (None, Some(format!("{error:#}"))),
    };
    let opened = opened.as_ref();
    Ok(ProfileCheck {
        schema: SCHEMA,
        reason,
        event: opened.map(|watch| watch.event),
        why_not_cycles: opened.and_then(|watch| watch.why_not_cycles.clone()),
        scope: opened.map(|watch| watch.scope),
        why_not_cpus: opened.and_then(|watch| watch.why_not_cpus.clone()),
        frequency_hertz: frequency,
        kernel_symbols: symbols::kernel_unknown().into(),
        frame_pointers: without_frame_pointers(env!("BUILD_FLAGS")).into(),
    })
}

fn write(mut file: impl Write, profile: &Profile, stacks: Vec<Stack>) -> io::Result<()> {
    let mut line = |line: &Line| {
        serde_json::to_writer(&mut file, line)?;
        file.write_all(b"\n")
    };
    line(&Line::Profile(profile.clone()))?;
    for stack in stacks {
        line(&Line::Stack(stack))?;
    }
    file.flush()
}

/// Interval of emptying the ring buffers. Stacks of 1 KiB at 10 kHz would fill half a mebibyte in 50 ms.
const INTERVAL: Duration = Duration::from_millis(25);

/// Times of the samples, by name of the thread and stack.
type Found = HashMap<(Rc<str>, Vec<Place>), Vec<u64>>;

struct Watch {
    event: Event,
    why_not_cycles: Option<String>,
    scope: Scope,
    why_not_cpus: Option<String>,
    sampling: Sampling,
    spaces: AddressSpaces,
    found: Found,
}

/// The watcher, and the file for its result.
struct Watched {
    watch: Watch,
    file: File,
}

impl Watcher for Watched {
    fn interval(&self) -> Option<Duration> {
        Some(INTERVAL)
    }

    fn look(&mut self) -> Result<()> {
        let moments = self.watch.sampling.read()?;
        self.watch.take_in(moments);
        Ok(())
    }
}

impl Watch {
    fn begin(wanted: Option<Event>, frequency: u64, tree: &Tree) -> Result<Watch> {
        // Without privilege, a user's own processes may still be sampled.
        let open = |event| match Sampling::open(event, frequency, Scope::Cpus, tree) {
            Ok(sampling) => Ok((sampling, Scope::Cpus, None)),
            Err(reason) if reason.is::<Mistake>() => Err(reason),
            Err(reason) => Sampling::open(event, frequency, Scope::Tree, tree)
                .map(|sampling| (sampling, Scope::Tree, Some(format!("{reason:#}")))),
        };
        let of_clock = |why_not| Ok((Event::CpuClock, open(Event::CpuClock)?, Some(why_not)));
        let opened: Result<_> = match wanted {
            Some(Event::Cycles) => {
                open(Event::Cycles).context("--event cycles").map(|opened| (Event::Cycles, opened, None))
            }
            Some(Event::CpuClock) => of_clock("--event cpu-clock was requested".to_owned()),
            None => match open(Event::Cycles) {
                Ok(opened) => Ok((Event::Cycles, opened, None)),
                Err(error) => of_clock(format!("{error:#}")),
            },
        };
        let (event, (sampling, scope, why_not_cpus), why_not_cycles) = opened?;
        let spaces = AddressSpaces::of_tree(tree.root.as_raw().unsigned_abs());
        Ok(Watch { event, why_not_cycles, scope, why_not_cpus, sampling, spaces, found: Found::new() })
    }

    fn take_in(&mut self, moments: Vec<Moment>) {
        for moment in moments {
            if let Some(sample) = self.spaces.see(moment) {
                self.found.entry((sample.command, sample.stack)).or_default().push(sample.at_ns);
            }
        }
    }

    /// Names the functions of all stacks, and merges equal stacks.
    fn named(&self, kernel: bool) -> Result<Vec<Stack>> {
        let places: BTreeSet<Place> = self.found.keys().flat_map(|(_, stack)| stack).copied().collect();
        let places: Vec<Place> = places.into_iter().collect();
        Ok(fold(&self.found, &symbols::names(&places, self.spaces.files(), kernel)?))
    }

    fn profile(&self, plan: &Plan, why_unnamed: Option<String>, passed: &Passed) -> Profile {
        Profile {
            schema: SCHEMA,
            event: self.event,
            why_not_cycles: self.why_not_cycles.clone(),
            scope: self.scope,
            why_not_cpus: self.why_not_cpus.clone(),
            frequency_hertz: plan.frequency,
            samples: self.found.values().map(|at_ns| at_ns.len() as u64).sum(),
            lost: self.sampling.lost,
            throttled: self.sampling.throttled,
            from_ns: passed.started_ns,
            to_ns: passed.gone_ns,
            kernel_symbols: why_unnamed.into(),
            frame_pointers: without_frame_pointers(env!("BUILD_FLAGS")).into(),
            used: (&passed.used).into(),
            status: passed.status,
        }
    }
}

/// Merges stacks whose addresses differ but lie in the same functions.
fn fold(found: &Found, names: &HashMap<Place, Vec<Frame>>) -> Vec<Stack> {
    let mut stacks = BTreeMap::<(Vec<Frame>, &str), Vec<u64>>::new();
    for ((command, places), at_ns) in found {
        let frames = places.iter().flat_map(|place| names.get(place).into_iter().flatten()).cloned().collect();
        stacks.entry((frames, command)).or_default().extend(at_ns);
    }
    let stack = |((frames, command), mut at_ns): ((Vec<Frame>, &str), Vec<u64>)| {
        at_ns.sort_unstable();
        Stack { frames, command: command.to_owned(), at_ns }
    };
    stacks.into_iter().map(stack).collect()
}

/// Returns why the kernel cannot walk the stacks of this program; `None` if it can.
fn without_frame_pointers(flags: &str) -> Option<String> {
    (!flags.contains("force-frame-pointers=yes")).then(|| {
        "the engine was built without -C force-frame-pointers=yes; build it in its own folder, where .cargo/config.toml \
         sets this, without RUSTFLAGS"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::symbols::Mode;

    #[test]
    fn places_in_the_same_functions_are_one_stack_for_each_thread_name() {
        let frame = |name: &str| Frame(name.to_owned(), Mode::User);
        let [main, early, late] = [1, 2, 3].map(|offset| Place::File(0, offset));
        let inlined = vec![frame("serve"), frame("send")];
        let names = HashMap::from([(main, vec![frame("main")]), (early, inlined.clone()), (late, inlined)]);
        let found = Found::from([
            (("worker".into(), vec![main, late]), vec![50, 10]),
            (("worker".into(), vec![main, early]), vec![30]),
            (("other".into(), vec![main, early]), vec![40]),
        ]);
        let frames = vec![frame("main"), frame("serve"), frame("send")];
        let stack = |command: &str, at_ns: &[u64]| Stack {
            frames: frames.clone(),
            command: command.to_owned(),
            at_ns: at_ns.to_vec(),
        };
        assert_eq!(fold(&found, &names), [stack("other", &[40]), stack("worker", &[10, 30, 50])]);
    }

    #[test]
    fn a_build_without_frame_pointers_is_reported() {
        assert_eq!(without_frame_pointers("-C force-frame-pointers=yes"), None);
        assert!(without_frame_pointers("").unwrap().contains("RUSTFLAGS"));
    }
}
