//! A client thread's own time in the window: a client that is always busy measures itself.

use std::time::Duration;

use crate::base::window::Window;
use crate::client::generator::Generator;
use crate::sys::clock::thread_cpu_time;

/// Account of one thread, kept by the thread.
#[derive(Default)]
pub struct OwnTime {
    waited: u64,
    /// At the start of the window: the moment, CPU time and waiting time.
    before: Option<(u64, Duration, u64)>,
    of_window: Option<Generator>,
}

impl OwnTime {
    /// Adds waiting time in nanoseconds.
    pub fn waited(&mut self, nanoseconds: u64) {
        self.waited += nanoseconds;
    }

    /// Reads the clocks at the window's edges, once they have passed.
    pub fn look(&mut self, at: u64, window: &Window) {
        let edges = window.edges();
        if self.of_window.is_some() || at < edges.start {
            return;
        }
        let (began, cpu, waited) = *self.before.get_or_insert_with(|| (at, thread_cpu_time(), self.waited));
        if at >= edges.end {
            let cpu_ns = thread_cpu_time().saturating_sub(cpu).as_nanos() as u64;
            let (elapsed_ns, waited_ns) = (at - began, self.waited - waited);
            self.of_window = Some(Generator { elapsed_ns, cpu_ns, waited_ns });
        }
    }

    /// The next edge to be read.
    pub fn next(&self, window: &Window) -> Option<u64> {
        let edges = window.edges();
        let next = if self.before.is_none() { edges.start } else { edges.end };
        self.of_window.is_none().then_some(next)
    }

    /// Returns the account of the window, once that is over.
    pub fn of_window(&self) -> Option<Generator> {
        self.of_window.clone().filter(|generator| generator.elapsed_ns > 0)
    }
}
