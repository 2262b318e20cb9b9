//! Each check, and its message.

use rand_distr::{Distribution as _, StandardUniform};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng as _;

use super::*;
use crate::count::tally::ErrorKind;

fn good() -> Evidence {
    Evidence {
        window_ns: 1_000_000_000,
        planned_ns: Some(1_000_000_000),
        replies: 10_000,
        errors: BTreeMap::new(),
        generators: vec![Generator { elapsed_ns: 1000, cpu_ns: 400, waited_ns: 600 }; 2],
        cpus: 2,
        always_under_way: None,
        in_system: 2.0,
        latencies: 10_000,
        latency_mean_ns: 200_000.0,
        latency_cube_ns3: 200_000_f64.powi(3),
        latency_most_ns: 400_000,
        spins: false,
        schedule: Some(ScheduleEvidence {
            due: 10_000,
            sent: 10_000,
            never_sent: 0,
            waited: 100,
            lag_p99_ns: Some(60_000),
            lag_p90_p50_ns: [Some(50_000), Some(40_000)],
            latency_p50_ns: Some(180_000),
            gap_scheduled_ns: 200_000.0,
            variation_scheduled: 1.0,
            gaps: Some((200_000.0, 1.01)),
        }),
    }
}

fn changed(change: impl FnOnce(&mut Evidence, &mut ScheduleEvidence)) -> Vec<Check> {
    let mut evidence = good();
    let mut schedule = evidence.schedule.take().unwrap();
    change(&mut evidence, &mut schedule);
    judge(&Evidence { schedule: Some(schedule), ..evidence })
}

fn failed(checks: &[Check]) -> Vec<&str> {
    checks.iter().filter(|check| check.holds == Some(false)).map(|check| check.name).collect()
}

fn not_judged(checks: &[Check]) -> Vec<&str> {
    checks.iter().filter(|check| check.holds.is_none()).map(|check| check.name).collect()
}

#[test]
fn each_fault_is_found_and_no_other_with_it() {
    let checks = judge(&good());
    assert!(is_valid(&checks) && checks.iter().all(|check| check.holds == Some(true)), "{checks:?}");
    type Change = fn(&mut Evidence, &mut ScheduleEvidence);
    let faults: [(&str, Change); 10] = [
        ("errors", |all, _| all.errors = BTreeMap::from([("reset", 1)])),
        ("cut_window", |all, _| all.planned_ns = Some(1_000_000_001)),
        ("generator_cpu", |all, _| all.generators[1].cpu_ns = 951),
        ("achieved_rate", |all, _| all.replies = 9_899),
        ("never_sent", |_, schedule| schedule.never_sent = 1),
        ("send_lag", |_, schedule| schedule.lag_p99_ns = Some(100_001)),
        ("gap_mean", |_, schedule| schedule.gaps = Some((219_000.0, 1.0))),
        ("gap_variation", |_, schedule| schedule.gaps = Some((200_000.0, 1.6))),
        ("little", |all, _| all.in_system = 2.2),
        ("little", |all, _| all.in_system = 1.9),
    ];
    for (name, change) in faults {
        let checks = changed(change);
        assert_eq!(failed(&checks), [name], "{checks:?}");
        assert!(!is_valid(&checks));
    }
}

#[test]
fn for_each_kind_of_error_of_a_load_there_is_something_to_change() {
    let of_servers_alone = ["bad_request", "queued_at_stop"];
    for (_, kind) in ErrorKind::ALL.iter().filter(|(_, name)| !of_servers_alone.contains(name)) {
        let words = errors(&BTreeMap::from([(*kind, 3)])).words;
        let (what, change) = words.split_once("latencies look too good. ").unwrap();
        assert!(what.contains(&format!("{kind} 3;")) && change.len() > 20, "{words}");
    }
    let both = errors(&BTreeMap::from([("refused", 1), ("reset", 2)])).words;
    assert!(both.contains("start the server") && both.contains("; check the errors that the server reports"), "{both}");
    assert!(!both.contains("--timeout"), "{both}");
}

