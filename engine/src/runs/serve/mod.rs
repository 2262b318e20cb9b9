//! The supervisor: starts a server, takes snapshots of it, stops it, and reports its usage after its end.
//!
//! The supervisor has one thread and forks the server into a separate process group. It reaps every process that the server
//! leaves behind, so no CPU time is lost. No process of the server outlives it: each has a parent-death signal.

pub mod cpu_time;
pub mod host;
pub mod listener;
pub mod own_counts;
mod report;
pub mod supervision;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use socket2::Socket;

use crate::base::about::Entry;
use crate::base::output::say;
use crate::base::setting::{Kind, Setting, Settings};
use crate::base::unit::{MILLISECOND, MINUTE, SECOND, Unit};
use crate::count::control_group::{CpuQuotas, CpuQuotasSince};
use crate::count::counter::{Counter, Counting, Subject};
use crate::count::process_tree::{Beginning, Tree};
use crate::count::tally::{ErrorKind, Tally};
use crate::lines::cpu_source::CpuSource;
use crate::lines::usage::Split;
use crate::lines::{Line, Ready, SCHEMA, Snapshot, Summary};
use crate::net::address::{self, Address};
use crate::net::socket_diagnosis::Ends;
use crate::protocol::workload::Workload;
use crate::runs::serve::cpu_time::CpuTime;
use crate::runs::serve::supervision::{Supervised, line};
use crate::server::design::{Design, Run};
use crate::server::idle;
use crate::server::pool::{FAILED, report};
use crate::sys::clock;
use crate::sys::descriptor;
use crate::sys::process::{self, Ended, Pid};
use crate::sys::signal::SignalDescriptor;
use crate::sys::socket;
use crate::sys::user::User;
use crate::transfer::channel::Way;
use crate::transfer::waiting;

/// Time for open connections to end after the server is stopped.
pub const DRAIN: Setting = Setting {
    name: "drain",
    help: "Time for open connections to end after the server is stopped, before it resets them",
    unit: Unit::Time { resolution: MILLISECOND },
    kind: Kind::Integer { minimum: 0, maximum: 10 * MINUTE, default: 2 * SECOND },
    for_more: None,
};

/// The server to run.
pub struct Plan {
    /// The design.
    pub design: &'static Entry<Design>,
    /// The send and the receive primitive.
    pub way: Way,
    /// The workload.
    pub workload: &'static Entry<Workload>,
    /// `HOST:PORT`; the kernel chooses the port if it is 0.
    pub listen: String,
    /// All settings.
    pub settings: Settings,
    /// CPUs to which this process and the server are pinned.
    pub cpus: Option<Vec<usize>>,
    /// User that the server runs as; `None`: this process's.
    pub user: Option<User>,
    /// A value of [`crate::runs::serve::cpu_time::CHOICES`].
    pub cpu_source: String,
    /// Requested counters.
    pub counters: Vec<&'static Entry<Counter>>,
    /// True to print lines for programs and read commands, instead of text for people.
    pub control: bool,
}

/// Serves until stopped. The exit status reports whether the server ended because of that.
pub fn serve(plan: &Plan) -> Result<ExitCode> {
    let descriptor_limit = process::raise_descriptor_limit().context("the limit on descriptors cannot be raised")?;
    let signals = SignalDescriptor::of_children_and_interrupts()?;
    process::become_subreaper()?;
    let mut supervisor = Supervisor::start(plan, descriptor_limit, &signals)?;
    let ending = supervision::watch(&mut supervisor, &signals, plan.control)?;
    let died = ending.first.filter(|ended| !ending.killed && *ended != Ended::Exited(0));
    supervisor.end()?;
    supervisor.tally_handed_over();
    let summary = supervisor.summary(died.map(|ended| ended.to_string()))?;
    supervisor.print_summary(&summary)?;
    match died {
        None => Ok(ExitCode::SUCCESS),
        // The server process has printed the reason.
        Some(Ended::Exited(FAILED)) => Ok(ExitCode::FAILURE),
        Some(ended) => bail!("the server process ended without being stopped: it {ended}"),
    }
}

