//! Waiting until descriptors are ready: a file for each system call.

pub mod epoll;
pub mod poll;
pub mod runtime;
pub mod select;
