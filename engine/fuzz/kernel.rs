//! What the kernel hands over. Its tables have names that other programs choose, and its records are of many versions.

use thunderherd_engine::base::proc_file;
use thunderherd_engine::conform::values;
use thunderherd_engine::count::control_group::{self, Hierarchy};
use thunderherd_engine::count::{command_tree, pmu};
use thunderherd_engine::net::netlink;
use thunderherd_engine::net::socket_diagnosis::{self, TcpInfo};
use thunderherd_engine::net::veth::{self, Interface};
use thunderherd_engine::stacks::address_space::{AddressSpaces, Place};
use thunderherd_engine::stacks::perf_record::{self, Seen};
use thunderherd_engine::stacks::sampling;
use thunderherd_engine::sys::user::User;
use thunderherd_engine::sys::zero_copy;
use thunderherd_engine::workloads::top_processes::processes;

use super::number;

/// One of the forms, by the first byte.
pub fn kernel(mut data: &[u8]) {
    let forms = [completions, records, interfaces, sockets, tables];
    forms[number(&mut data) % forms.len()](data);
}

/// Control messages of a socket's error queue.
fn completions(data: &[u8]) {
    if zero_copy::completion_in(data).is_some() {
        assert!(data.len() >= 32, "a head and an error");
    }
}

/// Records of samples: each after its kind, the upper byte of its flags, and its length in words.
fn records(mut data: &[u8]) {
    let layout = perf_record::layout();
    // The tree of process 1.
    let mut spaces = AddressSpaces::of_tree(1);
    while !data.is_empty() {
        let (kind, flags) = (number(&mut data) as u32, number(&mut data) << 8);
        let length = (8 * number(&mut data)).min(data.len());
        let (record, rest) = data.split_at(length);
        data = rest;
        let Ok(Seen::Moment(moment)) = perf_record::read(kind, flags as u16, record, layout.clone()) else { continue };
        let Some(sample) = spaces.see(moment) else { continue };
        let files = spaces.files().len();
        assert!(sample.stack.len() <= record.len() / 8);
        let is_known = |place: &Place| !matches!(place, Place::File(file, _) if *file as usize >= files);
        assert!(sample.stack.iter().all(is_known));
    }
}

/// The question to which netlink answers.
const QUESTION: u32 = 1;

/// Answers of netlink: interfaces and addresses.
fn interfaces(data: &[u8]) {
    let mut answers = Vec::new();
    let _ = netlink::read(data, QUESTION, &mut answers);
    for answer in answers {
        veth::own_address(&answer);
        Interface::of(answer);
    }
}

/// Answers of netlink: sockets and the state of their connections.
fn sockets(data: &[u8]) {
    let mut answers = Vec::new();
    let _ = netlink::read(data, QUESTION, &mut answers);
    for socket in answers.into_iter().filter_map(socket_diagnosis::socket) {
        TcpInfo::of_socket(&socket);
    }
}

/// Tables of /proc and sysfs, and that of the users.
fn tables(data: &[u8]) {
    let mounts = proc_file::mounts_in(data);
    assert!(mounts.iter().all(|mount| mount.point.as_os_str().len() <= data.len()));
    for hierarchy in [Hierarchy::Unified, Hierarchy::Controller("cpu")] {
        control_group::path_in(data, hierarchy);
    }
    for name in ["nobody", "0"] {
        User::listed(data, name);
    }
    if let Some(process) = processes::parse(data) {
        assert!(process.total() >= process.user.max(process.kernel));
    }
    values::ticks_in(data);
    let text = String::from_utf8_lossy(data);
    command_tree::ticks_of_children(&text);
    sampling::cpus_of(&text);
    if let Ok((word, bits)) = pmu::places(&text) {
        assert!(word < 3 && bits.len() <= 64);
    }
}
