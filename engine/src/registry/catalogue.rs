//! Finds and describes registered entries.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::base::about::{About, Entry};
use crate::base::feature;
use crate::base::limit::Limit;
use crate::base::setting::{FILE_PREFIX, Setting};
use crate::client::load::{GIVE_UP, Load, TIMEOUT};
use crate::counters::{self, COUNTERS};
use crate::designs::DESIGNS;
use crate::limits::LIMITS;
use crate::lines::SCHEMA;
use crate::loads::LOADS;
use crate::net::address::Family;
use crate::net::source_addresses::SOURCE_ADDRESSES;
use crate::net::tcp::{self, CONGESTION, NODELAY};
use crate::primitives::PRIMITIVES;
use crate::protocol::workload::{Agreement, Instead, Product, Workload};
use crate::registry::{fallbacks, fit};
use crate::runs;
use crate::runs::serve::DRAIN;
use crate::runs::serve::listener::BACKLOG;
use crate::server::design::{Design, POOL};
use crate::server::idle::IDLE_TIMEOUT;
use crate::server::scoreboard::MAXIMUM_WORKERS;
use crate::sys::process;
use crate::transfer::channel::Way;
use crate::transfer::primitive::{Direction, Primitive};
use crate::transfer::waiting::NEVER_SLEEPS;
use crate::workloads::WORKLOADS;

/// Settings of every server, whatever its design.
pub const SERVER_SETTINGS: &[Setting] = &[BACKLOG, NODELAY, CONGESTION, IDLE_TIMEOUT, DRAIN];

/// Settings of every load.
pub const LOAD_SETTINGS: &[Setting] = &[NODELAY, CONGESTION, SOURCE_ADDRESSES, TIMEOUT, GIVE_UP];

/// Defaults of the command line.
pub mod defaults {
    /// The workload: the textbook's.
    pub const WORKLOAD: &str = "bytes";
    /// The load: the textbook's.
    pub const LOAD: &str = "closed";
    /// The load of a URL, if no rate is given.
    pub const LOAD_OF_URL: &str = "closed_connections";
    /// The load of a URL, if a rate is given.
    pub const LOAD_WITH_RATE: &str = "open";
    /// The workload whose URLs have a path, and port 80 by default.
    pub const WEB: &str = "http";
    /// The send primitive.
    pub const SENDS: &str = "send_each";
    /// The receive primitive.
    pub const RECEIVES: &str = "recv";
    /// The design for comparing primitives. It serves any number of persistent connections at once, and its loop only
    /// calls the primitives.
    pub const DESIGN: &str = "thread_per_client";
}

