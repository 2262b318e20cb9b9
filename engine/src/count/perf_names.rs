//! Events that every kernel knows by number on any processor, with their names in perf-list(1).

use perf_event::Builder;
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware, Software};

use crate::count::missing_event::nearest;

/// An event that every kernel knows. The processor may still lack it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generic {
    /// Event of the processor (PERF_TYPE_HARDWARE).
    Hardware(Hardware),
    /// Event of the kernel (PERF_TYPE_SOFTWARE).
    Software(Software),
    /// Event of a cache (PERF_TYPE_HW_CACHE).
    Cache(CacheId, CacheOp, CacheResult),
}

impl Generic {
    /// Returns a builder of the event.
    pub fn builder(self) -> Builder<'static> {
        match self {
            Generic::Hardware(event) => Builder::new(event),
            Generic::Software(event) => Builder::new(event),
            Generic::Cache(which, operation, result) => Builder::new(Cache { which, operation, result }),
        }
    }
}

/// Names of perf_event_open(2), PERF_TYPE_HARDWARE. Several events have two.
const HARDWARE: [(&str, Hardware); 14] = [
    ("cpu-cycles", Hardware::CPU_CYCLES),
    ("cycles", Hardware::CPU_CYCLES),
    ("instructions", Hardware::INSTRUCTIONS),
    ("cache-references", Hardware::CACHE_REFERENCES),
    ("cache-misses", Hardware::CACHE_MISSES),
    ("branch-instructions", Hardware::BRANCH_INSTRUCTIONS),
    ("branches", Hardware::BRANCH_INSTRUCTIONS),
    ("branch-misses", Hardware::BRANCH_MISSES),
    ("bus-cycles", Hardware::BUS_CYCLES),
    ("stalled-cycles-frontend", Hardware::STALLED_CYCLES_FRONTEND),
    ("idle-cycles-frontend", Hardware::STALLED_CYCLES_FRONTEND),
    ("stalled-cycles-backend", Hardware::STALLED_CYCLES_BACKEND),
    ("idle-cycles-backend", Hardware::STALLED_CYCLES_BACKEND),
    ("ref-cycles", Hardware::REF_CPU_CYCLES),
];

/// Names of perf_event_open(2), PERF_TYPE_SOFTWARE, without those that never count anything by themselves (dummy,
/// bpf-output).
const SOFTWARE: [(&str, Software); 13] = [
    ("cpu-clock", Software::CPU_CLOCK),
    ("task-clock", Software::TASK_CLOCK),
    ("page-faults", Software::PAGE_FAULTS),
    ("faults", Software::PAGE_FAULTS),
    ("minor-faults", Software::PAGE_FAULTS_MIN),
    ("major-faults", Software::PAGE_FAULTS_MAJ),
    ("context-switches", Software::CONTEXT_SWITCHES),
    ("cs", Software::CONTEXT_SWITCHES),
    ("cpu-migrations", Software::CPU_MIGRATIONS),
    ("migrations", Software::CPU_MIGRATIONS),
    ("alignment-faults", Software::ALIGNMENT_FAULTS),
    ("emulation-faults", Software::EMULATION_FAULTS),
    ("cgroup-switches", Software::CGROUP_SWITCHES),
];

/// Names of perf_event_open(2), PERF_TYPE_HW_CACHE: each cache, and its operations (tools/perf/util/evsel.c, `COP`).
const CACHES: [(&str, CacheId, &[CacheOp]); 7] = [
    ("L1-dcache", CacheId::L1D, &[CacheOp::READ, CacheOp::WRITE, CacheOp::PREFETCH]),
    ("L1-icache", CacheId::L1I, &[CacheOp::READ, CacheOp::PREFETCH]),
    ("LLC", CacheId::LL, &[CacheOp::READ, CacheOp::WRITE, CacheOp::PREFETCH]),
    ("dTLB", CacheId::DTLB, &[CacheOp::READ, CacheOp::WRITE, CacheOp::PREFETCH]),
    ("iTLB", CacheId::ITLB, &[CacheOp::READ]),
    ("branch", CacheId::BPU, &[CacheOp::READ]),
    ("node", CacheId::NODE, &[CacheOp::READ, CacheOp::WRITE, CacheOp::PREFETCH]),
];

/// Lists all events with their names.
pub fn all() -> impl Iterator<Item = (String, Generic)> {
    let hardware = HARDWARE.iter().map(|&(name, event)| (name.to_owned(), Generic::Hardware(event)));
    let software = SOFTWARE.iter().map(|&(name, event)| (name.to_owned(), Generic::Software(event)));
    hardware.chain(software).chain(of_caches())
}

/// Lists events of caches: `L1-dcache-loads`, `L1-dcache-load-misses`, and so on.
fn of_caches() -> impl Iterator<Item = (String, Generic)> {
    let operations =
        CACHES.iter().flat_map(|&(cache, id, operations)| operations.iter().map(move |op| (cache, id, *op)));
    operations.flat_map(|(cache, id, operation)| {
        let (all, one) = match operation {
            CacheOp::WRITE => ("stores", "store"),
            CacheOp::PREFETCH => ("prefetches", "prefetch"),
            _ => ("loads", "load"),
        };
        [
            (format!("{cache}-{all}"), Generic::Cache(id, operation, CacheResult::ACCESS)),
            (format!("{cache}-{one}-misses"), Generic::Cache(id, operation, CacheResult::MISS)),
        ]
    })
}

/// Returns the event of that name.
pub fn named(name: &str) -> Option<Generic> {
    all().find(|(known, _)| known == name).map(|(_, event)| event)
}

/// Returns the name most like a word, if any is similar.
pub fn nearest_to(word: &str) -> Option<String> {
    nearest(word, &all().map(|(name, _)| name).collect::<Vec<_>>()).cloned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_name_is_there_once_and_is_perfs() {
        let names: Vec<String> = all().map(|(name, _)| name).collect();
        assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len(), "{names:?}");
        let expected = Generic::Cache(CacheId::DTLB, CacheOp::READ, CacheResult::MISS);
        assert_eq!(named("dTLB-load-misses"), Some(expected));
        assert_eq!(named("cycles"), named("cpu-cycles"));
        for name in ["L1-icache-stores", "iTLB-prefetches", "cpu_cycles", "dtlb-load-misses", ""] {
            assert_eq!(named(name), None, "{name}");
        }
        assert_eq!(nearest_to("dTLB-load-mises").unwrap(), "dTLB-load-misses");
    }
}
