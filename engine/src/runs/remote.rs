//! Loads of other machines: which loads are remote, and what is printed before their first connection.

use anyhow::Result;

use crate::base::setting::Settings;
use crate::base::window::Window;
use crate::client::exchange::LONGEST;
use crate::client::load::{DURATION, GIVE_UP, Load, RAMP_UP, TIMEOUT, WARM_UP, closing};
use crate::net::address::Address;
use crate::net::veth;
use crate::protocol::pattern::BYTES;
use crate::protocol::workload::{Client, More};
use crate::requests::schedule::{Process, Schedule};
use crate::runs::load::Requests;
use crate::transfer::outbox::Outbox;

/// Maximum parts of a request that are made to find its length. Of a longer request, only a lower bound is printed.
const PARTS: usize = 64;

/// Returns the first address that leads to another machine, as far as this machine knows. Loopback addresses and namespaces
/// made by `thunderherd-engine namespace` do not. An IPv4 address written as IPv6 counts as IPv4.
pub fn first_remote(target: &[Address]) -> Result<Option<&Address>> {
    for address in target {
        let Address::Tcp(host) = address else { continue };
        let host = host.ip().to_canonical();
        if !host.is_loopback() && !veth::leads_to_an_end(host)? {
            return Ok(Some(address));
        }
    }
    Ok(None)
}

/// Describes in one line the target of a remote load, and its maximum connections, rate, duration and bytes.
pub fn bounds_in_words(target: &[Address], load: &Load, requests: &Requests, settings: &Settings) -> String {
    let addresses: Vec<String> = target.iter().map(Address::to_string).collect();
    let clients = load.clients(settings);
    let connections = clients + closing(clients, settings);
    let nanoseconds = nanoseconds(load, settings);
    let scheduled = || Some(requests.schedule?.most_within(nanoseconds?));
    let number = load.expected_requests(settings).or_else(scheduled);
    let rate = match requests.schedule {
        Some(Schedule { process: Process::Constant, rate, .. }) => {
            format!("{rate} requests a second, regardless of replies")
        }
        Some(Schedule { rate, .. }) => {
            format!("{:.0} requests a second on average, regardless of replies", rate.ceil())
        }
        None => "as many requests a second as replies".to_owned(),
    };
    let timeout = integer(settings, TIMEOUT.name).unwrap_or_default() as f64 / 1e9;
    let duration = match (number, nanoseconds) {
        (_, Some(nanoseconds)) => format!(
            "for {:.1} s, plus up to {timeout:.1} s before it to connect, and {timeout:.1} s after it for outstanding replies",
            nanoseconds as f64 / 1e9
        ),
        (Some(number), None) => format!(
            "until {number} requests are made, each with up to {timeout:.1} s to connect and {:.1} s for its reply{}",
            timeout * f64::from(LONGEST),
            match integer(settings, GIVE_UP.name) {
                Some(failures @ 1..) => format!("; a client stops after {failures} failures in a row"),
                _ => String::new(),
            }
        ),
        (None, None) => "until it is interrupted".to_owned(),
    };
    let client = requests.client.as_ref();
    let sent = match (number, client.longest_request().map_or_else(|| any_request(client), Each::Bytes)) {
        (Some(number), Each::Bytes(bytes)) => {
            format!("{bytes} bytes a request, {} in total", number.saturating_mul(bytes))
        }
        (None, Each::Bytes(bytes)) => format!("{bytes} bytes a request"),
        (_, Each::AtLeast(bytes)) => format!("more than {bytes} bytes a request"),
    };
    let replies = match (client.largest(), integer(settings, BYTES.name)) {
        (Some(largest), _) => format!(", sizes up to {largest}"),
        (None, Some(bytes)) => format!(", replies of {bytes}"),
        (None, None) => String::new(),
    };
    format!(
        "--allow-remote: {} is neither a loopback address nor in a namespace of this program. At most {connections} \
         connections at a time; {rate}; {duration}; {sent}{replies}\n",
        addresses.join(" or "),
    )
}

/// Length of a request.
enum Each {
    Bytes(u64),
    AtLeast(u64),
}

/// Returns the length of a request without sending it.
fn any_request(client: &dyn Client) -> Each {
    let (mut conversation, mut outbox, window) = (client.open(), Outbox::default(), Window::to_come());
    conversation.ask(&mut outbox);
    for _ in 0..PARTS {
        if conversation.more(&mut outbox, &window) != More::Part {
            return Each::Bytes(outbox.bytes());
        }
    }
    Each::AtLeast(outbox.bytes())
}

