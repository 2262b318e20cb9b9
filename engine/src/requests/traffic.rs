//! What the requests of a load were that are not all alike.

use std::sync::Arc;

use anyhow::{Context, Result};
use schemars::JsonSchema;
use serde::Serialize;

use crate::base::setting::{NONE, Setting, Settings};
use crate::requests::numbering::{Draw, Numbering};
use crate::requests::sizes::{SIZES, Sizes, SizesSent};

/// What a load's requests were.
#[derive(Debug, Clone)]
pub struct Traffic {
    /// What they followed from.
    pub seed: u64,
    /// Requests that were made, in the window or not; `None` where all are alike, and none was counted for its own sake.
    pub requests: Option<u64>,
    /// Their sizes, where a distribution was asked for.
    pub sizes: Option<SizesSent>,
    /// Their kinds, where a mix was asked for.
    pub kinds: Vec<KindSent>,
}

/// A kind of request in a mix.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct KindSent {
    /// As it was typed, without its weight.
    pub request: String,
    /// Its weight among all.
    pub weight: u64,
    /// Requests of it that count: their reply came within the window, and was right.
    pub requests: u64,
}

/// The sizes of a load's requests, one after another, whichever client makes them.
#[derive(Clone)]
pub struct SizesInTurn {
    sizes: Arc<Sizes>,
    numbering: Numbering,
    is_asked_for: bool,
}

impl SizesInTurn {
    /// As the settings have them, [`SIZES`] or `bytes`, which is the workload's own setting of one size for all.
    pub fn new(settings: &Settings, bytes: &Setting) -> Result<Self> {
        Ok(SizesInTurn {
            sizes: Arc::new(Sizes::of(settings, bytes)?),
            numbering: Numbering::new(settings).context("cannot map shared memory")?,
            is_asked_for: settings.word(SIZES.name) != NONE,
        })
    }

    /// See [`Sizes::fixed`].
    pub fn fixed(&self) -> Option<u64> {
        self.sizes.fixed()
    }

    /// See [`Sizes::largest`].
    pub fn largest(&self) -> u64 {
        self.sizes.largest()
    }

    /// Whether a distribution was asked for.
    pub fn is_asked_for(&self) -> bool {
        self.is_asked_for
    }

    /// The next request, whose number is that of its arrival where it has one, and its size. Of sizes that are all alike
    /// nothing is counted.
    pub fn next(&self, arrival: Option<u64>) -> u64 {
        match self.fixed() {
            Some(bytes) => bytes,
            None => self.draw(&mut self.numbering.next(arrival)),
        }
    }

    /// The numbers of all requests.
    pub fn numbering(&self) -> &Numbering {
        &self.numbering
    }

    /// The size of a request, which is counted.
    pub fn draw(&self, draw: &mut Draw) -> u64 {
        let bytes = self.sizes.draw(draw);
        self.numbering.asks_for(bytes);
        bytes
    }

    /// What they were; `None` where no distribution was asked for.
    pub fn traffic(&self) -> Option<Traffic> {
        let sums = self.numbering.sums();
        self.is_asked_for.then(|| Traffic {
            seed: self.numbering.seed(),
            requests: self.fixed().is_none().then(|| self.numbering.made()),
            sizes: Some(self.sizes.sent(sums)),
            kinds: Vec::new(),
        })
    }
}
