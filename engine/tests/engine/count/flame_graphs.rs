//! Flame graphs of folded stacks.

use std::fs;
use std::path::PathBuf;

use crate::support::{Ran, engine, refused, run};

/// A separate folder, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("thunderherd-flame-{}-{name}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        Folder(folder)
    }

    fn file(&self, name: &str, text: &str) -> String {
        fs::write(self.0.join(name), text).unwrap();
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Draws with these options into `drawn.svg`.
    fn flame(&self, options: &[&str]) -> Ran {
        run(engine().arg("flame").arg("--output").arg(self.0.join("drawn.svg")).args(options))
    }

    fn drawn(&self) -> String {
        fs::read_to_string(self.0.join("drawn.svg")).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Texts of all rectangles, with their colours.
fn rectangles(picture: &str) -> Vec<(&str, &str)> {
    let between = |text: &'static str, from: &'static str| {
        move |part: &'_ str| -> Option<(usize, usize)> {
            let start = part.find(text)? + text.len();
            Some((start, start + part[start..].find(from)?))
        }
    };
    let title = between("<title>", "</title>");
    let colour = between("fill=\"", "\"");
    picture
        .split("<g>")
        .skip(1)
        .filter_map(|part| {
            let (title, colour) = (title(part)?, colour(part)?);
            Some((&part[title.0..title.1], &part[colour.0..colour.1]))
        })
        .collect()
}

const STACKS: &str = "main;serve;send_[k];tcp_sendmsg_[k] 60\nmain;serve 30\nmain;Vec<u8>::grow 9\nmain;rare 1\n";

#[test]
fn each_function_has_its_share_and_the_kernel_its_colour() {
    let folder = Folder::new("one");
    let stacks = folder.file("stacks.folded", STACKS);
    let options = ["--title", "A & B", "--subtitle", "997 Hz", "--minimum-width", "2", &stacks];
    let ran = folder.flame(&options);
    assert_eq!((ran.status, ran.output.as_str(), ran.errors.as_str()), (Some(0), "", ""));
    let picture = folder.drawn();
    let mut shown: Vec<&str> = rectangles(&picture).iter().map(|(title, _)| *title).collect();
    shown.sort_unstable();
    assert_eq!(
        shown,
        [
            "Vec&lt;u8&gt;::grow (9 samples, 9.00%)",
            "all (100 samples, 100%)",
            "main (100 samples, 100.00%)",
            "send (60 samples, 60.00%)",
            "serve (90 samples, 90.00%)",
            "tcp_sendmsg (60 samples, 60.00%)",
        ],
        "shares below 2 % are omitted"
    );
    for text in ["A &amp; B", "997 Hz"] {
        assert!(picture.contains(text), "{text}");
    }
    let colour = |name: &str| rectangles(&picture).into_iter().find(|(title, _)| title.starts_with(name)).unwrap().1;
    assert_ne!(colour("send"), colour("serve"));
    // Viewers fetch nothing: its only links are XML namespaces.
    for link in ["href=\"http", "src=", "@import", "fetch("] {
        assert!(!picture.contains(link), "{link}");
    }
    assert_eq!(picture.matches("url(").count(), picture.matches("url(#").count());

    let shuffled: String = STACKS.lines().rev().map(|line| format!("{line}\n")).collect();
    folder.file("stacks.folded", &shuffled);
    assert_eq!(folder.flame(&options).status, Some(0));
    assert_eq!(folder.drawn(), picture, "the same stacks give the same picture");
}

#[test]
fn a_difference_shows_increases_and_decreases() {
    let folder = Folder::new("difference");
    let before = folder.file("before.folded", "main;copy_[k] 10\nmain;wait_[k] 30\nmain;gone 5\n");
    let after = folder.file("after.folded", "main;copy_[k] 40\nmain;wait_[k] 20\nmain;new 5\n");
    let options = ["--title", "after against before", "--unit", "ns per request", "--before", &before, &after];
    assert_eq!(folder.flame(&options).status, Some(0));
    let picture = folder.drawn();
    let shown = rectangles(&picture);
    let of =
        |name: &str| *shown.iter().find(|(title, _)| title.starts_with(name)).unwrap_or_else(|| panic!("{shown:?}"));
    assert!(of("copy").0.starts_with("copy (40 ns per request, 61.54%; +"), "{shown:?}");
    assert!(of("wait").0.contains("; -"), "{shown:?}");
    assert!(of("new").0.contains("; +"), "{shown:?}");
    // Red for more, blue for less: the first or the last component of the colour is the largest.
    let parts = |name: &str| -> Vec<u32> {
        let colour = of(name).1.trim_start_matches("rgb(").trim_end_matches(')');
        colour.split(',').map(|part| part.trim().parse().unwrap()).collect()
    };
    assert!(parts("copy")[0] > parts("copy")[2], "{shown:?}");
    assert!(parts("wait")[0] < parts("wait")[2], "{shown:?}");
    assert_eq!(folder.flame(&options).status, Some(0));
    assert_eq!(folder.drawn(), picture);
}

#[test]
fn mistakes_are_refused() {
    let folder = Folder::new("wrong");
    let good = folder.file("good.folded", STACKS);
    let missing = folder.0.join("missing.folded").to_str().unwrap().to_owned();
    let title = ["--title", "T"];
    let flame = |options: &[&str]| folder.flame(&[&title[..], options].concat());
    refused(&flame(&[&missing]), "flame.unreadable", &["missing.folded", "No such file"]);
    refused(&flame(&["--before", &missing, &good]), "flame.unreadable", &["missing.folded"]);
    refused(&flame(&[&folder.file("empty.folded", "")]), "flame.no_samples", &["empty.folded"]);
    let bad = folder.file("bad.folded", "main;serve 3\nmain;send\n");
    refused(&flame(&[&bad]), "flame.no_stack", &["bad.folded, line 2", "main;send", "main;serve;send_[k] 42"]);
    refused(&flame(&["--minimum-width", "100", &good]), "flame.minimum_width", &["--minimum-width", "100"]);
    refused(&folder.flame(&[&good]), "arguments.missing", &["--title"]);
    let ran = run(engine().args(["flame", "--title", "T", "--output", "/nowhere/x.svg", &good]));
    refused(&ran, "flame.output", &["--output /nowhere/x.svg"]);
    assert!(!folder.0.join("drawn.svg").exists());
}
