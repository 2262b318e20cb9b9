//! Machine limits: the cost of basic operations on this machine, measured alone. A file each, and a line in this list.

use crate::base::limit::Limit;

crate::register! {
    /// All limits.
    LIMITS: Limit {
        clock_read,
        system_call,
        page_fault,
        thread_creation,
        fork_exit_wait,
        pipe_transfer,
        pipe_round_trip,
        socketpair_round_trip,
        tcp_transfer,
        tcp_exchange,
        tcp_connection,
        tcp_accept_close,
        memcpy,
    }
}
