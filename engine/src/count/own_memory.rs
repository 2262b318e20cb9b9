//! Memory of this process, as the kernel tells it (proc(5)): what a load's connections take on its own side.

use schemars::JsonSchema;
use serde::Serialize;

/// Memory of a load's process. What the kernel keeps of its sockets is not in it: the counter `memory` tells that, of a
/// control group of the load's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Memory {
    /// What the connections took that were all made before the first request; null where connections are not kept, or are
    /// made as their clients begin.
    pub connected: Option<Connected>,
    /// The most that the process ever had resident: the program's own pages and shared memory included (VmHWM).
    pub peak_resident_bytes: u64,
}

/// What connections took before anybody asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Connected {
    /// Connections that were open.
    pub connections: u64,
    /// By how much the process's private memory, heap and stacks, had grown since before the first of them (the line
    /// Anonymous of smaps_rollup): clients, connections, histograms, what an event loop keeps of its sockets.
    pub bytes: u64,
}

/// Of fewer connections the memory of each is not said: it is read in pages, and the allocator's own are among them.
const FEWEST: u64 = 100;

impl Memory {
    /// Of this process now, with what was read when its connections had been made; `None` where the kernel does not tell.
    pub fn now(connected: Option<Connected>) -> Option<Self> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        Some(Memory { connected, peak_resident_bytes: field(&status, "VmHWM:")? })
    }

    /// For a person.
    pub fn in_words(&self) -> String {
        let peak = format!("the load's process had {:.1} MiB resident at most", mebibytes(self.peak_resident_bytes));
        match self.connected {
            Some(Connected { connections, bytes }) if connections >= FEWEST => format!(
                "memory: {:.2} KiB of the load's own for each of {connections} connections once all were made; {peak}\n",
                bytes as f64 / 1024.0 / connections as f64
            ),
            _ => format!("memory: {peak}\n"),
        }
    }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Private memory of this process that is there, in bytes; `None` where the kernel does not tell.
pub fn private_bytes() -> Option<u64> {
    field(&std::fs::read_to_string("/proc/self/smaps_rollup").ok()?, "Anonymous:")
}

/// A line of such a file, which has KiB, as bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_touched_is_counted_and_what_is_only_reserved_is_not() {
        const BYTES: usize = 64 << 20;
        let Some(before) = private_bytes() else { return println!("skipped: no smaps_rollup") };
        // Zeroes come from pages that are not there yet.
        let mut memory = vec![0u8; BYTES];
        let reserved = private_bytes().unwrap().saturating_sub(before);
        memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        let touched = private_bytes().unwrap().saturating_sub(before);
        assert!(std::hint::black_box(&memory).len() == BYTES);
        // Other tests of this process take and give back some meanwhile.
        assert!(reserved < BYTES as u64 / 2 && touched >= BYTES as u64 / 4 * 3, "{reserved} {touched}");
        assert!(Memory::now(None).unwrap().peak_resident_bytes >= BYTES as u64);
    }

    #[test]
    fn it_is_said_in_words() {
        let connected = Some(Connected { connections: 1000, bytes: 1_536_000 });
        let memory = Memory { connected, peak_resident_bytes: 3 << 20 };
        let said = memory.in_words();
        assert!(said.contains("1.50 KiB") && said.contains("1000 connections") && said.contains("3.0 MiB"), "{said}");
        assert!(!Memory { connected: None, ..memory }.in_words().contains("connections"));
    }
}