#[test]
fn lateness_that_is_small_against_the_latency_is_allowed() {
    let slow =
        |lag| changed(|_, schedule| (schedule.latency_p50_ns, schedule.lag_p99_ns) = (Some(5_000_000), Some(lag)));
    assert_eq!(failed(&slow(500_000)), [""; 0]);
    assert_eq!(failed(&slow(500_001)), ["send_lag"]);
}

#[test]
fn with_few_requests_lower_percentiles_show_a_late_load() {
    let few = |known| changed(|_, schedule| (schedule.lag_p99_ns, schedule.lag_p90_p50_ns) = (None, known));
    for late in [[Some(100_001), Some(0)], [None, Some(100_001)]] {
        assert_eq!(failed(&few(late)), ["send_lag"], "{late:?}");
    }
    // Punctual lower percentiles prove nothing about the 99th.
    for early in [[Some(100_000), Some(0)], [None, Some(100_000)]] {
        assert_eq!((failed(&few(early)), not_judged(&few(early))), (vec![], vec!["send_lag"]), "{early:?}");
    }
}

#[test]
fn a_busy_polling_load_may_use_all_of_the_cpu() {
    let checks = changed(|all, _| {
        all.spins = true;
        all.generators[0].cpu_ns = 1000;
    });
    assert_eq!((failed(&checks), not_judged(&checks)), (vec![], vec!["generator_cpu"]));
}

#[test]
fn a_late_busy_polling_load_gets_other_advice() {
    for (spins, advised) in [(false, true), (true, false)] {
        let checks = changed(|all, schedule| {
            all.spins = spins;
            schedule.lag_p99_ns = Some(100_001);
            schedule.gaps = Some((schedule.gap_scheduled_ns, 0.0));
        });
        assert_eq!(failed(&checks), ["send_lag", "gap_variation"]);
        let words = checks.iter().filter(|check| check.holds == Some(false)).map(|check| &check.words);
        assert!(words.clone().all(|words| words.contains("--wait spin") == advised), "{checks:?}");
    }
}

#[test]
fn too_few_requests_are_not_judged() {
    let checks = changed(|all, schedule| {
        (all.replies, all.latencies) = (9, 9);
        (schedule.due, schedule.sent, schedule.latency_p50_ns) = (10, 10, None);
        (schedule.lag_p99_ns, schedule.lag_p90_p50_ns) = (None, [None; 2]);
    });
    let names = ["achieved_rate", "send_lag", "gap_mean", "gap_variation", "little"];
    assert_eq!((failed(&checks), not_judged(&checks)), (vec![], names.to_vec()));
    // A limit is a number even if no request was due: JSON has no infinity.
    let none = changed(|all, schedule| {
        (all.replies, all.latencies) = (0, 0);
        (schedule.due, schedule.sent, schedule.gap_scheduled_ns) = (0, 0, f64::MAX);
    });
    assert!(none.iter().all(|check| check.limit.is_finite()), "{none:?}");
    assert_eq!(failed(&none), ["empty_window"]);
    // If a twentieth of all requests is in the system, the edges matter more than the window.
    let checks = changed(|all, _| (all.in_system, all.latency_mean_ns) = (400.0, 1.0));
    assert_eq!(not_judged(&checks), ["little"]);
}

#[test]
fn gaps_of_requests_that_wait_for_the_server_are_not_judged() {
    let checks = changed(|_, schedule| (schedule.waited, schedule.gaps) = (101, Some((300_000.0, 3.0))));
    assert_eq!((failed(&checks), not_judged(&checks)), (vec![], vec!["gap_mean", "gap_variation"]));
}

