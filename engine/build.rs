//! Records how the engine was built, so that results can report it, and links the code that serves connections in one place.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn main() {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().expect("the compiler prints its version");
    println!("cargo::rustc-env=BUILD_RUSTC={}", String::from_utf8_lossy(&version.stdout).trim());
    for (name, variable) in [("PROFILE", "PROFILE"), ("TARGET", "TARGET"), ("FLAGS", "CARGO_ENCODED_RUSTFLAGS")] {
        let value = env::var(variable).unwrap_or_default().replace('\u{1f}', " ");
        println!("cargo::rustc-env=BUILD_{name}={value}");
    }
    // A copy beside the build's other output: Cargo keeps the path even if the source moves.
    let script = Path::new(&env::var_os("OUT_DIR").expect("Cargo sets it")).join("serving.ld");
    fs::write(&script, include_str!("serving.ld")).expect("the output folder is writable");
    println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", script.display());
    println!("cargo::rerun-if-changed=serving.ld");
    println!("cargo::rerun-if-changed=build.rs");
}