struct Supervisor<'a> {
    plan: &'a Plan,
    /// Maximum open descriptors of each process of the server.
    descriptor_limit: u64,
    listeners: Vec<Socket>,
    run: &'static Run,
    tally: &'static Tally,
    server: Pid,
    cpu_time: CpuTime,
    quotas: CpuQuotasSince,
    counting: Counting,
    /// True if every process of the server was reaped, so that its process ids may be reused.
    ended: bool,
}

impl<'a> Supervisor<'a> {
    /// Opens the listener, forks the server, and starts it once its CPU time is counted.
    fn start(plan: &'a Plan, descriptor_limit: u64, signals: &SignalDescriptor) -> Result<Self> {
        let addresses = address::resolve("--listen", &plan.listen)?;
        let wanted = (plan.design.item.listeners)(&plan.settings);
        let listeners = listener::listen(&addresses, wanted, &plan.settings)?;
        listener::warn_if_reachable(&listeners[0])?;
        let duplicates: io::Result<_> = listeners.iter().map(|listener| Ok(listener.try_clone()?.into())).collect();
        let tally = Tally::new((plan.design.item.workers)(&plan.settings))?;
        let service = (plan.workload.item.service)(&plan.settings, plan.design.item.waits)?;
        service.prepare()?;
        let run: &'static Run = Box::leak(Box::new(Run {
            listeners: duplicates.context("the listeners could not be duplicated (ulimit -n)")?,
            settings: plan.settings.clone(),
            tally,
            service,
            way: plan.way,
            idle_limit: idle::limit(&plan.settings),
        }));
        let (gate, opener) = descriptor::pipe()?;
        let server = process::fork(|| {
            descriptor::close_inherited(&opener);
            descriptor::close_inherited(signals);
            listeners.iter().for_each(descriptor::close_inherited);
            report(server(plan.design.item, run, plan.user.as_ref(), gate))
        })
        .context("the server could not be forked (ulimit -u)")?;
        process::lead_group(server)?;
        let tree = Tree { root: server, from: Beginning::Now, reaped: &tally.general().reaped };
        let address = Address::of(&listeners[0].local_addr()?);
        let ends = address.and_then(|address| address.port()).map(Ends::of_server);
        let mut supervisor = Supervisor {
            plan,
            descriptor_limit,
            listeners,
            run,
            tally,
            server,
            cpu_time: CpuTime::open(&tree, &plan.cpu_source)?,
            quotas: CpuQuotas::since_now(),
            counting: Counting::begin(&plan.counters, Subject::new(tree, ends)),
            ended: false,
        };
        descriptor::write(opener.as_fd(), b"\n")?;
        supervisor.announce()?;
        Ok(supervisor)
    }

    fn announce(&mut self) -> Result<()> {
        let address = Address::of(&self.listeners[0].local_addr()?).context("the listener has no address")?;
        if !self.plan.control {
            return say(&format!("listening on {address}\n"));
        }
        line(&Line::Ready(Ready {
            schema: SCHEMA,
            address: address.to_string(),
            port: address.port(),
            supervisor_pid: Pid::this().as_raw(),
            server_pid: Some(self.server.as_raw()),
            design: Some(self.plan.design.name),
            primitive: Some(self.plan.way.out.name),
            receive: Some(self.plan.way.into.name),
            workload: Some(self.plan.workload.name),
            settings: self.plan.settings.values().clone(),
            spins: self.plan.design.item.spins || waiting::spins(&self.plan.settings),
            cpu_source: self.cpu_time.source(),
            cpu_source_reason: self.cpu_time.reason.clone(),
            socket: Some(listener::options(&self.listeners[0], &self.plan.settings)?),
            cpus: self.plan.cpus.clone(),
            descriptor_limit: self.descriptor_limit,
            counters: self.counting.reasons(),
        }))
    }

    fn listen_drops(&self) -> io::Result<u32> {
        self.listeners.iter().map(|listener| socket::listen_drops(listener.as_fd())).sum()
    }

    fn listen_queue(&self) -> io::Result<Option<u32>> {
        self.listeners.iter().map(|listener| Ok(listener::queue(listener)?.map(|(queued, _)| queued))).sum()
    }

    /// Kills the rest of the server and reaps every process, so that the CPU time is complete.
    fn end(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.ended, true) {
            process::kill_group(self.server);
            process::wait_for_all()?;
        }
        Ok(())
    }

    /// Connections that were accepted and never reached a worker.
    fn tally_handed_over(&self) {
        let left = self.tally.general().handed_over.load(Relaxed);
        self.tally.shared().errors(ErrorKind::QueuedAtStop, left);
    }

    fn summary(&mut self, died: Option<String>) -> Result<Summary> {
        let whole = process::usage_of_children()?;
        let general = self.tally.general();
        // Waits for all processes, including those whose parent died first.
        general.reaped.replace(&whole);
        let own = Split {
            user_ns: general.server_process_user.load(Relaxed),
            system_ns: general.server_process_system.load(Relaxed),
        };
        let total = Split::from(&whole);
        let known = own.user_ns + own.system_ns > 0;
        let account = self.run.service.account();
        Ok(Summary {
            cpu_ns: match self.cpu_time.source() {
                CpuSource::Cgroup => self.cpu_time.read()?.unwrap_or_default(),
                _ => total.user_ns + total.system_ns,
            },
            used: (&whole).into(),
            server_process: known.then_some(own),
            dead_children: known.then(|| Split {
                user_ns: total.user_ns.saturating_sub(own.user_ns),
                system_ns: total.system_ns.saturating_sub(own.system_ns),
            }),
            max_resident_kib: whole.max_resident_kib,
            tally: Some(self.tally.counts()),
            counts: None,
            workers: self.tally.connections_by_worker(),
            listen_drops: Some(self.listen_drops()?),
            throttled_ns: self.quotas.throttled_ns(),
            readout: self.counting.read()?,
            account: account.clone().unwrap_or_default(),
            connection: general.first_connection.options(),
            account_fault: account.err(),
            died,
        })
    }

    fn print_summary(&self, summary: &Summary) -> Result<()> {
        if self.plan.control {
            return line(&Line::Summary(Box::new(summary.clone())));
        }
        say(&report::in_words(summary, self.plan.way, &self.plan.counters, self.descriptor_limit))
    }
}

