//! Names of code places: of the kernel from /proc/kallsyms, of programs and libraries from their own files (blazesym).

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use blazesym::MaybeDefault;
use blazesym::symbolize::source::{Elf, Kernel, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};

use crate::stacks::address_space::Place;

/// Place of a function's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// In a program or a library.
    User,
    /// In the kernel.
    Kernel,
}

/// A function. If its name is unknown, the file or `kernel` in brackets.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema)]
pub struct Frame(pub String, pub Mode);

/// Names the functions at each of these places, outermost first. A place with inlined code is in several functions.
pub fn names(places: &[Place], files: &[OsString], kernel: bool) -> Result<HashMap<Place, Vec<Frame>>> {
    let symbolizer = Symbolizer::builder().enable_code_info(false).enable_inlined_fns(true).build();
    let in_kernel = || Frame("[kernel]".to_owned(), Mode::Kernel);
    let mut of_kernel = Vec::new();
    let mut of_files = BTreeMap::<u32, Vec<u64>>::new();
    let mut names = HashMap::new();
    for &place in places {
        match place {
            Place::Kernel(address) if kernel => of_kernel.push(address),
            Place::Kernel(_) => drop(names.insert(place, vec![in_kernel()])),
            Place::File(file, offset) => of_files.entry(file).or_default().push(offset),
            Place::Nowhere => drop(names.insert(place, vec![Frame("[unknown]".into(), Mode::User)])),
        }
    }
    if !of_kernel.is_empty() {
        let source = Source::Kernel(Kernel { vmlinux: MaybeDefault::None, debug_syms: false, ..Kernel::default() });
        let found =
            symbolizer.symbolize(&source, Input::AbsAddr(&of_kernel)).context("/proc/kallsyms cannot be read")?;
        for (address, symbol) in of_kernel.iter().zip(&found) {
            names.insert(Place::Kernel(*address), named(symbol, Mode::Kernel).unwrap_or_else(|| vec![in_kernel()]));
        }
    }
    for (file, offsets) in of_files {
        let path = &files[file as usize];
        let found = match readable(path) {
            Some(path) => of_file(&symbolizer, &path, &offsets),
            None => vec![None; offsets.len()],
        };
        let unknown = Frame(unknown_in(path), Mode::User);
        for (offset, frames) in offsets.into_iter().zip(found) {
            names.insert(Place::File(file, offset), frames.unwrap_or_else(|| vec![unknown.clone()]));
        }
    }
    Ok(names)
}

/// Names the functions at each of these offsets of a file. The symbol table has their full names, debug information the
/// functions inlined in them. If a distribution keeps both in a separate package, that is read if it is installed.
fn of_file(symbolizer: &Symbolizer, path: &Path, offsets: &[u64]) -> Vec<Option<Vec<Frame>>> {
    let by = |debug_syms| {
        let source = Source::Elf(Elf { debug_syms, ..Elf::new(path) });
        // A file that cannot be read has no names: it is no program, or has an unknown compression.
        let symbols = symbolizer.symbolize(&source, Input::FileOffset(offsets));
        symbols.map_or_else(
            |_| vec![None; offsets.len()],
            |symbols| symbols.iter().map(|symbol| named(symbol, Mode::User)).collect(),
        )
    };
    by(false).into_iter().zip(by(true)).map(|(table, debug)| joined(table, debug)).collect()
}

/// Joins a function's name in the symbol table with the functions that debug information lists as inlined in it.
fn joined(table: Option<Vec<Frame>>, debug: Option<Vec<Frame>>) -> Option<Vec<Frame>> {
    match (table, debug) {
        (Some(table), Some(debug)) => Some(table.into_iter().chain(debug.into_iter().skip(1)).collect()),
        (table, debug) => table.or(debug),
    }
}

/// The frame of an unknown function of this file.
fn unknown_in(path: &OsStr) -> String {
    let path = path.to_string_lossy();
    let name = path.rsplit('/').next().unwrap_or(&path);
    format!("[{}]", name.trim_matches(['[', ']']))
}

/// Functions that a place is in, if they have names.
fn named(symbol: &Symbolized<'_>, mode: Mode) -> Option<Vec<Frame>> {
    let symbol = symbol.as_sym()?;
    let inlined = symbol.inlined.iter().map(|inlined| inlined.name.as_ref());
    Some(std::iter::once(symbol.name.as_ref()).chain(inlined).map(|name| Frame(name.to_owned(), mode)).collect())
}

