//! Addresses, TCP, Unix sockets, namespaces.

mod closings;
mod congestion;
mod namespaces;
mod reach;
mod unix_sockets;
