//! Queries and changes this process's network namespace (netlink(7)), as `ip`, `tc` and `ss` do, without needing them. Each
//! request is answered before the next, so no thread is needed.

use std::fmt::Debug;
use std::io;
use std::marker::PhantomData;

use anyhow::{Context, Result, bail};
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkDeserializable, NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_ROUTE;

/// A netlink socket for one namespace: the process's namespace when it was opened. Its messages belong to a family of
/// netlink(7), mostly that of interfaces and addresses (rtnetlink(7)).
pub struct Netlink<Message = RouteNetlinkMessage> {
    socket: Socket,
    questions: u32,
    messages: PhantomData<fn() -> Message>,
}

impl Netlink {
    /// Opens a socket for interfaces and addresses.
    pub fn open() -> io::Result<Self> {
        Self::of_family(NETLINK_ROUTE)
    }

    /// Sends a change, with additional flags such as `NLM_F_CREATE`. Returns the system's error if the kernel refuses; the
    /// caller knows its meaning.
    pub fn change(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        let answers = self.ask(message, flags | NLM_F_ACK).map_err(|error| match error.downcast() {
            Ok(refused) => refused,
            Err(other) => io::Error::other(other),
        })?;
        debug_assert!(answers.is_empty(), "a change is acknowledged, and nothing else");
        Ok(())
    }
}

impl<Message> Netlink<Message>
where
    Message: NetlinkSerializable + NetlinkDeserializable + Debug + Into<NetlinkPayload<Message>>,
{
    /// Opens a socket of a family (netlink(7), `NETLINK_*`) with this type of messages.
    pub fn of_family(family: isize) -> io::Result<Self> {
        Ok(Netlink { socket: Socket::new(family)?, questions: 0, messages: PhantomData })
    }

    /// Lists all objects of a kind.
    pub fn list(&mut self, message: Message) -> Result<Vec<Message>> {
        self.ask(message, NLM_F_DUMP)
    }

    /// Returns the object that a message names; the error of the system if there is none.
    pub fn get(&mut self, message: Message) -> Result<Vec<Message>> {
        self.ask(message, NLM_F_ACK)
    }

    fn ask(&mut self, message: Message, flags: u16) -> Result<Vec<Message>> {
        self.questions += 1;
        let mut question = NetlinkMessage::from(message);
        question.header.flags = NLM_F_REQUEST | flags;
        question.header.sequence_number = self.questions;
        question.finalize();
        let mut bytes = vec![0; question.buffer_len()];
        question.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let mut answers = Vec::new();
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            if read(&datagram, self.questions, &mut answers)? {
                return Ok(answers);
            }
        }
    }
}

/// Reads the answers to a question from a datagram. Returns whether they are complete; an error of the kernel is that of the
/// system.
pub fn read<Message>(datagram: &[u8], question: u32, answers: &mut Vec<Message>) -> Result<bool>
where
    Message: NetlinkDeserializable + Debug,
{
    let mut rest = datagram;
    while !rest.is_empty() {
        let answer =
            NetlinkMessage::<Message>::deserialize(rest).context("the kernel's answer (netlink) cannot be read")?;
        rest = rest.get(aligned(answer.header.length as usize)..).unwrap_or_default();
        if answer.header.sequence_number != question {
            continue;
        }
        match answer.payload {
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Error(error) => {
                return match error.code {
                    None => Ok(true),
                    Some(code) => Err(io::Error::from_raw_os_error(code.get().wrapping_neg()).into()),
                };
            }
            NetlinkPayload::InnerMessage(message) => answers.push(message),
            other => bail!("the kernel answers {other:?} (netlink)"),
        }
    }
    Ok(false)
}

/// Messages begin at multiples of four bytes (NLMSG_ALIGNTO).
fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}
