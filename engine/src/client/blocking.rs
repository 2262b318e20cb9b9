//! A client that blocks in its calls, in a separate process or thread.

use anyhow::{Context, Result};

use crate::client::connect::connect;
use crate::client::edges::sleep_until;
use crate::client::exchange::{Caller, Failure};
use crate::client::measure::Measure;
use crate::client::state::{ClientState, pause};
use crate::count::tally::ErrorKind;
use crate::sys::clock::now;
use crate::transfer::channel::Openers;

/// A client that blocks in its calls, in a separate process or thread.
pub struct BlockingClient<'run> {
    state: ClientState<'run>,
    keeps: bool,
    openers: Openers,
    caller: Option<Caller<'run>>,
    measure: Option<Measure<'run>>,
}

impl<'run> BlockingClient<'run> {
    /// Makes a client; call it where the client runs. `keep` means a persistent connection. Measures, or only counts and notes its
    /// times to connect in [`LoadRun::connecting`](crate::client::load::LoadRun::connecting).
    pub fn new(state: ClientState<'run>, keeps: bool, measure: Option<Measure<'run>>) -> Result<Self> {
        let prepared = state.run.way.prepare(&state.run.settings);
        let openers = prepared
            .inspect_err(|error| state.slot.error(ErrorKind::of(error)))
            .context("cannot prepare the primitives")?;
        Ok(BlockingClient { state, keeps, openers, caller: None, measure })
    }

    /// Opens the persistent connection, before the first request.
    pub fn connect(&mut self) {
        match self.connected() {
            Ok(mut caller) => {
                caller.stand_by();
                self.caller = Some(caller);
            }
            Err(failure) => self.state.failed(&failure),
        }
    }

    /// Sends requests until the end, then adds the measurements to the sums of the load.
    pub fn take_turns(mut self) {
        let (run, pause) = (self.state.run, pause(self.state.run));
        let mut at = now();
        while self.state.goes_on(at) {
            if let Err(failure) = self.turn(&mut at) {
                self.state.failed(&failure);
                let rest = self.state.rest();
                if rest > 0 {
                    sleep_until(now() + rest, || self.state.goes_on(now()));
                }
                at = now();
            }
            if pause > 0 {
                sleep_until(at + pause, || self.state.goes_on(now()));
                at = now();
            }
        }
        if let Some(caller) = self.caller {
            caller.finish(run.target.patience);
        }
        if let Some(measure) = &self.measure {
            run.measured().add(measure);
        }
    }

    /// Makes one request; sets the time to that of its reply.
    fn turn(&mut self, at: &mut u64) -> Result<(), Failure> {
        let kept = self.caller.take().and_then(|caller| self.still_open(caller));
        let mut caller = match kept {
            Some(caller) => caller,
            None => self.connected()?,
        };
        let sent = now();
        let mut result = caller.exchange();
        if let Err(failure) = &result
            && caller.may_repeat(failure)
        {
            self.state.repeats(1);
            caller.finish(self.state.run.target.patience);
            caller = self.connected()?;
            result = caller.exchange();
        }
        *at = now();
        if result.is_ok() {
            self.state.answered(&mut caller, sent, *at);
            if let Some(measure) = &mut self.measure {
                let status = caller.status();
                measure.answered(status, sent, *at);
                if let Some(kind) = caller.kind().filter(|_| status.is_none_or(|status| !status.is_error)) {
                    measure.answered_of_kind(kind, sent, *at);
                }
            }
        }
        match result {
            Ok(true) if self.keeps => self.caller = Some(caller),
            _ => caller.finish(self.state.run.target.patience),
        }
        result.map(drop)
    }

    /// Returns the persistent connection, unless the server has closed it while the client paused.
    fn still_open(&self, caller: Caller<'run>) -> Option<Caller<'run>> {
        let run = self.state.run;
        if pause(run) == 0 || !run.client.reconnects() || !caller.is_closed() {
            return Some(caller);
        }
        self.state.found_closed();
        caller.finish(run.target.patience);
        None
    }

    fn connected(&mut self) -> Result<Caller<'run>, Failure> {
        let (run, begun) = (self.state.run, now());
        let socket = connect(&run.target, self.state.number())?;
        let at = now();
        if let Some(measure) = &mut self.measure {
            measure.connected(begun, at);
        }
        if let Some(connecting) = &run.connecting {
            connecting.record(at - begun);
        }
        self.state.caller(socket, &mut self.openers)
    }
}
