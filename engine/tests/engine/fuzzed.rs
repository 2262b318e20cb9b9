//! The fuzz targets (`fuzz/targets.rs`), on the kept corpus, on its mutations, and on random bytes.

use std::path::Path;
use std::time::{Duration, Instant};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

#[path = "../../fuzz/targets.rs"]
mod targets;

/// Time for the mutations and random bytes of each target.
const LONGEST: Duration = Duration::from_secs(10);

/// Inputs that are enough on a fast machine.
const INPUTS: usize = 200_000;

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let mut paths: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    paths.into_iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Changes, inserts, removes or repeats some bytes.
fn mutated(input: &[u8], random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let mut output = input.to_vec();
    for _ in 0..=random.next_u32() % 4 {
        let place = random.next_u32() as usize % (output.len() + 1);
        match random.next_u32() % 4 {
            0 if place < output.len() => output[place] = random.next_u32() as u8,
            1 => output.insert(place, random.next_u32() as u8),
            2 => output.truncate(place),
            _ => {
                let part = output[place..].to_vec();
                output.splice(place..place, part);
            }
        }
        output.truncate(4096);
    }
    output
}

fn fuzz(name: &str) {
    let seeds = corpus(name);
    for seed in &seeds {
        targets::run(name, seed);
    }
    let (mut random, began, mut tried) = (Xoshiro256PlusPlus::seed_from_u64(1), Instant::now(), 0);
    while tried < INPUTS && began.elapsed() < LONGEST {
        let input = mutated(&seeds[tried % seeds.len()], &mut random);
        let failed = std::panic::catch_unwind(|| targets::run(name, &input)).is_err();
        assert!(!failed, "{name} failed with {}", input.escape_ascii());
        tried += 1;
    }
    println!("{name}: {tried} inputs in {:.1} s", began.elapsed().as_secs_f64());
}

#[test]
fn sessions_take_any_bytes() {
    fuzz("sessions");
}

#[test]
fn conversations_take_any_bytes() {
    fuzz("conversations");
}

#[test]
fn replies_under_test_may_have_any_bytes() {
    fuzz("replies");
}

#[test]
fn replies_of_any_workload_may_have_any_bytes() {
    fuzz("verdicts");
}

#[test]
fn counts_of_servers_may_have_any_bytes() {
    fuzz("counts");
}

#[test]
fn settings_take_any_text() {
    fuzz("settings");
}

#[test]
fn files_with_requests_may_have_any_bytes() {
    fuzz("csv");
}

#[test]
fn files_of_stacks_may_have_any_bytes() {
    fuzz("stacks");
}

#[test]
fn the_kernel_may_hand_over_any_bytes() {
    fuzz("kernel");
}