/// Opens the file that the kernel names for a process. This program's own file may have been replaced meanwhile.
fn readable(path: &OsStr) -> Option<PathBuf> {
    const OWN: &str = "/proc/self/exe";
    let own = fs::read_link(OWN).is_ok_and(|own| own == Path::new(path));
    let path = Path::new(if own { OsStr::new(OWN) } else { path });
    fs::metadata(path).is_ok_and(|found| found.is_file()).then(|| path.to_owned())
}

/// Returns why functions of the kernel have no names on this machine; `None` if they have.
pub fn kernel_unknown() -> Option<String> {
    const KALLSYMS: &str = "/proc/kallsyms";
    let file = match fs::File::open(KALLSYMS) {
        Ok(file) => file,
        Err(error) => return Some(format!("{KALLSYMS} cannot be opened: {error}")),
    };
    // Users who may not see addresses see zeros.
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

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    /// File that is mapped at an address, and the offset in it.
    fn within(address: usize) -> (String, u64) {
        let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let address = address as u64;
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let found = maps.lines().find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (start, end) = words[0].split_once('-').unwrap();
            let start = hex(start);
            (start..hex(end)).contains(&address).then(|| (words[5].to_owned(), address - start + hex(words[2])))
        });
        found.expect("it is mapped")
    }

    fn user(name: &str) -> Vec<Frame> {
        vec![Frame(name.to_owned(), Mode::User)]
    }

    #[test]
    fn functions_have_the_names_that_they_have_in_their_files() {
        let (own, at) = within(kernel_unknown as *const () as usize);
        let (library, of_library) = within(libc::getppid as *const () as usize);
        let places = [
            Place::File(0, at),
            Place::File(1, of_library),
            Place::File(2, 0),
            Place::File(3, 5),
            Place::Nowhere,
            Place::File(4, of_library),
        ];
        let mut link =
            std::env::temp_dir().join(format!("thunderherd-library-{}", std::process::id())).into_os_string();
        link.push(OsStr::from_bytes(b"\xff"));
        std::os::unix::fs::symlink(&library, &link).unwrap();
        let files: [OsString; 5] =
            [own.into(), library.into(), "[vdso]".into(), "/nowhere/gone.so".into(), link.clone()];
        let names = names(&places, &files, false);
        fs::remove_file(&link).unwrap();
        let names = names.unwrap();
        assert_eq!(names[&places[0]][0].0, "thunderherd_engine::stacks::symbols::kernel_unknown", "{names:?}");
        assert_eq!(names[&places[1]], user("getppid"), "{names:?}");
        assert_eq!(names[&places[2]], user("[vdso]"));
        assert_eq!(names[&places[3]], user("[gone.so]"));
        assert_eq!(names[&places[4]], user("[unknown]"));
        assert_eq!(names[&places[5]], user("getppid"), "a file of any name: {names:?}");
    }

    #[test]
    fn a_symbol_table_has_the_name_and_debug_information_what_is_inlined() {
        let frames = |names: &[&str]| Some(names.iter().flat_map(|name| user(name)).collect::<Vec<Frame>>());
        let inlined = frames(&["serve", "send", "copy"]);
        assert_eq!(joined(frames(&["a::serve"]), inlined.clone()), frames(&["a::serve", "send", "copy"]));
        assert_eq!(joined(None, inlined.clone()), inlined);
        assert_eq!(joined(frames(&["a::serve"]), None), frames(&["a::serve"]));
        assert_eq!(joined(None, None), None);
    }

    #[test]
    fn functions_of_the_kernel_have_names_where_it_shows_them() {
        let hidden = names(&[Place::Kernel(u64::MAX / 2)], &[], false).unwrap();
        let unknown = vec![Frame("[kernel]".into(), Mode::Kernel)];
        assert_eq!(hidden[&Place::Kernel(u64::MAX / 2)], unknown);
        if let Some(reason) = kernel_unknown() {
            assert!(reason.contains("kptr_restrict"), "{reason}");
            return println!("skipped: {reason}");
        }
        let symbols = fs::read_to_string("/proc/kallsyms").unwrap();
        let line = symbols.lines().find(|line| line.ends_with(" schedule")).expect("every kernel has it");
        let place = Place::Kernel(u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap());
        assert_eq!(names(&[place], &[], true).unwrap()[&place], [Frame("schedule".into(), Mode::Kernel)]);
    }
}
