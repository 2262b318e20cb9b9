//! The counters: what is read before, after and in between. A file each, and a line here.

use crate::base::about::{About, Entry};
use crate::count::counter::Counter;
use crate::count::event_name::{self, Named};
use crate::count::perf_event::TreeEvent;
use crate::count::perf_names;

/// The counters that can be asked for.
pub fn countable() -> impl Iterator<Item = &'static Entry<Counter>> {
    COUNTERS.iter().filter(|entry| entry.item.is_countable())
}

/// The counter of a name: one of the list, or an event by a name of its own, whether this machine has it or not. None where it is
/// neither; an error where it is one that is to be written in another way.
pub fn named(name: &str) -> Option<Result<&'static Entry<Counter>, String>> {
    if let Some(entry) = countable().find(|entry| entry.name == name) {
        return Some(Ok(entry));
    }
    if let Some((event, modifiers)) = event_name::with_modifiers(name)
        && named(event).is_some()
    {
        return Some(Err(format!(
            "'{modifiers}' behind an event is not taken: what is counted is counted in the program and the kernel together, \
             always; write {event}"
        )));
    }
    event_name::named(name).map(|form| {
        let form = form?;
        let listed = countable().find(|entry| matches!(form, Named::Generic(event) if entry.item.is_event(event)));
        Ok(listed.unwrap_or_else(|| of_event(name, &form)))
    })
}

/// The names that perf has for a counter of the list.
pub fn names_of_perf(counter: &Counter) -> Vec<String> {
    perf_names::all().filter(|(_, event)| counter.is_event(*event)).map(|(name, _)| name).collect()
}

/// perf's names of events that no counter of the list is.
pub fn events_of_perf() -> Vec<String> {
    let is_listed = |event| COUNTERS.iter().any(|entry| entry.item.is_event(event));
    perf_names::all().filter(|(_, event)| !is_listed(*event)).map(|(name, _)| name).collect()
}

/// The counter of an event that is not in the list. It lives as long as the process, like those of the list.
fn of_event(name: &str, form: &Named<'_>) -> &'static Entry<Counter> {
    let name: &'static str = name.to_owned().leak();
    let source = match form {
        Named::Generic(_) => "perf_event_open(2), perf-list(1)",
        Named::Raw(_) => "the processor's manual; perf_event_open(2), PERF_TYPE_RAW",
        Named::Tracepoint { .. } => "tracefs, events/SUBSYSTEM/NAME",
        Named::PmuEvent { .. } => "/sys/bus/event_source/devices/PMU, events and format",
    };
    let about = About { summary: "An event by its name, of a process tree", source };
    let item = Box::leak(Box::new(Counter::of_event(about, "events", TreeEvent::named(form.kept()))));
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