#[test]
fn even_arrivals_may_scatter_by_what_a_wake_up_costs() {
    let even = |variation| {
        changed(|_, schedule| {
            (schedule.variation_scheduled, schedule.gap_scheduled_ns) = (0.0, 1_000_000.0);
            schedule.gaps = Some((1_000_000.0, variation));
        })
    };
    assert_eq!(failed(&even(0.14)), [""; 0]);
    assert_eq!(failed(&even(0.16)), ["gap_variation"]);
}

#[test]
fn threads_that_share_a_cpu_have_no_time_left_either() {
    let of = |generator: Generator, cpus| {
        let checks = changed(|all, _| (all.generators, all.cpus) = (vec![generator.clone(); 2], cpus));
        failed(&checks).contains(&"generator_cpu")
    };
    assert!(of(Generator { elapsed_ns: 1000, cpu_ns: 500, waited_ns: 4 }, 1));
    // A ring's wait includes work.
    let in_the_wait = Generator { elapsed_ns: 1000, cpu_ns: 490, waited_ns: 900 };
    assert!(of(in_the_wait.clone(), 1));
    assert!(!of(in_the_wait, 2));
}

#[test]
fn requests_in_flight_at_the_edges_vary_by_chance() {
    let off = |replies, in_system| {
        let checks = changed(|all, schedule| {
            (schedule.due, schedule.sent) = (1000, 1000);
            (all.replies, all.in_system, all.latencies) = (replies, in_system, 0);
        });
        failed(&checks).contains(&"achieved_rate")
    };
    // Four standard errors of 100 in the system are 57.
    assert!(off(1000 - 45, 2.0) && !off(1000 - 45, 100.0) && !off(1000 + 60, 100.0));
    assert!(off(1000 - 70, 100.0));
}

#[test]
fn with_few_requests_missing_replies_are_noticed() {
    let of = |due, replies, in_system| {
        let checks = changed(|all, schedule| {
            (schedule.due, schedule.sent, schedule.gaps) = (due, due, None);
            (all.replies, all.in_system, all.latencies) = (replies, in_system, replies);
        });
        checks.iter().find(|check| check.name == "achieved_rate").unwrap().holds
    };
    assert_eq!(of(90, 0, 45.0), Some(false));
    assert_eq!(of(90, 88, 2.0), Some(true));
    assert_eq!(of(10, 0, 5.0), None);
}

#[test]
fn littles_law_uses_the_number_of_connections_if_known() {
    let of = |always| failed(&changed(|all, _| all.always_under_way = always)).len();
    assert_eq!((of(None), of(Some(2)), of(Some(3))), (0, 0, 1));
    let with_errors = changed(|all, _| (all.in_system, all.errors) = (9.0, BTreeMap::from([("reset", 1)])));
    assert_eq!((failed(&with_errors), not_judged(&with_errors)), (vec!["errors"], vec!["little"]));
}

/// Simulates requests that are due at random moments, and applies Little's law to a window of them, twenty times.
fn simulated(seconds: f64, rate: f64, latency: impl Fn(f64, f64) -> f64) -> (usize, usize) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut uniform = || -> f64 { StandardUniform.sample(&mut random) };
    let (mut wrong, mut judged) = (0, 0);
    for _ in 0..20 {
        let mut at = -10.0 * uniform();
        let (mut within, mut times) = (0.0, Vec::new());
        while at < seconds {
            let time = latency(at, uniform());
            within += ((at + time).min(seconds) - at.max(0.0)).max(0.0);
            if at >= 0.0 {
                times.push(time);
            }
            at -= (1.0 - uniform()).ln() / rate;
        }
        let checks = changed(|all, _| {
            times.sort_by(f64::total_cmp);
            let rising: Vec<_> = times.iter().map(|time| (time * 1e9, 1)).collect();
            (all.window_ns, all.latencies) = ((seconds * 1e9) as u64, times.len() as u64);
            (all.in_system, all.latency_mean_ns) =
                (within / seconds, 1e9 * times.iter().sum::<f64>() / times.len() as f64);
            all.latency_cube_ns3 = cube_of_latencies(&rising, all.window_ns);
        });
        let little = checks.iter().find(|check| check.name == "little").unwrap();
        wrong += usize::from(little.holds == Some(false));
        judged += usize::from(little.holds.is_some());
    }
    (wrong, judged)
}

