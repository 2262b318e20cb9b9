//! Waiting until descriptors are ready: one file for each system call.

pub mod epoll;
pub mod poll;
pub mod runtime;
pub mod select;