impl Supervised for Supervisor<'_> {
    fn first(&self) -> Option<Pid> {
        Some(self.server)
    }

    fn snapshot(&mut self) -> Result<Snapshot> {
        Ok(Snapshot {
            monotonic_ns: clock::now(),
            cpu_ns: self.cpu_time.read()?,
            tally: Some(self.tally.counts()),
            workers: self.tally.connections_by_worker(),
            listen_drops: Some(self.listen_drops()?),
            listen_queue: self.listen_queue()?,
            readout: self.counting.read()?,
            // Fields are evaluated in this order, so this one is read last.
            read_ns: clock::now(),
        })
    }

    /// Wakes every accept of the server for the last time, and gives open connections time to end.
    fn stop(&mut self) -> Result<Duration> {
        // Connections that wait at a Unix socket are still accepted.
        self.tally.shared().errors(ErrorKind::QueuedAtStop, self.listen_queue()?.unwrap_or(0).into());
        self.listeners.iter().try_for_each(|listener| socket::shutdown(listener.as_fd()))?;
        Ok(self.plan.settings.time(DRAIN.name))
    }

    fn kill(&mut self) {
        process::kill_group(self.server);
    }
}

impl Drop for Supervisor<'_> {
    /// After any failure, no process of the server may outlive its supervisor, and its control group must be removable.
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Runs the server's first process.
fn server(design: &Design, run: &'static Run, user: Option<&User>, gate: OwnedFd) -> Result<()> {
    if descriptor::read(gate.as_fd(), &mut [0])? == 0 {
        // The supervisor has given up, and prints the reason.
        return Ok(());
    }
    drop(gate);
    if let Some(user) = user {
        user.assume().context("the server cannot run as another user")?;
    }
    process::count_reaped(&run.tally.general().reaped);
    let result = (design.serve)(run);
    let usage = Split::from(&process::usage_of_self()?);
    run.tally.general().server_process_user.store(usage.user_ns, Relaxed);
    run.tally.general().server_process_system.store(usage.system_ns, Relaxed);
    result
}
