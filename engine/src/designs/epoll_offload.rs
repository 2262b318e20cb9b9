//! An event loop receives and sends for all connections; a thread pool runs the computing part of requests.
//!
//! Node and Netty do this so that a slow request does not delay the others. A connection moves to the pool with its job
//! and is not watched meanwhile. Its next request is read after this one has been answered, so replies keep their
//! order. The loop itself answers requests without a computing part.

use std::collections::VecDeque;
use std::mem::take;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use rustc_hash::FxHashMap;

use crate::base::about::About;
use crate::base::feature::{EPOLL, EVENTFD, THREADS};
use crate::protocol::workload::Job;
use crate::server::connection::{Connection, Progress};
use crate::server::design::{Accepted, COMMON, Design, POOL, Run, Worker};
use crate::server::pool::threads;
use crate::server::shares::Shares;
use crate::sys::descriptor::{EventDescriptor, PollFlags, set_nonblocking};
use crate::sys::readiness::epoll::{self, Epoll, EpollFlags};
use crate::transfer::primitive::Waits;

pub static ENTRY: Design = Design {
    about: About {
        summary: "An epoll event loop, and a thread pool for computation",
        source: "libuv design overview (Node's thread pool); Netty 4.1, EventExecutorGroup; epoll(7)",
    },
    waits: Waits::ForReadiness,
    shares: Shares::Queue,
    settings: &[POOL],
    serve,
    rests_on: &[&THREADS, &EPOLL, &EVENTFD],
    ..COMMON
};

fn serve(run: &'static Run) -> Result<()> {
    let jobs = Jobs::default();
    let done = Done { connections: Mutex::default(), event: EventDescriptor::new()? };
    let compute = |_| {
        while let Some((mut connection, job)) = jobs.get() {
            connection.work(job);
            done.put(connection);
        }
        Ok(())
    };
    threads(run, compute, || {
        event_loop(run, &jobs, &done)?;
        jobs.close();
        Ok(())
    })
}

fn event_loop(run: &'static Run, jobs: &Jobs, done: &Done) -> Result<()> {
    let mut worker = run.worker()?;
    set_nonblocking(worker.listener())?;
    let mut here = Here { epoll: Epoll::create()?, connections: FxHashMap::default(), away: 0 };
    here.epoll.add(worker.listener(), EpollFlags::EPOLLIN)?;
    here.epoll.add(&done.event, EpollFlags::EPOLLIN)?;
    let mut events = epoll::no_events();
    let mut accepting = true;
    while accepting || here.away > 0 || !here.connections.is_empty() {
        for (descriptor, ready) in here.epoll.wait(&mut events, true)? {
            if descriptor == worker.listener().as_raw_fd() {
                match worker.try_accept(libc::SOCK_NONBLOCK) {
                    Accepted::Connection(socket) => {
                        if let Some(connection) = worker.open(socket) {
                            here.watch(&worker, connection, PollFlags::empty(), PollFlags::POLLIN)?;
                        }
                    }
                    Accepted::Nothing => worker.woke_for_nothing(),
                    Accepted::Refused => {}
                    Accepted::ShutDown => {
                        here.epoll.delete(worker.listener())?;
                        accepting = false;
                    }
                }
            } else if descriptor == done.event.as_fd().as_raw_fd() {
                for connection in done.take() {
                    here.away -= 1;
                    here.turn(&worker, connection, PollFlags::empty(), PollFlags::empty(), jobs)?;
                }
            } else if let Some((connection, watched)) = here.connections.remove(&descriptor) {
                here.turn(&worker, connection, watched, ready, jobs)?;
            }
        }
    }
    Ok(())
}

/// State of the event loop.
struct Here {
    epoll: Epoll,
    /// Watched connections, and the events they are watched for.
    connections: FxHashMap<RawFd, (Connection, PollFlags)>,
    /// Number of connections that are away with a job.
    away: usize,
}

impl Here {
    fn turn(
        &mut self,
        worker: &Worker,
        mut connection: Connection,
        watched: PollFlags,
        ready: PollFlags,
        jobs: &Jobs,
    ) -> Result<()> {
        match connection.turn_without_work(ready) {
            Progress::Blocked(flags) | Progress::Yields(flags) => self.watch(worker, connection, watched, flags)?,
            Progress::Work(job) => {
                // Watching for no events is not enough: epoll still reports errors, again and again.
                if !watched.is_empty() {
                    self.epoll.delete(connection.socket())?;
                }
                self.away += 1;
                jobs.put(connection, job);
            }
            Progress::Closed => connection.finish(),
        }
        Ok(())
    }

