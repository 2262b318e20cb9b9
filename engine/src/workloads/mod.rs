//! The workloads: a file each, both ends of its protocol in it, and a line here.

use crate::workload::Workload;

crate::register! {
    /// All workloads.
    WORKLOADS: Workload {
        bytes,
        echo,
        top_processes,
        bucket,
        http,
    }
}
