//! Event loops of a page: the workload `bytes` with no more than the protocol, a loop, and the calls.
//!
//! `layers serve LOOP ADDRESS` runs one until it is killed. A request is one segment and a reply is taken at once, as small
//! ones are; anything else ends the program.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Result, bail, ensure};
use io_uring::types::{BufRingEntry, Fd};
use io_uring::{IoUring, cqueue, opcode, squeue};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use thunderherd_engine::protocol::pattern::pattern;

/// Longest reply.
const LARGEST: u64 = 16384;

/// Highest descriptor of a connection.
const DESCRIPTORS: usize = 4096;

/// Serves at a listener until it is killed.
type Loop = fn(TcpListener) -> Result<()>;

/// The loops by name.
const LOOPS: &[(&str, Loop)] = &[("epoll", epoll), ("io_uring", io_uring)];

/// Runs a loop of [`LOOPS`] at an address.
pub fn serve(name: &str, address: &str) -> Result<()> {
    let (_, serve) = LOOPS.iter().find(|(known, _)| *known == name).with_context(|| format!("no loop {name:?}"))?;
    serve(TcpListener::bind(address).with_context(|| format!("listening at {address}"))?)
}

/// Returns the number in a request, the length of its reply.
fn requested(request: &[u8]) -> Result<usize> {
    let line = request.strip_suffix(b"\n").context("a request was cut, which this benchmark does not support")?;
    let length = std::str::from_utf8(line)?.parse()?;
    ensure!(length as u64 <= LARGEST, "at most {LARGEST} bytes can be requested");
    Ok(length)
}

fn epoll(listener: TcpListener) -> Result<()> {
    let payload = pattern(LARGEST);
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    listener.set_nonblocking(true)?;
    epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, listener.as_raw_fd() as u64))?;
    let mut events = [EpollEvent::empty(); 512];
    let mut request = [0; 64];
    let mut streams: Vec<Option<TcpStream>> = (0..DESCRIPTORS).map(|_| None).collect();
    loop {
        let ready = epoll.wait(&mut events, EpollTimeout::NONE)?;
        for event in &events[..ready] {
            let descriptor = event.data() as usize;
            if descriptor == listener.as_raw_fd() as usize {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                epoll.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, stream.as_raw_fd() as u64))?;
                let place = stream.as_raw_fd() as usize;
                streams[place] = Some(stream);
                continue;
            }
            let stream = streams[descriptor].as_mut().expect("it is watched");
            match stream.read(&mut request) {
                Ok(0) => streams[descriptor] = None,
                Ok(bytes) => {
                    let length = requested(&request[..bytes])?;
                    ensure!(stream.write(&payload[..length])? == length, "a reply was cut");
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

const ACCEPT: u64 = 0;
const RECEIVE: u64 = 1;
const SEND: u64 = 2;

/// Receive buffers: number, a power of two, and size of each.
const BUFFERS: u16 = 1024;
const BUFFER: usize = 4096;

fn io_uring(listener: TcpListener) -> Result<()> {
    let payload = pattern(LARGEST);
    let mut ring: IoUring =
        IoUring::builder().setup_cqsize(4096).setup_single_issuer().setup_defer_taskrun().build(1024)?;
    let mut buffers = Buffers::new()?;
    // SAFETY: the entries are page-aligned and are never freed.
    unsafe { ring.submitter().register_buf_ring_with_flags(buffers.entries as u64, BUFFERS, 0, 0) }?;
    let tag = |kind: u64, descriptor: RawFd| kind << 32 | descriptor as u64;
    let receive = |descriptor| opcode::RecvMulti::new(Fd(descriptor), 0).build().user_data(tag(RECEIVE, descriptor));
    let accept = opcode::AcceptMulti::new(Fd(listener.as_raw_fd())).build();
    push(&mut ring, &accept.user_data(tag(ACCEPT, listener.as_raw_fd())))?;
    let mut sockets: BTreeMap<RawFd, OwnedFd> = BTreeMap::new();
    loop {
        ring.submit_and_wait(1)?;
        loop {
            let Some(entry) = ring.completion().next() else { break };
            let (kind, descriptor) = (entry.user_data() >> 32, entry.user_data() as u32 as RawFd);
            let result = entry.result();
            match kind {
                ACCEPT => {
                    ensure!(result >= 0 && cqueue::more(entry.flags()), "accept failed: {result}");
                    // SAFETY: the kernel has just made this descriptor for us.
                    let socket = unsafe { OwnedFd::from_raw_fd(result) };
                    nix::sys::socket::setsockopt(&socket.as_fd(), nix::sys::socket::sockopt::TcpNoDelay, &true)?;
                    push(&mut ring, &receive(result))?;
                    sockets.insert(result, socket);
                }
                RECEIVE if result > 0 => {
                    ensure!(cqueue::more(entry.flags()), "all receive buffers were taken");
                    let id = cqueue::buffer_select(entry.flags()).context("a receive has a buffer")?;
                    let length = requested(buffers.bytes(id, result as usize))?;
                    buffers.provide(id);
                    let send = opcode::Send::new(Fd(descriptor), payload.as_ptr(), length as u32).build();
                    push(&mut ring, &send.user_data(tag(SEND, descriptor)))?;
                }
                RECEIVE => drop(sockets.remove(&descriptor)),
                _ => ensure!(result > 0, "a send failed: {result}"),
            }
        }
    }
}

fn push(ring: &mut IoUring, entry: &squeue::Entry) -> Result<()> {
    // SAFETY: operations point to the payload, which lives as long as the loop.
    if unsafe { ring.submission().push(entry) }.is_err() {
        bail!("more operations are pending than the ring has places");
    }
    Ok(())
}

/// Receive buffers, and the ring that gives the kernel the free ones. Never freed.
struct Buffers {
    entries: *mut BufRingEntry,
    memory: *mut u8,
    tail: u16,
}

impl Buffers {
    fn new() -> Result<Self> {
        let entries = usize::from(BUFFERS) * size_of::<BufRingEntry>();
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new anonymous mapping aliases nothing.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), entries + usize::from(BUFFERS) * BUFFER, protection, flags, -1, 0)
        };
        ensure!(start != libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
        // SAFETY: the buffers lie in the mapping, behind the entries.
        let memory = unsafe { start.cast::<u8>().add(entries) };
        let mut buffers = Buffers { entries: start.cast(), memory, tail: 0 };
        (0..BUFFERS).for_each(|id| buffers.provide(id));
        Ok(buffers)
    }

    fn bytes(&self, id: u16, length: usize) -> &[u8] {
        // SAFETY: the kernel has written that many bytes, and has not been given the buffer again.
        unsafe { std::slice::from_raw_parts(self.memory.add(usize::from(id) * BUFFER), length.min(BUFFER)) }
    }

    fn provide(&mut self, id: u16) {
        // SAFETY: the place lies in the ring and is free. The Release store makes the kernel see the entry before the tail.
        unsafe {
            let entry = &mut *self.entries.add(usize::from(self.tail % BUFFERS));
            entry.set_addr(self.memory.add(usize::from(id) * BUFFER) as u64);
            entry.set_len(BUFFER as u32);
            entry.set_bid(id);
            self.tail = self.tail.wrapping_add(1);
            (*BufRingEntry::tail(self.entries).cast::<AtomicU16>()).store(self.tail, Ordering::Release);
        }
    }
}