/// Returns the duration of a load that ends by time, in nanoseconds; `None` for others.
fn nanoseconds(load: &Load, settings: &Settings) -> Option<u64> {
    let of = |name: &str| integer(settings, name).unwrap_or_default();
    let window = load.duration.map(|_| of(DURATION.name)).filter(|&window| window > 0)?;
    Some(window + of(WARM_UP.name) + of(RAMP_UP.name))
}

fn integer(settings: &Settings, name: &str) -> Option<u64> {
    match settings.values().get(name) {
        Some(crate::base::setting::Value::Integer(number)) => Some(*number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::setting::Value;
    use crate::base::unit::{MILLISECOND, SECOND};
    use crate::loads::LOADS;
    use crate::registry::catalogue;
    use crate::transfer::outbox::Piece;
    use crate::workloads::WORKLOADS;
    use std::collections::BTreeMap;

    fn remote(addresses: &[&str]) -> Option<String> {
        let target: Vec<Address> = addresses.iter().map(|text| Address::Tcp(text.parse().unwrap())).collect();
        first_remote(&target).unwrap().map(Address::to_string)
    }

    #[test]
    fn a_remote_address_is_recognised_in_any_form() {
        for local in ["127.0.0.1:1", "127.200.3.4:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(remote(&[local]), None);
        }
        assert_eq!(first_remote(&[Address::Unix("name".to_owned())]).unwrap(), None);
        for other in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "[::ffff:192.0.2.1]:1", "[2001:db8::1]:1", "[fe80::1]:1"] {
            assert_eq!(remote(&[other]).as_deref(), Some(other));
            // One remote address of a name is enough.
            assert_eq!(remote(&["127.0.0.1:1", other]).as_deref(), Some(other));
        }
    }

    fn bounds(load: &str, workload: &str, given: &[(&'static str, u64)]) -> String {
        let given = given.iter().map(|(name, value)| (*name, Value::Integer(*value))).collect();
        bounds_of(load, workload, &given)
    }

    fn bounds_of(load: &str, workload: &str, given: &BTreeMap<&str, Value>) -> String {
        let (load, workload) = (catalogue::find(LOADS, load), catalogue::find(WORKLOADS, workload));
        let declared = [load.item.settings, workload.item.client_settings, &[TIMEOUT]].concat();
        let target = [Address::Tcp("192.0.2.1:80".parse().unwrap())];
        let settings = Settings::new(&declared, given);
        match Requests::read(workload.item, &settings) {
            Ok(requests) => bounds_in_words(&target, load.item, &requests, &settings),
            // A stream without an end is refused anyway.
            Err(refusal) => format!("{refusal}\n"),
        }
    }

    #[test]
    fn the_bounds_are_those_of_the_settings() {
        let said =
            bounds("closed", "bytes", &[("children", 3), ("loops", 7), ("bytes", 123), ("timeout", 500 * MILLISECOND)]);
        for words in [
            "192.0.2.1:80 is",
            "most 3 connections",
            "until 21 requests are made",
            "4 bytes a request, 84 in total",
            "replies of 123",
            "0.5 s",
        ] {
            assert!(said.contains(words), "'{words}' is not in {said}");
        }
        let said = bounds(
            "closed_connections",
            "echo",
            &[("clients", 50), ("duration", 2500 * MILLISECOND), ("warm_up", 500 * MILLISECOND), ("bytes", 64)],
        );
        for words in ["most 50 connections", "as replies;", "for 3.0 s", "64 bytes a request, replies of 64"] {
            assert!(said.contains(words), "'{words}' is not in {said}");
        }
        let said =
            bounds("open", "bytes", &[("clients", 9), ("rate", 100), ("duration", 10 * SECOND), ("ramp_up", SECOND)]);
        for words in
            ["most 9 connections", "100 requests a second on average", "for 11.0 s", "5 bytes a request, 6525 in total"]
        {
            assert!(said.contains(words), "'{words}' is not in {said}");
        }
    }

    #[test]
    fn bounds_include_rounding_and_closing_connections() {
        let word = |word: &str| Value::Word(word.to_owned());
        let uneven = [
            ("rate", Value::Integer(1)),
            ("duration", Value::Integer(1500 * MILLISECOND)),
            ("arrivals", word("constant")),
        ];
        let said = bounds_of("open", "bytes", &BTreeMap::from(uneven));
        assert!(said.contains("; 1 requests a second,") && said.contains("5 bytes a request, 10 in total"), "{said}");
        let ring = [("clients", Value::Integer(2000)), ("back_end", word("io_uring"))];
        let said = bounds_of("closed_connections", "echo", &BTreeMap::from(ring));
        assert!(said.contains("most 3024 connections at a time"), "{said}");
    }

    /// All requests of a burst are due at once, even if the mean rate is low.
    #[test]
    fn a_recording_is_counted_request_by_request() {
        let path = std::env::temp_dir().join(format!("bounds-{}.csv", std::process::id()));
        std::fs::write(&path, format!("gap_microseconds\n{}3600000000\n", "0\n".repeat(9999))).unwrap();
        let word = |word: &str| Value::Word(word.to_owned());
        let recorded = [("arrivals", word("recorded")), ("recording", word(path.to_str().unwrap()))];
        for rate in [None, Some(1000)] {
            let rate = rate.map(|rate| ("rate", Value::Integer(rate)));
            let given = recorded.clone().into_iter().chain(rate).chain([("duration", Value::Integer(SECOND))]);
            let said = bounds_of("open", "bytes", &given.collect());
            assert!(said.contains("5 bytes a request, 49995 in total") && said.contains("on average"), "{said}");
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn of_random_requests_the_longest_counts() {
        let request = |path: &str| {
            let given = BTreeMap::from([("path", Value::Word(path.to_owned()))]);
            let said = bounds_of("closed_connections", "http", &given);
            said.split_once(" bytes a request").unwrap().0.rsplit(' ').next().unwrap().parse::<usize>().unwrap()
        };
        let long = "/a-path-that-is-rarely-requested";
        assert_eq!(request(long), request("/") + long.len() - 1);
        let mix = BTreeMap::from([("mix", Value::Word(format!("GET:/@999999,GET:{long}@1")))]);
        let said = bounds_of("closed_connections", "http", &mix);
        assert!(said.contains(&format!("{} bytes a request", request(long))), "{said}");
        let sizes = BTreeMap::from([("sizes", Value::Word("weighted:64@1000000,60000@1".to_owned()))]);
        for (workload, bytes) in [("echo", 60_000), ("bytes", 6)] {
            let said = bounds_of("closed_connections", workload, &sizes);
            assert!(said.contains(&format!("; {bytes} bytes a request,")), "{workload}: {said}");
            assert!(said.contains("sizes up to 60000"), "{workload}: {said}");
        }
    }

    /// The bounds come from the same client as the requests.
    #[test]
    fn computing_the_bounds_uses_up_no_request() {
        let first = |client: &dyn Client| {
            let mut outbox = Outbox::default();
            client.open().ask(&mut outbox);
            let Some(Piece::Bytes(bytes, range)) = outbox.front() else { panic!("a request comes from memory") };
            bytes[range.clone()].to_vec()
        };
        let drawn = [("sizes", Value::Word("uniform:1..60000".to_owned()))];
        for (workload, given) in
            [("bytes", &drawn[..]), ("echo", &drawn), ("bucket", &[]), ("fields", &[]), ("http", &[])]
        {
            let workload = catalogue::find(WORKLOADS, workload).item;
            let load = catalogue::find(LOADS, "closed_connections").item;
            let declared = [load.settings, workload.client_settings, &[TIMEOUT]].concat();
            let settings = Settings::new(&declared, &given.iter().cloned().collect());
            let [described, other] = [(); 2].map(|()| Requests::read(workload, &settings).unwrap());
            bounds_in_words(&[], load, &described, &settings);
            assert_eq!(first(described.client.as_ref()), first(other.client.as_ref()));
        }
        let far = BTreeMap::from([("delay_maximum", Value::Integer(1_000_000)), ("buckets", Value::Integer(65_536))]);
        let said = bounds_of("closed_connections", "bucket", &far);
        assert!(said.contains(&format!("; {} bytes a request,", "1000000,65535\n".len())), "{said}");
    }

    #[test]
    fn every_load_of_every_workload_has_bounds() {
        for load in LOADS {
            for workload in WORKLOADS {
                assert_eq!(bounds(load.name, workload.name, &[]).lines().count(), 1, "{} {}", load.name, workload.name);
            }
        }
    }
}
