//! The workloads: a file each, with both ends of its protocol, and a line in this list.

use crate::protocol::workload::Workload;

#[cfg(test)]
mod both_ends;

crate::register! {
    /// All workloads.
    WORKLOADS: Workload {
        bytes,
        echo,
        top_processes,
        bucket,
        http,
        stream,
        fields,
        blast,
    }
}
