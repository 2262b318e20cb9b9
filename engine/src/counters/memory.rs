//! Memory of a process tree, including kernel memory, from a dedicated control group.

use anyhow::{Context, Result, bail};

use crate::base::about::About;
use crate::count::control_group::{ControlGroup, Hierarchy};
use crate::count::counter::{Counter, Figure, Kind, Part, Reading, Source, Subject};

pub static ENTRY: Counter = Counter {
    about: About {
        summary: "Current memory of a process tree, including kernel memory, from a dedicated control group: what the \
                  tree allocates after its start. The kernel charges up to 64 pages per CPU ahead. For memory per \
                  connection, divide the increase by the number of connections",
        source: "Linux, Documentation/admin-guide/cgroup-v2.rst, memory.current; cgroup-v1/memory.rst, memory.usage_in_bytes",
    },
    unit: "bytes",
    source: Source::Own(open),
    kind: Kind::State,
    parts: || {
        vec![
            Part { name: PEAK, unit: "bytes" },
            Part { name: KERNEL, unit: "bytes" },
            Part { name: SOCKETS, unit: "bytes" },
        ]
    },
};

/// Peak memory.
const PEAK: &str = "peak";
/// Memory that the kernel allocated for the tree: sockets, descriptors, stacks, page tables.
const KERNEL: &str = "kernel";
/// Memory of socket buffers; version 1 does not count it separately.
const SOCKETS: &str = "sockets";

const NOT_REPORTED: &str = "this kernel does not report it: older kernels lack some figures of a control group, and \
                        version 1 does not count socket buffers separately";

/// Group of a tree, in the hierarchy that has the memory controller.
struct Memory {
    group: ControlGroup,
    hierarchy: Hierarchy,
}

fn open(subject: &mut Subject) -> Result<Box<dyn Reading>> {
    let first = Hierarchy::Controller("memory");
    let group = match ControlGroup::with(first, "memory", subject.tree.root) {
        Ok(group) => Memory { group, hierarchy: first },
        Err(first_error) => {
            let hierarchy = Hierarchy::Unified;
            let group = ControlGroup::with(hierarchy, "memory", subject.tree.root)
                .with_context(|| format!("version 1: {first_error:#}; version 2"))?;
            if group.text("memory.current").is_err() {
                let parent = group.folder().parent().unwrap_or(group.folder()).display().to_string();
                bail!(
                    "{parent} does not delegate the memory controller to its groups (version 1: {first_error:#}); \
                     move its processes into subgroups, then: echo +memory > {parent}/cgroup.subtree_control"
                );
            }
            Memory { group, hierarchy }
        }
    };
    Ok(Box::new(group))
}

impl Reading for Memory {
    fn read(&mut self) -> Result<Vec<Figure>> {
        let group = &self.group;
        let (whole, [peak, kernel, sockets]) = match self.hierarchy {
            Hierarchy::Unified => (
                group.number("memory.current")?,
                [group.number("memory.peak"), group.line("memory.stat", "kernel"), group.line("memory.stat", "sock")]
                    .map(Result::ok),
            ),
            Hierarchy::Controller(_) => (
                group.number("memory.usage_in_bytes")?,
                [
                    group.number("memory.max_usage_in_bytes").ok(),
                    group.number("memory.kmem.usage_in_bytes").ok(),
                    // The file reads 0 if socket buffers are not limited; the kernel has not counted them then.
                    None,
                ],
            ),
        };
        let parts = [(PEAK, peak), (KERNEL, kernel), (SOCKETS, sockets)]
            .map(|(name, value)| Figure::or_reason(name, value, NOT_REPORTED));
        Ok([Figure::whole(whole)].into_iter().chain(parts).collect())
    }
}
