//! The runtime of most Rust servers: one task per connection, readiness from one epoll instance.
//!
//! The runtime is created after the fork. Tasks move between its threads, so nothing is counted by worker.

use std::io;
use std::os::fd::AsFd;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::task::{coop, spawn_blocking, yield_now};
use tokio::time::sleep;

use crate::base::about::About;
use crate::base::feature::{EPOLL, EVENTFD, THREADS};
use crate::base::setting::{Kind, Setting, Settings};
use crate::base::unit::Unit;
use crate::count::tally::ErrorKind;
use crate::protocol::workload::Job;
use crate::server::connection::{Connection, Progress, Turn};
use crate::server::design::{COMMON, Design, Run, no_pool};
use crate::server::pool::report;
use crate::server::shares::Shares;
use crate::sys::descriptor::{PollFlags, set_nonblocking};
use crate::sys::readiness::runtime::register;
use crate::sys::{process, socket};
use crate::transfer::outbox::Outbox;
use crate::transfer::primitive::Waits;

pub static ENTRY: Design = Design {
    about: About { summary: "One task per connection on the tokio runtime", source: "docs.rs/tokio; epoll(7)" },
    waits: Waits::ForReadiness,
    shares: Shares::Turns { accepts: None },
    settings: &[RUNTIME, WORKER_THREADS, WORK],
    workers: no_pool,
    serve,
    rests_on: &[&THREADS, &EPOLL, &EVENTFD],
    ..COMMON
};

const RUNTIME: Setting = Setting {
    name: "runtime",
    help: "The scheduler: a single thread for everything, or several threads that steal tasks from each other",
    unit: Unit::None,
    kind: Kind::Choice { choices: &["current_thread", "multi_thread"], default: "current_thread" },
    for_more: None,
};

const WORKER_THREADS: Setting = Setting {
    name: "worker_threads",
    help: "Threads of the multi_thread scheduler; 0: one per available CPU",
    unit: Unit::Of("threads"),
    kind: Kind::Integer { minimum: 0, maximum: 4096, default: 0 },
    for_more: None,
};

const WORK: Setting = Setting {
    name: "work",
    help: "Where the computing part of a request runs: in its task, or on the runtime's pool for blocking work",
    unit: Unit::None,
    kind: Kind::Choice { choices: &["in_place", "blocking_pool"], default: "in_place" },
    for_more: None,
};

fn serve(run: &'static Run) -> Result<()> {
    runtime(&run.settings)?.block_on(accept_all(run))
}

fn runtime(settings: &Settings) -> Result<Runtime> {
    let advice = "cannot create the runtime (lower --worker-threads, or raise ulimit -u or ulimit -n)";
    if settings.word(RUNTIME.name) == "current_thread" {
        return Builder::new_current_thread().enable_all().build().context(advice);
    }
    let threads = match settings.integer(WORKER_THREADS.name) as usize {
        0 => thread::available_parallelism()?.get(),
        threads => threads,
    };
    can_be_made(threads).context(advice)?;
    let runtime = or_leave(advice, || Builder::new_multi_thread().worker_threads(threads).enable_all().build())?;
    // Without its last threads, a runtime serves with those that it has, and hangs when it is dropped.
    if process::threads()? <= threads {
        process::leave(report(Err(anyhow!("{advice}: a thread could not be made"))));
    }
    Ok(runtime)
}

/// Builds a runtime. If its first thread cannot be made, it panics and hangs; then this process ends with the reason.
fn or_leave(advice: &'static str, build: impl FnOnce() -> io::Result<Runtime>) -> Result<Runtime> {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let reason = panic.payload().downcast_ref::<String>().map_or("it panicked", String::as_str);
        process::leave(report(Err(anyhow!("{advice}: {reason}"))));
    }));
    let built = build();
    panic::set_hook(usual);
    built.context(advice)
}

