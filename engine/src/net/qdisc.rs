//! Queueing disciplines at the sending end of a link: tbf, which limits the rate, and netem, which delays and loses packets
//! (tc-tbf(8), tc-netem(8)).

use std::io;
use std::time::Duration;

use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption};

use crate::net::netlink::Netlink;

/// Time whose bytes may be sent at once, because a timer may be late.
const BURST: Duration = Duration::from_millis(1);

/// Maximum queue, as the time to send it at the rate. Packets beyond it are dropped.
const QUEUE: Duration = Duration::from_millis(50);

/// Minimum queue in bytes at any rate: two of the largest packets that TCP sends.
const LEAST_QUEUE: u64 = 128 * 1024;

/// Maximum packets in a delay.
const DELAYED_PACKETS: u32 = 100_000;

/// Header of an Ethernet frame, which is not in the MTU, but which the kernel counts.
const ETHERNET_HEADER: u64 = 14;

/// Attributes of linux/rtnetlink.h and linux/pkt_sched.h, which the netlink library leaves to its users.
const TCA_OPTIONS: u16 = 2;
const TBF_PARMS: u16 = 1;
const TBF_RATE64: u16 = 4;
const TBF_BURST: u16 = 6;
/// TC_LINKLAYER_ETHERNET: the kernel computes the time of a packet, and needs no table.
const ETHERNET: u8 = 1;

/// The unit of a delay (PSCHED_SHIFT of the kernel; /proc/net/psched has it, too).
const TICK: Duration = Duration::from_nanos(64);

/// Handle of netem, and its class for the inner discipline.
const OUTER: TcHandle = TcHandle { major: 1, minor: 0 };
const WITHIN: TcHandle = TcHandle { major: 1, minor: 1 };

/// Shaping of the packets that one end of a link sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shaping {
    /// Bits per second, including Ethernet headers; 0 for no limit.
    pub rate: u64,
    /// Delay of each packet.
    pub delay: Duration,
    /// Packets lost per million.
    pub loss: u32,
}

/// Shapes the packets that the interface with this number and MTU sends. The error is that of the refused discipline: ENOENT
/// from netem if the kernel has none.
pub fn shape(netlink: &mut Netlink, interface: u32, mtu: u32, shaping: Shaping) -> io::Result<()> {
    let mut parent = TcHandle::ROOT;
    if shaping.delays() {
        add(netlink, interface, parent, OUTER, "netem", netem(shaping))?;
        parent = WITHIN;
    }
    if shaping.rate > 0 {
        add(netlink, interface, parent, TcHandle::UNSPEC, "tbf", tbf(shaping.rate, mtu))?;
    }
    Ok(())
}

impl Shaping {
    /// Returns whether the shaping needs netem.
    pub fn delays(&self) -> bool {
        !self.delay.is_zero() || self.loss > 0
    }
}

fn add(
    netlink: &mut Netlink,
    interface: u32,
    parent: TcHandle,
    handle: TcHandle,
    kind: &str,
    options: TcAttribute,
) -> io::Result<()> {
    let mut message = TcMessage::with_index(interface as i32);
    message.header.parent = parent;
    message.header.handle = handle;
    message.attributes = vec![TcAttribute::Kind(kind.to_owned()), options];
    netlink.change(RouteNetlinkMessage::NewQueueDiscipline(message), NLM_F_CREATE | NLM_F_EXCL)
}

/// Builds the options of tbf for a rate in bits per second: struct tc_tbf_qopt, and the values that do not fit into its 32
/// bits.
fn tbf(rate: u64, mtu: u32) -> TcAttribute {
    let bytes_a_second = (rate / 8).max(1);
    let of = |time: Duration| (u128::from(bytes_a_second) * time.as_nanos() / 1_000_000_000) as u64;
    let burst = of(BURST).max(u64::from(mtu) + ETHERNET_HEADER);
    let queue = burst + of(QUEUE).max(LEAST_QUEUE);
    let mut parameters = Vec::with_capacity(36);
    parameters.extend(rate_specification(ETHERNET, bytes_a_second));
    parameters.extend(rate_specification(0, 0));
    parameters.extend(saturated(queue).to_ne_bytes());
    // The bucket in ticks and the largest packet: TBF_BURST stands for both.
    parameters.extend([0; 8]);
    TcAttribute::Options(vec![
        option(TBF_PARMS, parameters),
        option(TBF_RATE64, bytes_a_second.to_ne_bytes().to_vec()),
        option(TBF_BURST, saturated(burst).to_ne_bytes().to_vec()),
    ])
}

