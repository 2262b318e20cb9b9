//! The counters, read before, during and after a window. A counter with its own code is a file and a line in this list.
//! A counter that is just a perf event is a row in this list.

use perf_event::events::{CacheId, CacheResult, Hardware, Software};

use crate::base::about::{About, Entry};
use crate::count::counter::Counter;
use crate::count::event_name::{self, Named};
use crate::count::perf_event::{Group, TreeEvent};
use crate::count::perf_names;

/// The counters that can be requested.
pub fn countable() -> impl Iterator<Item = &'static Entry<Counter>> {
    COUNTERS.iter().filter(|entry| entry.item.is_countable())
}

/// Finds a counter by name: one of the list, or any event by its perf name, whether or not this machine has it. None if
/// the name is neither; an error if the event must be written differently.
pub fn named(name: &str) -> Option<Result<&'static Entry<Counter>, String>> {
    if let Some(entry) = countable().find(|entry| entry.name == name) {
        return Some(Ok(entry));
    }
    if let Some((event, modifiers)) = event_name::with_modifiers(name)
        && named(event).is_some()
    {
        return Some(Err(format!(
            "modifier '{modifiers}' is not supported: events count user and kernel mode together"
        )));
    }
    event_name::named(name).map(|form| {
        let form = form?;
        let listed = countable().find(|entry| matches!(form, Named::Generic(event) if entry.item.is_event(event)));
        Ok(listed.unwrap_or_else(|| of_event(name, &form)))
    })
}

/// Perf's names for the counters of the list.
pub fn names_of_perf(counter: &Counter) -> Vec<String> {
    perf_names::all().filter(|(_, event)| counter.is_event(*event)).map(|(name, _)| name).collect()
}

/// Perf's names of events that are not in the list.
pub fn events_of_perf() -> Vec<String> {
    let is_listed = |event| COUNTERS.iter().any(|entry| entry.item.is_event(event));
    perf_names::all().filter(|(_, event)| !is_listed(*event)).map(|(name, _)| name).collect()
}

