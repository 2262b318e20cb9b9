//! Report of a load's requests that are not all alike.

use std::sync::Arc;

use anyhow::{Context, Result};
use schemars::JsonSchema;
use serde::Serialize;

use crate::base::setting::{NONE, Setting, Settings};
use crate::requests::numbering::{Draw, Numbering};
use crate::requests::sizes::{SIZES, Sizes, SizesSent};

/// The requests of a load.
#[derive(Debug, Clone)]
pub struct Traffic {
    /// Their seed.
    pub seed: u64,
    /// Requests made, within the window or not; `None` if all are alike, and so not counted.
    pub requests: Option<u64>,
    /// Their sizes, if a distribution was given.
    pub sizes: Option<SizesSent>,
    /// Their kinds, if a mix was given.
    pub kinds: Vec<KindSent>,
}

/// A kind of request in a mix.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct KindSent {
    /// As typed, without its weight.
    pub request: String,
    /// Its weight among all kinds.
    pub weight: u64,
    /// Its counted requests: the reply arrived within the window, and was correct.
    pub requests: u64,
}

/// Sizes of a load's requests, in sequence, whichever client sends them.
#[derive(Clone)]
pub struct SizesInTurn {
    sizes: Arc<Sizes>,
    numbering: Numbering,
    is_given: bool,
}

impl SizesInTurn {
    /// Reads [`SIZES`] or `bytes`, the workload's own setting for a constant size.
    pub fn new(settings: &Settings, bytes: &Setting) -> Result<Self> {
        Ok(SizesInTurn {
            sizes: Arc::new(Sizes::of(settings, bytes)?),
            numbering: Numbering::new(settings).context("cannot map shared memory")?,
            is_given: settings.word(SIZES.name) != NONE,
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

    /// Returns whether a distribution was given.
    pub fn is_given(&self) -> bool {
        self.is_given
    }

    /// Returns the next request, numbered by its arrival if it has one, and its size. Constant sizes are not counted.
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

    /// Returns the size of a request, and counts it.
    pub fn draw(&self, draw: &mut Draw) -> u64 {
        let bytes = self.sizes.draw(draw);
        self.numbering.count(bytes);
        bytes
    }

    /// Reports the sizes; `None` if no distribution was given.
    pub fn traffic(&self) -> Option<Traffic> {
        let sums = self.numbering.sums();
        self.is_given.then(|| Traffic {
            seed: self.numbering.seed(),
            requests: self.fixed().is_none().then(|| self.numbering.made()),
            sizes: Some(self.sizes.sent(sums)),
            kinds: Vec::new(),
        })
    }
}