/// struct tc_ratespec: log of cells, link layer, overhead, alignment, smallest packet, bytes per second.
fn rate_specification(link_layer: u8, bytes_a_second: u64) -> [u8; 12] {
    let mut specification = [0; 12];
    specification[1] = link_layer;
    specification[8..].copy_from_slice(&saturated(bytes_a_second).to_ne_bytes());
    specification
}

/// Builds the options of netem: struct tc_netem_qopt without attributes.
fn netem(shaping: Shaping) -> TcAttribute {
    let latency = saturated((shaping.delay.as_nanos() / TICK.as_nanos()) as u64);
    let loss = u64::from(shaping.loss) * u64::from(u32::MAX) / 1_000_000;
    let (gap, duplicates, jitter) = (0, 0, 0);
    let fields = [latency, DELAYED_PACKETS, saturated(loss), gap, duplicates, jitter];
    TcAttribute::Other(DefaultNla::new(TCA_OPTIONS, fields.iter().flat_map(|field| field.to_ne_bytes()).collect()))
}

fn option(kind: u16, bytes: Vec<u8>) -> TcOption {
    TcOption::Other(DefaultNla::new(kind, bytes))
}

fn saturated(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_core::Nla;

    fn bytes(attribute: &impl Nla) -> Vec<u8> {
        let mut bytes = vec![0; attribute.value_len()];
        attribute.emit_value(&mut bytes);
        bytes
    }

    /// The bytes that iproute2 6.1 sends for `tc qdisc add dev ... root netem delay 5ms loss 0.1% limit 100000`, by strace.
    #[test]
    fn netem_is_requested_as_iproute2_does() {
        let shaping = Shaping { rate: 0, delay: Duration::from_millis(5), loss: 1000 };
        let sent = b"\x2d\x31\x01\x00\xa0\x86\x01\x00\x37\x89\x41\x00\0\0\0\0\0\0\0\0\0\0\0\0";
        let asked = netem(shaping);
        assert_eq!((asked.kind(), bytes(&asked)), (TCA_OPTIONS, sent.to_vec()));
    }

    /// Parses an attribute: length, kind and bytes. The limit of struct tc_tbf_qopt follows two rates.
    fn limit_and_burst(rate: u64, mtu: u32) -> (u32, u32) {
        let options = bytes(&tbf(rate, mtu));
        assert_eq!(options.len(), 40 + 12 + 8);
        let number = |at: usize| u32::from_ne_bytes(options[at..at + 4].try_into().unwrap());
        assert_eq!(options[2..6], [TBF_PARMS as u8, 0, 0, ETHERNET]);
        assert_eq!(u64::from_ne_bytes(options[44..52].try_into().unwrap()), rate / 8);
        (number(28), number(56))
    }

    #[test]
    fn a_bucket_holds_a_millisecond_at_the_rate_and_at_least_a_frame() {
        assert_eq!(limit_and_burst(10_000_000_000, 1500), (1_250_000 + 62_500_000, 1_250_000));
        assert_eq!(limit_and_burst(100_000_000_000, 1500).1, 12_500_000, "more than 32 bits of bytes a second");
        assert_eq!(limit_and_burst(1_000_000, 1500), (1514 + 131_072, 1514));
        assert_eq!(limit_and_burst(1_000_000_000, 65_535).1, 125_000);
        assert_eq!(limit_and_burst(100_000_000, 65_535).1, 65_549);
    }
}
