//! The names of places of code: of the kernel from /proc/kallsyms, of programs and libraries from their own files (blazesym).

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use blazesym::MaybeDefault;
use blazesym::symbolize::source::{Elf, Kernel, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};

use crate::address_space::Place;

/// Whose code it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// A program's or a library's.
    User,
    /// The kernel's.
    Kernel,
}

/// A function; or, in brackets, where it was, if nobody knows which.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema)]
pub struct Frame(pub String, pub Mode);

/// The functions at each of these places, outermost first: with what the compiler has inlined a place is in several.
pub fn names(places: &[Place], files: &[String], kernel: bool) -> Result<HashMap<Place, Vec<Frame>>> {
    let symbolizer = Symbolizer::builder().enable_code_info(false).enable_inlined_fns(true).build();
    let mut of_kernel = Vec::new();
    let mut of_files = BTreeMap::<u32, Vec<u64>>::new();
    let mut names = HashMap::new();
    for &place in places {
        match place {
            Place::Kernel(address) if kernel => of_kernel.push(address),
            Place::Kernel(_) => drop(names.insert(place, vec![Frame("[kernel]".into(), Mode::Kernel)])),
            Place::File(file, offset) => of_files.entry(file).or_default().push(offset),
            Place::Nowhere => drop(names.insert(place, vec![Frame("[unknown]".into(), Mode::User)])),
        }
    }
    if !of_kernel.is_empty() {
        let source = Source::Kernel(Kernel { vmlinux: MaybeDefault::None, debug_syms: false, ..Kernel::default() });
        let found = symbolizer.symbolize(&source, Input::AbsAddr(&of_kernel)).context("/proc/kallsyms cannot be read")?;
        for (address, symbol) in of_kernel.iter().zip(&found) {
            names.insert(Place::Kernel(*address), frames(symbol, "[kernel]", Mode::Kernel));
        }
    }
    for (file, offsets) in of_files {
        let path = &files[file as usize];
        let name = path.trim_matches(['[', ']']);
        let unknown = format!("[{}]", name.rsplit('/').next().unwrap_or(name));
        // The vDSO and code that a program has made itself are in no file; nor may the file be there any more.
        let found = readable(path).and_then(|path| {
            symbolizer.symbolize(&Source::Elf(Elf::new(path)), Input::FileOffset(&offsets)).ok()
        });
        for (index, offset) in offsets.into_iter().enumerate() {
            let symbol = found.as_ref().map(|found| &found[index]);
            let named = symbol.map(|symbol| frames(symbol, &unknown, Mode::User));
            names.insert(Place::File(file, offset), named.unwrap_or_else(|| vec![Frame(unknown.clone(), Mode::User)]));
        }
    }
    Ok(names)
}

/// The functions that a place is in; in brackets that of which nothing more is known.
fn frames(symbol: &Symbolized<'_>, unknown: &str, mode: Mode) -> Vec<Frame> {
    match symbol {
        Symbolized::Sym(symbol) => {
            let inlined = symbol.inlined.iter().map(|inlined| inlined.name.as_ref());
            std::iter::once(symbol.name.as_ref()).chain(inlined).map(|name| Frame(name.to_owned(), mode)).collect()
        }
        Symbolized::Unknown(_) => vec![Frame(unknown.to_owned(), mode)],
    }
}

/// The file behind a name that a process's kernel gave. This program's own may have been replaced meanwhile.
fn readable(path: &str) -> Option<PathBuf> {
    const OWN: &str = "/proc/self/exe";
    let own = fs::read_link(OWN).is_ok_and(|own| own == Path::new(path));
    let path = if own { OWN } else { path };
    fs::metadata(path).is_ok_and(|found| found.is_file()).then(|| path.into())
}

/// Why the kernel's functions have no names here, if they have none.
pub fn kernel_unknown() -> Option<String> {
    const KALLSYMS: &str = "/proc/kallsyms";
    let file = match fs::File::open(KALLSYMS) {
        Ok(file) => file,
        Err(error) => return Some(format!("{KALLSYMS} cannot be opened: {error}")),
    };
    // Whoever may not see them sees zeros.
    let shown = BufReader::new(file).lines().map_while(Result::ok).any(|line| !line.starts_with("0000000000000000 "));
    (!shown).then(|| {
        let restricted = fs::read_to_string("/proc/sys/kernel/kptr_restrict").unwrap_or_default();
        format!(
            "{KALLSYMS} shows no addresses to this user (kernel.kptr_restrict is {}): run as root, or type sysctl \
             kernel.kptr_restrict=0 kernel.perf_event_paranoid=1",
            restricted.trim()
        )
    })
}
