//! Flame graphs of folded stacks, and of the difference between two (inferno).

use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, Result};
use inferno::differential;
use inferno::flamegraph::color::{MultiPalette, Palette};
use inferno::flamegraph::{self, Options};

use crate::base::mistake::{mistake, mistake_with_hint};
use crate::base::regular_file::read_regular;

/// Input, output and options of a drawing.
pub struct Plan {
    /// Folded stacks.
    pub stacks: PathBuf,
    /// Folded stacks to compare them with.
    pub before: Option<PathBuf>,
    /// The file to write.
    pub output: PathBuf,
    /// Title above the graph.
    pub title: String,
    /// Second line below the title.
    pub subtitle: Option<String>,
    /// Unit of the counts.
    pub unit: String,
    /// The smallest share that is shown, in percent.
    pub minimum_width: f64,
}

/// Draws the flame graph. The same stacks give the same picture, byte for byte.
pub fn draw(plan: &Plan) -> Result<()> {
    if !(0.0..100.0).contains(&plan.minimum_width) {
        return Err(mistake_with_hint(
            "flame.minimum_width",
            format!("--minimum-width cannot be {}", plan.minimum_width),
            "allowed: a share of all samples in percent, from 0 to below 100, for instance 0.1",
        ));
    }
    let after = folded(&plan.stacks)?;
    let stacks = match &plan.before {
        Some(before) => difference(&folded(before)?, &after)?,
        None => after,
    };
    let mut options = Options::default();
    options.title = plan.title.clone();
    options.subtitle = plan.subtitle.clone();
    options.count_name = plan.unit.clone();
    options.min_width = plan.minimum_width;
    // This palette recognises kernel functions by their suffix.
    options.colors = Palette::Multi(MultiPalette::Java);
    options.deterministic = true;
    let mut picture = Vec::new();
    flamegraph::from_lines(&mut options, stacks.lines(), &mut picture).context("the flame graph could not be drawn")?;
    fs::write(&plan.output, picture).map_err(|error| {
        mistake_with_hint(
            "flame.output",
            format!("--output {} cannot be written: {error}", plan.output.display()),
            "name a file in a folder that exists",
        )
    })
}

/// Joins both counts of each stack, sorted by name.
fn difference(before: &str, after: &str) -> Result<String> {
    let mut both = Vec::new();
    differential::from_readers(differential::Options::default(), before.as_bytes(), after.as_bytes(), &mut both)
        .context("the stacks could not be compared")?;
    let both = String::from_utf8(both).context("the stacks are no text")?;
    let mut lines: Vec<&str> = both.lines().collect();
    lines.sort_unstable();
    Ok(lines.join("\n"))
}

/// The largest file of stacks, in bytes.
const LARGEST: u64 = 1 << 30;

/// Reads the stacks of a file, one per line.
fn folded(path: &Path) -> Result<String> {
    let shown = path.display();
    let unreadable = |error| mistake("flame.unreadable", format!("{shown} cannot be read: {error}"));
    let bytes = read_regular(path, LARGEST).map_err(unreadable)?;
    let text = String::from_utf8(bytes).map_err(|_| unreadable(io::Error::from(io::ErrorKind::InvalidData)))?;
    check(&shown.to_string(), &text).map(|()| text)
}

/// The most samples of a file: the drawing computes with such numbers exactly, and their sums and products have room.
const MOST_SAMPLES: u64 = 1 << 53;

fn check(shown: &str, text: &str) -> Result<()> {
    let mut total: u64 = 0;
    for (number, line) in text.lines().enumerate() {
        match counted(line) {
            Some((stack, count)) if !stack.trim().is_empty() && !line[stack.len()..].contains('.') => {
                // If another number is before it, the drawing takes the line for a difference.
                let before = counted(stack.trim_end()).map_or(0, |(_, count)| count);
                total = total.saturating_add(count);
                if total.max(before) > MOST_SAMPLES {
                    let what = format!("{shown}, line {}: more than {MOST_SAMPLES} samples", number + 1);
                    return Err(mistake("flame.too_many_samples", what));
                }
            }
            _ => {
                return Err(mistake_with_hint(
                    "flame.no_stack",
                    format!("{shown}, line {}: {line:?} is no folded stack", number + 1),
                    "write the functions, outermost first, with semicolons between them, a space and the number of \
                     samples, for instance main;serve;send_[k] 42",
                ));
            }
        }
    }
    match total {
        0 => Err(mistake("flame.no_samples", format!("{shown} has no samples"))),
        _ => Ok(()),
    }
}

/// Splits a line into its stack and the number at its end, without the fraction.
fn counted(line: &str) -> Option<(&str, u64)> {
    let (stack, number) = line.rsplit_once(' ')?;
    let (whole, _) = number.split_once('.').unwrap_or((number, ""));
    let is_number = whole.bytes().all(|byte| byte.is_ascii_digit());
    Some((stack, whole.parse().ok().filter(|_| is_number)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_no_stack_is_refused_with_its_number() {
        check("FILE", "main;send_[k] 3\nmain;with a space 0\n").unwrap();
        for (text, line) in [
            ("a 1\nb", "line 2: \"b\""),
            ("a;b 1.5", "line 1"),
            ("a 1\n\nb 2", "line 2"),
            (" 7", "line 1"),
            ("a +1", "1"),
        ] {
            let reason = check("FILE", text).unwrap_err().to_string();
            assert!(reason.contains(line) && reason.contains("main;serve;send_[k] 42"), "{text:?}: {reason}");
        }
        for empty in ["", "a 0\n"] {
            assert!(check("FILE", empty).unwrap_err().to_string().contains("no samples"), "{empty:?}");
        }
    }

    /// Sums and products of larger numbers would overflow in the drawing.
    #[test]
    fn more_samples_than_a_drawing_can_have_are_refused() {
        check("FILE", &format!("a {MOST_SAMPLES}\n")).unwrap();
        for text in [
            format!("a 1\nb {MOST_SAMPLES}\n"),
            format!("a {}\nb {}\n", u64::MAX, u64::MAX),
            format!("a {} 1\n", u64::MAX),
            format!("a {}.5  1\n", u64::MAX),
        ] {
            let reason = check("FILE", &text).unwrap_err().to_string();
            assert!(reason.contains("more than 9007199254740992 samples"), "{text:?}: {reason}");
        }
    }

    #[test]
    fn a_difference_has_both_counts_of_each_stack() {
        assert_eq!(difference("b 1\na 2\n", "c 4\na 3\n").unwrap(), "a 2 3\nb 1 0\nc 0 4");
    }
}
