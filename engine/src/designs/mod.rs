//! The designs: a file each, and a line in this list.

use crate::server::design::Design;

crate::register! {
    /// All designs: those of UNP chapter 30 in the order of the book, then event loops, single and as pools.
    DESIGNS: Design {
        iterative,
        fork_per_client,
        prefork,
        prefork_file_lock,
        prefork_mutex,
        prefork_pass_descriptor,
        thread_per_client,
        prethread,
        prethread_mutex,
        prethread_queue,
        select,
        poll,
        epoll,
        epoll_edge,
        prefork_select,
        prefork_epoll,
        prefork_epoll_exclusive,
        reuseport,
        polling,
        epoll_dispatch,
        epoll_offload,
        prefork_dynamic,
        prethread_dynamic,
        io_uring,
        tokio,
    }
}
