//! The kernel's view of the open connections of a server or a load, read from outside.

use anyhow::{Result, anyhow};

use crate::base::about::About;
use crate::count::counter::{Counter, Figure, Kind, Part, Reading, Source, Subject};
use crate::net::socket_diagnosis::{Ends, SocketDiagnosis, TcpInfo};

pub static ENTRY: Counter = Counter {
    about: About {
        summary: "State of the open TCP connections: their number, retransmitted segments (sum), delivery rate, \
                  congestion window and round-trip time (medians). Sampled in the last tenth of the window if the \
                  load ends by time. A load that ends by count has closed its connections by then; only those that \
                  its server has not closed yet remain",
        source: "sock_diag(7), INET_DIAG_INFO; tcp(7), TCP_INFO; as shown by ss -ti",
    },
    unit: "connections",
    source: Source::Own(open),
    kind: Kind::State,
    parts: || {
        let parts = [
            (CONNECTIONS, "connections"),
            (RETRANSMITS, "segments"),
            (DELIVERY_RATE, "bytes a second"),
            (CONGESTION_WINDOW, "segments"),
            (RTT, "nanoseconds"),
        ];
        parts.map(|(name, unit)| Part { name, unit }).to_vec()
    },
};

const CONNECTIONS: &str = "connections";
const RETRANSMITS: &str = "retransmits";
const DELIVERY_RATE: &str = "delivery_rate";
const CONGESTION_WINDOW: &str = "congestion_window";
const RTT: &str = "rtt";

const NONE_SEEN: &str = "no TCP connection was open when the counter was read: a load that ends by count has closed its \
                         connections by then; if the load ends by time, the last tenth of the window was missed (use \
                         a longer window)";

/// The connections of one subject.
struct Connections {
    kernel: SocketDiagnosis,
    ends: Ends,
}

fn open(subject: &mut Subject) -> Result<Box<dyn Reading>> {
    let ends = subject.ends.ok_or_else(|| {
        anyhow!(
            "there are no TCP connections: the load uses a Unix socket, or the count runs from exec to \
             exit, when all are closed (serve --count and load --count read them while they are open)"
        )
    })?;
    Ok(Box::new(Connections { kernel: SocketDiagnosis::open()?, ends }))
}

impl Reading for Connections {
    fn read(&mut self) -> Result<Vec<Figure>> {
        Ok(figures(&self.kernel.connections(self.ends)?))
    }
}

fn figures(found: &[TcpInfo]) -> Vec<Figure> {
    let median = |of: fn(&TcpInfo) -> u64| {
        let mut values: Vec<u64> = found.iter().map(of).collect();
        values.sort_unstable();
        values.get(values.len() / 2).copied()
    };
    let retransmits = found.iter().map(|each| u64::from(each.retransmits)).sum();
    let of_them = [
        (RETRANSMITS, (!found.is_empty()).then_some(retransmits)),
        (DELIVERY_RATE, median(|each| each.delivery_rate)),
        (CONGESTION_WINDOW, median(|each| each.congestion_window.into())),
        (RTT, median(|each| u64::from(each.rtt_microseconds) * 1000)),
    ]
    .map(|(name, value)| Figure::or_reason(name, value, NONE_SEEN));
    [Figure::part(CONNECTIONS, Some(found.len() as u64))].into_iter().chain(of_them).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_connections_only_their_number_is_known() {
        let nothing = figures(&[]);
        assert_eq!(nothing[0], Figure::part(CONNECTIONS, Some(0)));
        assert!(
            nothing[1..].iter().all(|figure| figure.value.is_none() && figure.why == Some(NONE_SEEN)),
            "{nothing:?}"
        );
    }

    #[test]
    fn one_strange_connection_moves_no_median() {
        let one = |rtt_microseconds, retransmits| TcpInfo {
            rtt_microseconds,
            congestion_window: 10,
            retransmits,
            delivery_rate: 1000,
        };
        let found = figures(&[one(20, 0), one(1_000_000, 7), one(30, 1)]);
        let value = |name| found.iter().find(|figure| figure.part == name).unwrap().value;
        assert_eq!(value(RETRANSMITS), Some(8));
        assert_eq!(value(RTT), Some(30_000));
        assert_eq!(value(CONGESTION_WINDOW), Some(10));
        assert!(found.iter().all(|figure| figure.why.is_none()), "{found:?}");
    }
}
