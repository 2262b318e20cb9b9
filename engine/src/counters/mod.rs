//! The counters: what is read before, after and in between. A file each, and a line here.

use crate::about::{About, Entry};
use crate::counter::Counter;
use crate::named_event;
use crate::perf_event::TreeEvent;

/// The counters that can be asked for.
pub fn countable() -> impl Iterator<Item = &'static Entry<Counter>> {
    COUNTERS.iter().filter(|entry| entry.item.is_countable())
}

/// The counter of a name: one of the list, or any event that this machine has by that name. None where it is neither; an error
/// where it has the form of an event's name, and there is no such event.
pub fn named(name: &str) -> Option<Result<&'static Entry<Counter>, String>> {
    if let Some(entry) = countable().find(|entry| entry.name == name) {
        return Some(Ok(entry));
    }
    named_event::has_form(name).then(|| named_event::check(name).map(|()| of_event(name)))
}

/// The counter of an event that has a name on this machine alone. It lives as long as the process, like those of the list.
fn of_event(name: &str) -> &'static Entry<Counter> {
    let name: &'static str = name.to_owned().leak();
    let (source, event) = match name.contains(':') {
        true => ("tracefs, events/SUBSYSTEM/NAME", TreeEvent::tracepoint(name)),
        false => ("/sys/bus/event_source/devices/PMU/events", TreeEvent::of_pmu(name)),
    };
    let about = About { summary: "An event of this machine, of a process tree", source };
    let item = Box::leak(Box::new(Counter::of_event(about, "events", event)));
    Box::leak(Box::new(Entry { name, item }))
}

crate::register! {
    /// All counters.
    COUNTERS: Counter {
        cgroup_cpu,
        process_clocks,
        task_clock,
        cpu_clock,
        resource_usage,
        listen_drops,
        context_switches,
        cpu_migrations,
        wakeups,
        voluntary_switches,
        involuntary_switches,
        page_faults,
        minor_faults,
        major_faults,
        memory,
        system_calls,
        tcp_info,
        cpu_cycles,
        instructions,
        bus_cycles,
        branch_instructions,
        branch_misses,
        cache_references,
        cache_misses,
        llc_loads,
        llc_load_misses,
        l1_dcache_loads,
        l1_dcache_load_misses,
    }
}