/// Makes the counter of an event that is not in the list. It lives as long as the process, like those of the list.
fn of_event(name: &str, form: &Named<'_>) -> &'static Entry<Counter> {
    let name: &'static str = name.to_owned().leak();
    let source = match form {
        Named::Generic(_) => "perf_event_open(2), perf-list(1)",
        Named::Raw(_) => "the processor's manual; perf_event_open(2), PERF_TYPE_RAW",
        Named::Tracepoint { .. } => "tracefs, events/SUBSYSTEM/NAME",
        Named::PmuEvent { .. } => "/sys/bus/event_source/devices/PMU, events and format",
    };
    let about = About { summary: "Any event of a process tree, by its name", source };
    let item = Box::leak(Box::new(Counter::of_event(about, "events", TreeEvent::named(form.kept()))));
    Box::leak(Box::new(Entry { name, item }))
}

/// A counter that is just a perf event: its unit, the event, and what `list` prints about it.
const fn event(unit: &'static str, event: TreeEvent, summary: &'static str, source: &'static str) -> Counter {
    Counter::of_event(About { summary, source }, unit, event)
}

crate::register! {
    /// All counters.
    COUNTERS: Counter {
        cgroup_cpu,
        process_clocks,
        task_clock = event(
            "nanoseconds",
            TreeEvent::clock(Software::TASK_CLOCK),
            "CPU time of a whole process tree at any time, from perf, which misses what tasks do as they exit: 20 % \
             less than the control group's CPU time to 3 % more (docs/methodology/cpu-time.md)",
            "perf_event_open(2), PERF_COUNT_SW_TASK_CLOCK with inherit",
        ),
        cpu_clock = event(
            "nanoseconds",
            TreeEvent::clock(Software::CPU_CLOCK),
            "CPU time of a process tree at any time, from perf's timer of a CPU; compare with task_clock to see how \
             accurate both are",
            "perf_event_open(2), PERF_COUNT_SW_CPU_CLOCK with inherit",
        ),
        resource_usage,
        listen_drops,
        context_switches = event(
            "switches",
            TreeEvent::software(Software::CONTEXT_SWITCHES),
            "Context switches of a process tree at any time, from perf; misses the last switch of each process and \
             thread that ends",
            "perf_event_open(2), PERF_COUNT_SW_CONTEXT_SWITCHES with inherit",
        ),
        cpu_migrations = event(
            "migrations",
            TreeEvent::software(Software::CPU_MIGRATIONS),
            "Times a thread of a process tree moved to another CPU, at any time, from perf",
            "perf_event_open(2), PERF_COUNT_SW_CPU_MIGRATIONS with inherit",
        ),
        wakeups = event(
            // Counts the waker, not the thread that is woken.
            "wake-ups",
            TreeEvent::tracepoint("sched", "sched_waking"),
            "Times a process tree woke a thread, its own or another's; includes threads that its sends wake at the \
             other end of a loopback connection",
            "Linux, include/trace/events/sched.h: sched_waking always fires in the context of the waker; sched_wakeup \
             may fire on the other CPU",
        ),
        voluntary_switches,
        involuntary_switches,
        page_faults = event(
            "faults",
            TreeEvent::software(Software::PAGE_FAULTS),
            "Page faults of a process tree at any time, minor and major, from perf",
            "perf_event_open(2), PERF_COUNT_SW_PAGE_FAULTS with inherit",
        ),
        minor_faults = event(
            "faults",
            TreeEvent::software(Software::PAGE_FAULTS_MIN),
            "Minor page faults (no disk read) of a process tree at any time, from perf",
            "perf_event_open(2), PERF_COUNT_SW_PAGE_FAULTS_MIN with inherit",
        ),
        major_faults = event(
            "faults",
            TreeEvent::software(Software::PAGE_FAULTS_MAJ),
            "Major page faults (disk read) of a process tree at any time, from perf",
            "perf_event_open(2), PERF_COUNT_SW_PAGE_FAULTS_MAJ with inherit",
        ),
        memory,
        system_calls,
        tcp_info,
        cpu_cycles = event(
            "cycles",
            TreeEvent::hardware(Hardware::CPU_CYCLES).in_group(Group::Cycles),
            "CPU cycles of a process tree, including kernel mode",
            "perf_event_open(2), PERF_COUNT_HW_CPU_CYCLES with inherit",
        ),
        instructions = event(
            "instructions",
            TreeEvent::hardware(Hardware::INSTRUCTIONS).in_group(Group::Cycles),
            "Instructions that a process tree retired, including kernel mode; counted in the same time slices as its \
             cycles",
            "perf_event_open(2), PERF_COUNT_HW_INSTRUCTIONS with inherit",
        ),
        bus_cycles = event(
            "cycles",
            TreeEvent::hardware(Hardware::BUS_CYCLES),
            "Bus cycles, or cycles of another fixed-rate clock, while a process tree ran",
            "perf_event_open(2), PERF_COUNT_HW_BUS_CYCLES with inherit",
        ),
        branch_instructions = event(
            "branches",
            TreeEvent::hardware(Hardware::BRANCH_INSTRUCTIONS).in_group(Group::Branches),
            "Branches that a process tree retired, including kernel mode",
            "perf_event_open(2), PERF_COUNT_HW_BRANCH_INSTRUCTIONS with inherit",
        ),
        branch_misses = event(
            "branches",
            TreeEvent::hardware(Hardware::BRANCH_MISSES).in_group(Group::Branches),
            "Mispredicted branches of a process tree, including kernel mode; counted in the same time slices as all \
             its branches",
            "perf_event_open(2), PERF_COUNT_HW_BRANCH_MISSES with inherit",
        ),
        cache_references = event(
            "references",
            TreeEvent::hardware(Hardware::CACHE_REFERENCES).in_group(Group::Caches),
            "Cache accesses of a process tree, including kernel mode; the CPU chooses the level, usually the last",
            "perf_event_open(2), PERF_COUNT_HW_CACHE_REFERENCES with inherit",
        ),
        cache_misses = event(
            "misses",
            TreeEvent::hardware(Hardware::CACHE_MISSES).in_group(Group::Caches),
            "Cache misses of a process tree, including kernel mode; the CPU chooses the level, usually the last",
            "perf_event_open(2), PERF_COUNT_HW_CACHE_MISSES with inherit",
        ),
        llc_loads = event(
            "loads",
            TreeEvent::cache_load(CacheId::LL, CacheResult::ACCESS).in_group(Group::LastLevel),
            "Loads of a process tree that accessed the last-level cache, including kernel mode",
            "perf_event_open(2), PERF_COUNT_HW_CACHE_LL, OP_READ, RESULT_ACCESS with inherit",
        ),
        llc_load_misses = event(
            "misses",
            TreeEvent::cache_load(CacheId::LL, CacheResult::MISS).in_group(Group::LastLevel),
            "Loads of a process tree that missed the last-level cache, including kernel mode; counted in the same \
             time slices as all such loads",
            "perf_event_open(2), PERF_COUNT_HW_CACHE_LL, OP_READ, RESULT_MISS with inherit",
        ),
        l1_dcache_loads = event(
            "loads",
            TreeEvent::cache_load(CacheId::L1D, CacheResult::ACCESS).in_group(Group::FirstLevel),
            "Loads of a process tree from the L1 data cache, including kernel mode",
            "perf_event_open(2), PERF_COUNT_HW_CACHE_L1D, OP_READ, RESULT_ACCESS with inherit",
        ),
        l1_dcache_load_misses = event(
            "misses",
            TreeEvent::cache_load(CacheId::L1D, CacheResult::MISS).in_group(Group::FirstLevel),
            "Loads of a process tree that missed the L1 data cache, including kernel mode; counted in the same time \
             slices as all such loads",
            "perf_event_open(2), PERF_COUNT_HW_CACHE_L1D, OP_READ, RESULT_MISS with inherit",
        ),
    }
}
