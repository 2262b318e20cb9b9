//! CPU time of a process and everything it starts, from a dedicated control group.

use anyhow::Result;

use crate::base::about::About;
use crate::count::control_group::{ControlGroup, Hierarchy};
use crate::count::counter::{Counter, Figure, Reading, Subject};

pub static ENTRY: Counter = Counter::elsewhere(
    About {
        summary: "CPU time of the server's whole process tree at any time, from a dedicated control group",
        source: "Linux, Documentation/admin-guide/cgroup-v2.rst, cpu.stat",
    },
    "nanoseconds",
    || ControlGroup::new(Hierarchy::Unified, "probe").map(drop),
);

/// The clock of one group.
struct CpuOfGroup(ControlGroup);

/// Moves a tree into a group, and reads its clock from now on.
pub fn open(subject: &Subject) -> Result<Box<dyn Reading>> {
    let group = ControlGroup::new(Hierarchy::Unified, "server")?;
    group.add(subject.tree.root)?;
    Ok(Box::new(CpuOfGroup(group)))
}

impl Reading for CpuOfGroup {
    /// CPU time of the group, including ended processes.
    fn read(&mut self) -> Result<Vec<Figure>> {
        Ok(vec![Figure::whole(self.0.line("cpu.stat", "usage_usec")? * 1000)])
    }
}
