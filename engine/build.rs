//! Records how the engine was built, so that results can report it, and links the code that serves connections in one place.

use std::env;
use std::process::Command;

fn main() {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().expect("the compiler prints its version");
    println!("cargo::rustc-env=BUILD_RUSTC={}", String::from_utf8_lossy(&version.stdout).trim());
    for (name, variable) in [("PROFILE", "PROFILE"), ("TARGET", "TARGET"), ("FLAGS", "CARGO_ENCODED_RUSTFLAGS")] {
        let value = env::var(variable).unwrap_or_default().replace('\u{1f}', " ");
        println!("cargo::rustc-env=BUILD_{name}={value}");
    }
    let script = format!("{}/serving.ld", env!("CARGO_MANIFEST_DIR"));
    println!("cargo::rustc-link-arg-bins=-Wl,-T,{script}");
    println!("cargo::rerun-if-changed={script}");
    println!("cargo::rerun-if-changed=build.rs");
}
