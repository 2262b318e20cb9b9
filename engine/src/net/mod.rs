//! Addresses, TCP options, closing of connections, and netlink.

pub mod address;
pub mod closings;
pub mod netlink;
pub mod qdisc;
pub mod socket_diagnosis;
pub mod source_addresses;
pub mod target;
pub mod tcp;
pub mod veth;
