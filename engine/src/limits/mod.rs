//! The machine's limits: what one thing costs here when nothing else is done. A file each, and a line here.

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
