//! Memory of this process, as the kernel reports it (proc(5)), for the connections of a load.

use schemars::JsonSchema;
use serde::Serialize;

use crate::base::proc_file;

/// Memory of a load's process, without the kernel's memory of its sockets. The counter `memory` reports that, for a separate
/// control group of the load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Memory {
    /// Memory of the connections, if all are made before the first request. Null if connections are not persistent, or are made
    /// as their clients start.
    pub connected: Option<Connected>,
    /// Peak resident memory of the process (VmHWM), including the program's own pages and shared memory.
    pub peak_resident_bytes: u64,
}

/// Memory of open connections before the first request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Connected {
    /// Open connections.
    pub connections: u64,
    /// Growth of the process's private memory (Anonymous in smaps_rollup) since before the first connection. It includes
    /// clients, connections, histograms, and the event loop's state of its sockets.
    pub bytes: u64,
}

/// Fewest connections for which memory per connection is reported. Memory is read in pages, some of which are the allocator's.
const FEWEST: u64 = 100;

impl Memory {
    /// Reads the memory of this process now. `connected` is what was read after its connections were made. `None` if the kernel
    /// does not report it.
    pub fn now(connected: Option<Connected>) -> Option<Self> {
        let status = proc_file::text("/proc/self/status").ok()?;
        Some(Memory { connected, peak_resident_bytes: field(&status, "VmHWM:")? })
    }

    /// Formats the memory for people.
    pub fn in_words(&self) -> String {
        let peak = format!("{:.1} MiB peak", mebibytes(self.peak_resident_bytes));
        match self.connected {
            Some(Connected { connections, bytes }) if connections >= FEWEST => {
                format!("{peak}; {:.2} KiB per connection of {connections}", bytes as f64 / 1024.0 / connections as f64)
            }
            _ => peak,
        }
    }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Returns the resident private memory of this process in bytes; `None` if the kernel does not report it.
pub fn private_bytes() -> Option<u64> {
    field(&std::fs::read_to_string("/proc/self/smaps_rollup").ok()?, "Anonymous:")
}

/// Reads a line of such a file, and converts KiB to bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touched_memory_is_counted_and_reserved_memory_is_not() {
        const BYTES: usize = 64 << 20;
        let Some(before) = private_bytes() else { return println!("skipped: no smaps_rollup") };
        // The zeroes are in pages that are not there yet.
        let mut memory = vec![0u8; BYTES];
        let reserved = private_bytes().unwrap().saturating_sub(before);
        memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        let touched = private_bytes().unwrap().saturating_sub(before);
        assert!(std::hint::black_box(&memory).len() == BYTES);
        // Other tests of this process allocate and free some memory meanwhile.
        assert!(reserved < BYTES as u64 / 2 && touched >= BYTES as u64 / 4 * 3, "{reserved} {touched}");
        assert!(Memory::now(None).unwrap().peak_resident_bytes >= BYTES as u64);
    }

    #[test]
    fn memory_is_formatted_for_people() {
        let connected = Some(Connected { connections: 1000, bytes: 1_536_000 });
        let memory = Memory { connected, peak_resident_bytes: 3 << 20 };
        let said = memory.in_words();
        assert!(said.contains("1.50 KiB") && said.contains("1000") && said.contains("3.0 MiB"), "{said}");
        assert!(!Memory { connected: None, ..memory }.in_words().contains("KiB"));
    }
}