    fn watch(&mut self, worker: &Worker, connection: Connection, watched: PollFlags, flags: PollFlags) -> Result<()> {
        if watched.is_empty() {
            if let Err(error) = self.epoll.add(connection.socket(), epoll::flags(flags)) {
                worker.refused(&error);
                connection.finish();
                return Ok(());
            }
        } else if watched != flags {
            self.epoll.modify(connection.socket(), epoll::flags(flags))?;
        }
        self.connections.insert(connection.socket().as_raw_fd(), (connection, flags));
        Ok(())
    }
}

/// Connections with jobs that wait for a thread: at most one job per connection.
#[derive(Default)]
struct Jobs {
    waiting: Mutex<Waiting>,
    not_empty: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<(Connection, Job)>,
    closed: bool,
}

impl Jobs {
    fn put(&self, connection: Connection, job: Job) {
        self.lock().jobs.push_back((connection, job));
        self.not_empty.notify_one();
    }

    /// Returns the oldest job; `None` once the queue is closed and empty.
    fn get(&self) -> Option<(Connection, Job)> {
        let empty = |waiting: &mut Waiting| waiting.jobs.is_empty() && !waiting.closed;
        let mut waiting = self.not_empty.wait_while(self.lock(), empty).unwrap_or_else(PoisonError::into_inner);
        waiting.jobs.pop_front()
    }

