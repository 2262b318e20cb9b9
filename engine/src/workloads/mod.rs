//! The workloads: a file each, both ends of its protocol in it, and a line here.

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