/// Returns the entry of a name that the command line has checked.
pub fn find<T>(entries: &'static [Entry<T>], name: &str) -> &'static Entry<T> {
    entries.iter().find(|entry| entry.name == name).expect("the command line lets registered names through only")
}

/// Returns the send and the receive primitive of these names.
pub fn way(out: &str, into: &str) -> Way {
    Way { out: find(PRIMITIVES, out), into: find(PRIMITIVES, into) }
}

/// Returns all settings of a server with this design, primitives and workload, over these sockets.
pub fn server_settings(design: &Design, way: Way, workload: &Workload, family: Family) -> Vec<Setting> {
    let common = of_family(SERVER_SETTINGS, family);
    [design.settings, &way.settings(), workload.service_settings, &common].concat()
}

/// Returns all settings of a load with these primitives and this workload, over these sockets.
pub fn load_settings(load: &Load, way: Way, workload: &Workload, family: Family) -> Vec<Setting> {
    let common = of_family(LOAD_SETTINGS, family);
    [load.settings, &way.settings(), workload.client_settings, &common].concat()
}

/// Settings of TCP only.
pub const TCP_SETTINGS: &[Setting] = &[NODELAY, CONGESTION, SOURCE_ADDRESSES];

fn of_family(settings: &[Setting], family: Family) -> Vec<Setting> {
    settings.iter().filter(|setting| family == Family::Tcp || !TCP_SETTINGS.contains(setting)).copied().collect()
}

/// Returns the owners of an option, as the start of a command line: `load http`.
pub fn owners(option: &str) -> Vec<String> {
    let has = |settings: &[Setting]| settings.iter().any(|setting| setting.option() == option);
    let mut owners = Vec::new();
    owners.extend(has(SERVER_SETTINGS).then(|| "serve".to_owned()));
    owners.extend(has(LOAD_SETTINGS).then(|| "load".to_owned()));
    let mut add = |named: String, settings: &[Setting]| owners.extend(has(settings).then_some(named));
    DESIGNS.iter().for_each(|entry| add(format!("serve {}", entry.name), entry.item.settings));
    for entry in PRIMITIVES {
        let option = if entry.item.moves.direction() == Direction::Out { "primitive" } else { "receive" };
        add(format!("--{option} {}", entry.name), &entry.item.all_settings());
    }
    for entry in WORKLOADS {
        add(format!("serve --workload {}", entry.name), entry.item.service_settings);
        add(format!("load {}", entry.name), entry.item.client_settings);
    }
    LOADS.iter().for_each(|entry| add(format!("load --load {}", entry.name), entry.item.settings));
    owners.extend(has(runs::limits::SETTINGS).then(|| "limits".to_owned()));
    owners.extend(of_the_pair(option));
    owners
}

/// Returns the owner of an option of two namespaces.
fn of_the_pair(option: &str) -> Option<String> {
    runs::namespace::SETTINGS.iter().any(|setting| setting.option() == option).then(|| {
        format!(
            "namespace (`thunderherd serve DESIGN --lab veth --{option} VALUE`, which `load --lab veth` joins as it is)"
        )
    })
}

/// An empty text, as a shell has it.
pub const EMPTY: &str = "''";

/// Formats the default of a setting, and of loads that have another: `4; of open 64`.
pub fn defaults(setting: &Setting) -> String {
    let other = |entry: &Entry<Load>| {
        let own = entry.item.settings.iter().find(|own| own.name == setting.name)?.default();
        (own != setting.default()).then(|| format!("; of {} {}", entry.name, setting.format(&own)))
    };
    let usual = Some(setting.format(&setting.default())).filter(|text| !text.is_empty());
    usual.unwrap_or_else(|| EMPTY.to_owned()) + &LOADS.iter().filter_map(other).collect::<String>()
}

/// Returns all registered entries for `list --json`.
pub fn as_json() -> Value {
    json!({
        "schema": SCHEMA,
        "version": env!("CARGO_PKG_VERSION"),
        "build": {
            "rustc": env!("BUILD_RUSTC"),
            "profile": env!("BUILD_PROFILE"),
            "target": env!("BUILD_TARGET"),
            "flags": env!("BUILD_FLAGS"),
            "linked": if process::is_static() { "static" } else { "dynamic" },
        },
        "defaults": {
            "workload": defaults::WORKLOAD, "load": defaults::LOAD, "design": defaults::DESIGN,
            "primitive": defaults::SENDS, "receive": defaults::RECEIVES,
        },
        "file_prefix": FILE_PREFIX,
        "designs": list(DESIGNS, |design: &Design| {
            let reason = design.unavailable();
            let mut names = design.settings.iter().map(|setting| setting.name);
            let most_workers = names.find(|name| [POOL.name, MAXIMUM_WORKERS.name].contains(name));
            (
                design.about,
                json!({
                    "waits": design.waits, "shares": design.shares, "fairness": design.shares.sentences(),
                    "settings": design.settings,
                    "available": reason.is_none(), "reason": reason, "tcp_only": design.tcp_only,
                    "rests_on": feature::described(design.rests_on),
                    "makes": design.makes, "spins": design.spins, "most_workers": most_workers,
                }),
            )
        }),
        "primitives": list(PRIMITIVES, |primitive: &Primitive| {
            let (moves, reason) = (primitive.moves.direction(), primitive.unavailable());
            (
                primitive.about,
                json!({
                    "moves": moves, "waits": primitive.waits, "stores": primitive.stores,
                    "completes": primitive.completes, "lends": primitive.lends, "spins": primitive.spins,
                    "settings": primitive.all_settings(), "available": reason.is_none(), "reason": reason,
                    "tcp_only": primitive.tcp_only, "rests_on": feature::described(primitive.rests_on),
                }),
            )
        }),
        "workloads": list(WORKLOADS, |workload: &Workload| {
            let agreement = |each: &Agreement| {
                json!({"client": each.client.name, "relation": each.relation, "service": each.service.name})
            };
            let agreements: Vec<Value> = workload.agreements.iter().map(agreement).collect();
            let product = |each: &Product| {
                json!({"settings": each.settings.map(|setting| setting.name), "product": each.product})
            };
            let instead = |each: &Instead| json!({"given": each.given.name, "of": each.of.name});
            let instead: Vec<Value> = workload.instead.iter().map(instead).collect();
            let products: Vec<Value> = workload.products.iter().map(product).collect();
            let names = |settings: &[Setting]| settings.iter().map(|setting| setting.name).collect::<Vec<_>>();
            let direction = workload.direction.map(|each| {
                json!({
                    "setting": each.setting.name, "to_server": each.to_server, "to_client": each.to_client,
                    "of_sender": names(each.of_sender), "of_receiver": names(each.of_receiver),
                })
            });
            (
                workload.about,
                json!({
                    "port": workload.port, "service_settings": workload.service_settings,
                    "client_settings": workload.client_settings, "instead": instead,
                    "agreements": agreements, "products": products,
                    "sender": workload.sender, "direction": direction, "measured_by": workload.measured_by,
                    "counts_requests": workload.counts_requests, "pipelines": workload.pipelines,
                }),
            )
        }),
        "loads": list(LOADS, |load: &Load| {
            let requests: Vec<&str> = load.requests.iter().map(|setting| setting.name).collect();
            let duration = load.duration.map(|setting| setting.name);
            let (waits, settings) = (load.waits, load.settings);
            (load.about, json!({
                "waits": waits, "settings": settings, "requests": requests, "duration": duration,
                "clients": load.clients_setting().map(|setting| setting.name),
                "warm_up": load.warm_up().map(|setting| setting.name),
                "requirements": load.requirements,
                "without_primitives": load.without_primitives.map(|(setting, word)| (setting.name, word)),
            }))
        }),
        "counters": list(COUNTERS, |counter| {
            let reason = counter.available().err().map(|error| format!("{error:#}"));
            (counter.about, json!({
                "unit": counter.unit, "countable": counter.is_countable(),
                "kind": counter.kind, "parts": (counter.parts)(), "names_of_perf": counters::names_of_perf(counter),
                "available": reason.is_none(), "reason": reason,
            }))
        }),
        "events_of_perf": counters::events_of_perf(),
        "limits": list(LIMITS, |limit: &Limit| {
            (limit.about, json!({"figure": limit.figure, "sizes": limit.sizes, "places": limit.places}))
        }),
        "limit_settings": runs::limits::SETTINGS,
        "server_settings": SERVER_SETTINGS,
        "load_settings": LOAD_SETTINGS,
        "never_sleeps": NEVER_SLEEPS.iter().map(|(setting, word)| (setting.name, *word)).collect::<BTreeMap<_, _>>(),
        "tcp_settings": TCP_SETTINGS.iter().map(|setting| setting.name).collect::<Vec<_>>(),
        "congestion_controls": tcp::congestion_controls(),
        "namespace": runs::namespace::described(),
        "holes": fit::all(),
        "fallbacks": fallbacks::described(),
    })
}

fn list<T>(entries: &[Entry<T>], describe: impl Fn(&T) -> (About, Value)) -> Vec<Value> {
    let one = |entry: &Entry<T>| {
        let (about, rest) = describe(entry.item);
        let mut value = json!({"name": entry.name, "summary": about.summary, "source": about.source});
        if let (Some(value), Some(rest)) = (value.as_object_mut(), rest.as_object()) {
            value.extend(rest.clone());
        }
        value
    };
    entries.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::setting::{Form, Kind};
    use crate::protocol::workload::Relation;

    #[test]
    fn an_agreement_is_between_settings_of_both_ends() {
        let of = |entry: &'static Entry<Workload>| entry.item.agreements.iter().map(move |each| (entry, each));
        let agreements: Vec<_> = WORKLOADS.iter().flat_map(of).collect();
        assert!(!agreements.is_empty());
        for (workload, Agreement { client, relation, service }) in agreements {
            assert!(workload.item.client_settings.contains(client), "{}: {}", workload.name, client.name);
            assert!(workload.item.service_settings.contains(service), "{}: {}", workload.name, service.name);
            let kinds = (client.kind, service.kind);
            let ordered = matches!(
                kinds,
                (Kind::Integer { .. }, Kind::Integer { .. })
                    | (Kind::Boolean { .. }, Kind::Boolean { .. })
                    // Of a distribution it is the largest.
                    | (Kind::Text { form: Form::Sizes, .. }, Kind::Integer { .. })
            );
            assert!(ordered || *relation == Relation::Equal, "{}: words are no more and no less", workload.name);
        }
    }

    #[test]
    fn a_product_is_of_two_numbers_of_the_asking_end_and_so_by_default() {
        let of = |entry: &'static Entry<Workload>| entry.item.products.iter().map(move |each| (entry, each));
        let products: Vec<_> = WORKLOADS.iter().flat_map(of).collect();
        assert!(!products.is_empty());
        for (workload, Product { settings, product }) in products {
            let defaults = settings.map(|setting| match setting.kind {
                Kind::Integer { default, .. } if workload.item.client_settings.contains(&setting) => default,
                _ => panic!("{}: {} is no number of the asking end", workload.name, setting.name),
            });
            assert_eq!(defaults.iter().product::<u64>(), *product, "{}", workload.name);
        }
    }

    #[test]
    fn a_setting_has_one_meaning_wherever_it_appears() {
        // A workload may take less of it than another, and a load begin with more clients, or keep their connections.
        let of_any_size = |setting: &Setting| match setting.kind {
            Kind::Integer { .. } => {
                let kind = Kind::Integer { minimum: 0, maximum: u64::MAX, default: 0 };
                Setting { kind, for_more: None, ..*setting }
            }
            Kind::Choice { choices, .. } => Setting { kind: Kind::Choice { choices, default: "" }, ..*setting },
            _ => *setting,
        };
        let mut seen: std::collections::BTreeMap<&str, Setting> = std::collections::BTreeMap::new();
        let designs = DESIGNS.iter().flat_map(|entry| entry.item.settings);
        let primitives: Vec<Setting> = PRIMITIVES.iter().flat_map(|entry| entry.item.all_settings()).collect();
        let services = WORKLOADS.iter().flat_map(|entry| entry.item.service_settings);
        let clients = WORKLOADS.iter().flat_map(|entry| entry.item.client_settings);
        let loads = LOADS.iter().flat_map(|entry| entry.item.settings);
        for setting in designs.chain(&primitives).chain(services).chain(clients).chain(loads) {
            let setting = of_any_size(setting);
            assert_eq!(*seen.entry(setting.name).or_insert(setting), setting);
        }
        assert!(!seen.is_empty());
    }

    #[test]
    fn a_load_without_a_number_of_requests_ends_by_time() {
        for load in LOADS.iter().map(|entry| entry.item).filter(|load| load.requests.is_empty()) {
            let duration = load.duration.expect("it ends by something");
            let Kind::Integer { minimum, .. } = duration.kind else { panic!("a duration is a number") };
            let own = load.settings.iter().find(|setting| setting.name == duration.name).expect("it is its own");
            assert!(matches!(own.kind, Kind::Integer { minimum: 1.., .. }) && minimum > 0, "{own:?}");
        }
    }
}
