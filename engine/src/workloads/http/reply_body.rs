//! A body of unknown length: chunked, or up to the end of its connection.

use super::chunks::{Chunks, Part};
use super::reply_head::unlike;
use crate::protocol::pattern::Reception;
use crate::protocol::workload::Input;

/// Such a body while it arrives.
#[derive(Debug, Clone, Copy)]
pub struct Unmeasured {
    /// Position in the chunks; `None` if the body ends with the connection.
    chunks: Option<Chunks>,
    /// Expected length, if only one is correct.
    due: Option<u64>,
    /// The bytes are compared.
    compares: bool,
    came: u64,
}

impl Unmeasured {
    /// Makes a body, chunked or not, with the expected length if only one is correct. `compares`: so are its bytes.
    pub fn new(in_chunks: bool, due: Option<u64>, compares: bool) -> Self {
        Unmeasured { chunks: in_chunks.then(Chunks::new), due, compares, came: 0 }
    }

    /// Takes the bytes of the body; true once it is complete. `compared` checks the bytes if they are compared.
    pub fn receive(&mut self, input: &mut Input<'_>, compared: &mut Reception) -> Result<bool, String> {
        if input.ended {
            return match self.chunks {
                None => self.is_as_long_as_due().map(|()| true),
                Some(_) => Err(format!("the reply ended after {} bytes, before its last chunk", self.came)),
            };
        }
        while !input.bytes().is_empty() {
            let part = match &mut self.chunks {
                None => Part::Data(input.bytes().len()),
                Some(chunks) => chunks.next(input.bytes())?,
            };
            match part {
                Part::Framing(length) => input.take(length),
                Part::Data(length) => {
                    self.look_at(&input.bytes()[..length], compared)?;
                    input.take(length);
                }
                Part::End(length) => {
                    input.take(length);
                    return self.is_as_long_as_due().map(|()| true);
                }
            }
        }
        Ok(false)
    }

    fn look_at(&mut self, part: &[u8], compared: &mut Reception) -> Result<(), String> {
        if self.compares {
            compared.look_at(part)?;
        }
        self.came += part.len() as u64;
        match self.due {
            Some(due) if self.came > due => Err(format!("the reply has more than the expected {due} bytes")),
            _ => Ok(()),
        }
    }

    fn is_as_long_as_due(&self) -> Result<(), String> {
        match self.due {
            Some(due) if due != self.came => Err(unlike(self.came, due)),
            _ => Ok(()),
        }
    }
}