    fn close(&self) {
        self.lock().closed = true;
        self.not_empty.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connections whose jobs are done, on their way back to the event loop.
struct Done {
    connections: Mutex<Vec<Connection>>,
    event: EventDescriptor,
}

impl Done {
    fn put(&self, connection: Connection) {
        self.lock().push(connection);
        self.event.notify();
    }

    /// Takes all connections that have come back. A connection added after the first line makes the event readable
    /// again.
    fn take(&self) -> Vec<Connection> {
        self.event.clear();
        take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::os::fd::OwnedFd;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
    use std::thread::JoinHandle;
    use std::time::Duration;

    use super::*;
    use crate::base::setting::{Settings, Value};
    use crate::count::tally::{ErrorKind, Tally};
    use crate::protocol::workload::{Input, Next, Service, Session, Then};
    use crate::registry::catalogue;
    use crate::sys::socket;
    use crate::transfer::outbox::{Outbox, Piece};
    use crate::transfer::primitive::Want;

    /// A request is one byte, and so is its reply: `p` panics in its job, `w` waits in its job until released, a digit
    /// computes for that many milliseconds, and any other byte needs no computing.
    #[derive(Clone, Default)]
    struct Bytewise(Arc<(Mutex<bool>, Condvar)>);

    impl Bytewise {
        fn let_go(&self) {
            *self.0.0.lock().unwrap() = true;
            self.0.1.notify_all();
        }
    }

    impl Service for Bytewise {
        fn open(&self) -> Box<dyn Session> {
            Box::new(self.clone())
        }
    }

    impl Session for Bytewise {
        fn first(&self) -> Want {
            Want::AtMost(100)
        }

        fn receive(&mut self, input: &mut Input<'_>, outbox: &mut Outbox) -> std::result::Result<Next, ErrorKind> {
            let Some(&byte) = input.bytes().first() else { return Ok(Next::Close) };
            input.take(1);
            let then = Then::Receive(self.first());
            if !matches!(byte, b'p' | b'w' | b'0'..=b'9') {
                answer(byte, outbox);
                return Ok(Next::Answered(then));
            }
            let gate = Arc::clone(&self.0);
            let job = move |outbox: &mut Outbox| {
                match byte {
                    b'p' => panic!("as requested"),
                    b'w' => drop(gate.1.wait_while(gate.0.lock().unwrap(), |open| !*open).unwrap()),
                    figure => std::thread::sleep(Duration::from_millis(u64::from(figure - b'0'))),
                }
                answer(byte, outbox);
                Ok(())
            };
            Ok(Next::Work(Box::new(job), then))
        }
    }

    fn answer(byte: u8, outbox: &mut Outbox) {
        outbox.push(Piece::Bytes(Arc::from([byte]), 0..1));
        outbox.end_message();
    }

    /// A server within this process, and the thread of its event loop.
    struct Server {
        run: &'static Run,
        address: SocketAddr,
        life: JoinHandle<Result<()>>,
        event_loop: Arc<AtomicI32>,
    }

    fn start(pool: u64, service: &Bytewise) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let run: &'static Run = Box::leak(Box::new(Run {
            listeners: vec![OwnedFd::from(listener)],
            settings: Settings::new([&POOL], &BTreeMap::from([(POOL.name, Value::Integer(pool))])),
            tally: Tally::new(0).unwrap(),
            service: Box::new(service.clone()),
            way: catalogue::way("send_each", "recv"),
            idle_limit: None,
        }));
        let event_loop = Arc::new(AtomicI32::new(0));
        let thread = Arc::clone(&event_loop);
        let life = std::thread::spawn(move || {
            thread.store(nix::unistd::gettid().as_raw(), SeqCst);
            serve(run)
        });
        Server { run, address, life, event_loop }
    }

    impl Server {
        fn connect(&self) -> TcpStream {
            let client = TcpStream::connect(self.address).unwrap();
            client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            client
        }

        fn stop(self) -> BTreeMap<&'static str, u64> {
            socket::shutdown(self.run.listener().as_fd()).unwrap();
            self.life.join().unwrap().unwrap();
            let counts = self.run.tally.counts();
            assert_eq!(counts.connections, counts.closed);
            counts.errors
        }
    }

    fn asks(client: &mut TcpStream, requests: &[u8]) {
        client.write_all(requests).unwrap();
        let mut replies = vec![0; requests.len()];
        client.read_exact(&mut replies).unwrap();
        assert_eq!(replies, requests);
    }

    #[test]
    fn replies_keep_the_order_of_requests_however_long_each_takes() {
        let server = start(4, &Bytewise::default());
        let mut clients = [server.connect(), server.connect()];
        for _ in 0..5 {
            clients.iter_mut().for_each(|client| asks(client, b"9a05bc1d7"));
        }
        drop(clients);
        assert_eq!(server.stop(), BTreeMap::new());
    }

    #[test]
    fn a_job_that_panics_costs_its_connection_and_nothing_else() {
        let server = start(1, &Bytewise::default());
        let mut bystander = server.connect();
        for _ in 0..3 {
            let mut culprit = server.connect();
            culprit.write_all(b"a1p1").unwrap();
            let mut replies = Vec::new();
            // Closing with unread data sends a reset.
            let _ = culprit.read_to_end(&mut replies);
            assert!(b"a1".starts_with(&replies), "{replies:?}");
            asks(&mut bystander, b"1");
        }
        drop(bystander);
        assert_eq!(server.stop(), BTreeMap::from([("fault", 3)]));
    }

    #[test]
    fn a_job_that_takes_long_makes_nobody_wait_who_needs_none() {
        let service = Bytewise::default();
        let server = start(1, &service);
        let mut slow = server.connect();
        slow.write_all(b"w").unwrap();
        let mut others: Vec<TcpStream> = (0..10).map(|_| server.connect()).collect();
        others.iter_mut().for_each(|other| asks(other, b"abc"));
        service.let_go();
        slow.read_exact(&mut [0]).unwrap();
        drop((slow, others));
        assert_eq!(server.stop(), BTreeMap::new());
    }

    /// epoll reports errors whatever a descriptor is watched for; a loop that still watched it would busy-poll.
    #[test]
    fn the_loop_sleeps_while_the_connection_of_a_job_is_reset() {
        let service = Bytewise::default();
        let server = start(1, &service);
        let mut lost = server.connect();
        asks(&mut lost, b"a");
        lost.write_all(b"w and more that nobody takes").unwrap();
        asks(&mut server.connect(), b"a");
        socket2::SockRef::from(&lost).set_linger(Some(Duration::ZERO)).unwrap();
        drop(lost);
        let path = format!("/proc/self/task/{}/stat", server.event_loop.load(SeqCst));
        let sleeps = || std::fs::read_to_string(&path).unwrap().rsplit(')').next().unwrap().starts_with(" S");
        let mut in_a_row = 0;
        for _ in 0..2000 {
            std::thread::sleep(Duration::from_millis(2));
            in_a_row = if sleeps() { in_a_row + 1 } else { 0 };
            if in_a_row == 20 {
                break;
            }
        }
        assert_eq!(in_a_row, 20, "the event loop never sleeps");
        service.let_go();
        let errors = server.stop();
        assert_eq!(errors.values().sum::<u64>(), 1, "{errors:?}");
    }
}