#[test]
fn a_steady_load_of_a_server_with_a_tail_is_not_found_unsteady_by_chance() {
    let tail = |_: f64, draw: f64| if draw < 0.01 { 0.1 } else { 0.0001 };
    assert_eq!(simulated(1.0, 500.0, tail).0, 0);
    assert_eq!(simulated(60.0, 500.0, tail), (0, 20), "of a longer window it is judged");
    // Every half second the server stalls for 50 ms.
    let stalls = |at: f64, _: f64| if at.rem_euclid(0.5) < 0.05 { 0.0502 - at.rem_euclid(0.5) } else { 0.0002 };
    assert_eq!(simulated(0.97, 1000.0, stalls).0, 0);
    assert_eq!(simulated(60.0, 1000.0, stalls), (0, 20));
    assert_eq!(simulated(1.0, 5000.0, |_, draw| 0.0001 + 0.0001 * draw), (0, 20));
}

/// Four connections always have a request in flight; the server forgets one in the middle of the window. The law finds
/// half a request missing, even if a single reply was late before that.
#[test]
fn one_late_reply_hides_no_connection_that_is_forgotten() {
    for late in [None, Some(60e6), Some(200e6)] {
        let checks = changed(|all, _| {
            (all.window_ns, all.latencies, all.in_system) = (2_000_000_000, 150_000, 4.0);
            (all.always_under_way, all.latency_mean_ns) = (Some(4), 3.5 * 2e9 / 150_000.0);
            let rising: Vec<_> =
                [(all.latency_mean_ns, 149_999)].into_iter().chain(late.map(|late| (late, 1))).collect();
            all.latency_cube_ns3 = cube_of_latencies(&rising, all.window_ns);
            all.latency_most_ns = late.unwrap_or(1e6) as u64;
        });
        assert_eq!(failed(&checks), ["little"], "{late:?}");
    }
}

#[test]
fn latencies_count_with_those_that_may_have_been_as_long_together() {
    // One request per millisecond, and at most as many as arrive in half of each latency.
    let cube =
        |rising: &[(f64, u64)]| cube_of_latencies(rising, 1_000_000 * rising.iter().map(|step| step.1).sum::<u64>());
    assert_eq!(cube(&[]), 0.0);
    assert_eq!(cube(&[(2.0, 7)]), 8.0);
    assert_eq!(cube(&[(2.0, 7), (8e6, 1)]), (7.0 * 8.0 + 512e18) / 8.0);
    assert_eq!(cube(&[(8e6, 10)]), 4.0 * 512e18);
    assert_eq!(cube(&[(4e6, 1), (8e6, 1)]), (64e18 * 2.0 + 512e18 * 2.0) / 2.0);
    assert_eq!(cube(&[(3e6, 1), (8e6, 1)]), (27e18 * 1.5 + 512e18) / 2.0);
}

#[test]
fn numbers_that_differ_are_shown_to_differ() {
    let shown = [0.0, 0.0312, 0.0287, 1.705, 64.0, 1234.6].map(in_three_digits);
    assert_eq!(shown, ["0", "0.0312", "0.0287", "1.71", "64.0", "1235"].map(str::to_owned));
}

#[test]
fn an_interrupt_is_no_fault_of_the_server() {
    let checks = changed(|all, schedule| (all.planned_ns, schedule.never_sent) = (None, 2));
    let [check] = &checks.iter().filter(|check| check.holds == Some(false)).collect::<Vec<_>>()[..] else { panic!() };
    assert!(check.words.contains("the load was interrupted"), "{checks:?}");
}