/// Checks that this many threads can be created, by creating them: a runtime that fails to create its threads hangs
/// when it is dropped.
fn can_be_made(threads: usize) -> io::Result<()> {
    let gate = Mutex::new(());
    thread::scope(|scope| {
        let _closed = gate.lock();
        for _ in 0..threads {
            thread::Builder::new().spawn_scoped(scope, || drop(gate.lock()))?;
        }
        io::Result::Ok(())
    })?;
    // A joined thread counts against the limit until the kernel has released it.
    while process::threads()? > 1 {
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Accepts until the listener is shut down, then waits until all connections have ended.
async fn accept_all(run: &'static Run) -> Result<()> {
    let (acceptor, mut worker) = (run.acceptor(), run.worker()?);
    set_nonblocking(run.listener().as_fd())?;
    let listener = register(run.listener().as_fd()).map_err(|(_, error)| error)?;
    // Every task holds a sender; once all are dropped, the channel is closed.
    let (alive, mut over) = mpsc::channel::<()>(1);
    loop {
        let mut ready = listener.readable().await?;
        match socket::accept(run.listener().as_fd(), libc::SOCK_NONBLOCK) {
            Ok(socket) => {
                if let Some(connection) = worker.open(socket) {
                    tokio::spawn(serve_connection(run, connection, alive.clone()));
                }
            }
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN) => ready.clear_ready(),
                Some(libc::EINVAL) => break,
                _ => {
                    if let Some(pause) = acceptor.tally_refusal(&error) {
                        sleep(pause).await;
                    }
                }
            },
        }
        coop::consume_budget().await;
    }
    drop(alive);
    over.recv().await;
    Ok(())
}

async fn serve_connection(run: &'static Run, connection: Connection, _alive: mpsc::Sender<()>) {
    let in_place = run.settings.word(WORK.name) == "in_place";
    let mut connection = match register(connection) {
        Ok(connection) => connection,
        Err((connection, error)) => {
            run.tally.shared().error(ErrorKind::of(&error));
            return connection.finish();
        }
    };
    let mut waits_for = PollFlags::POLLIN;
    loop {
        let ready = match waits_for {
            PollFlags::POLLIN => connection.readable_mut().await,
            _ => connection.writable_mut().await,
        };
        // The runtime is shutting down.
        let Ok(mut ready) = ready else { break };
        let connection = ready.get_inner_mut();
        let turn = if in_place { connection.turn(PollFlags::POLLERR) } else { turn(run, connection).await };
        match turn {
            Turn::Blocked(flags) => {
                // Clear readiness only after the socket would block: the kernel reports it only once.
                if flags == waits_for {
                    ready.clear_ready();
                }
                waits_for = flags;
            }
            Turn::Yields(flags) => {
                waits_for = flags;
                yield_now().await;
            }
            Turn::Over => break,
        }
        coop::consume_budget().await;
    }
    connection.into_inner().finish();
}

/// As [`Connection::turn`], with the computing done on the pool for blocking work.
async fn turn(run: &Run, connection: &mut Connection) -> Turn {
    loop {
        let answered = match connection.turn_without_work(PollFlags::POLLERR) {
            Progress::Blocked(flags) => return Turn::Blocked(flags),
            Progress::Yields(flags) => return Turn::Yields(flags),
            Progress::Closed => return Turn::Over,
            Progress::Work(job) => compute(job).await,
        };
        match answered {
            Ok((answer, result)) => connection.work(Box::new(move |outbox| {
                outbox.append(answer);
                result
            })),
            Err(kind) => {
                run.tally.shared().error(kind);
                return Turn::Over;
            }
        }
    }
}

/// Runs a job on the pool for blocking work; returns its reply and its result, or an error if it did not run.
async fn compute(job: Job) -> Result<(Outbox, Result<(), ErrorKind>), ErrorKind> {
    let answer = move || {
        let mut answer = Outbox::default();
        let result = job(&mut answer);
        (answer, result)
    };
    // It panics if it has no thread and cannot create one.
    let task = catch_unwind(AssertUnwindSafe(|| spawn_blocking(answer))).map_err(|_panic| ErrorKind::ResourceLimit)?;
    task.await.map_err(|_panic| ErrorKind::Fault)
}
