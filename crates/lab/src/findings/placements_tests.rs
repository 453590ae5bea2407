//! The published tables as known answers, and findings from few and many repeats.

use super::*;

fn of_published() -> Vec<Finding> {
    findings(&published())
}

fn found<'a>(all: &'a [Finding], id: &str) -> &'a Finding {
    all.iter().find(|one| one.id.ends_with(id)).unwrap_or_else(|| panic!("{id}: {all:#?}"))
}

fn near(value: f64, expected: f64) -> bool {
    (value / expected - 1.0).abs() < 1e-6
}

#[test]
fn the_soonest_place_of_each_published_application_is_the_one_in_the_table() {
    let all = of_published();
    // Numbers of table 2: the lowest of 64 B, and the second.
    for (id, label, lowest, second, highest) in [
        ("placement-udp_echo-client", "Stingray, SNIC", 17.69, 18.22, 39.15),
        ("placement-udp_echo-server", "Stingray, host", 18.31, 18.42, 46.21),
        ("placement-memcached-client", "Stingray, host", 27.68, 28.28, 67.78),
        ("placement-memcached-server", "CX-4Lx, host", 25.58, 26.49, 70.71),
        ("placement-redis-client", "CX-4Lx, host", 40.84, 43.09, 82.87),
        ("placement-redis-server", "Stingray, SNIC", 37.38, 38.32, 80.33),
        ("placement-openlambda-server", "Stingray, SNIC", 2519.0, 3330.0, 4242.0),
    ] {
        let one = found(&all, id);
        assert_eq!(one.device, label, "{id}");
        assert!(near(one.value.value, second / lowest), "{one:?}");
        let longest = format!("takes {:.2} times as long", highest / lowest);
        assert!(one.sentence.contains(&longest), "{one:?}");
        assert!(one.sentence.contains(&words::time(1e3 * lowest)), "{one:?}");
    }
    let functions = |one: &Finding| one.id.ends_with("openlambda-client");
    assert!(!all.iter().any(functions), "a function is published with its server there alone");
}

#[test]
fn the_lessons_are_computed_from_the_published_tables() {
    let all = of_published();
    // Stingray's and BlueField2's own CPU by their host's, the latter on-path and off-path: three
    // applications of two lengths both ways, and the function one way: 2519 by 3384 us to 75.81 by
    // 28.04.
    let cpu = found(&all, "lesson-snic-cpu");
    let range = "the median of 42 cases from 0.74 (Stingray, SNIC: server of function, 64 B) to \
                 2.70 (BlueField2, SNIC: server of memcached, 1,024 B)";
    assert!(cpu.sentence.contains(range), "{cpu:?}");
    assert!((cpu.value.value - 1.73).abs() < 0.01, "{cpu:?}");
    assert!(
        cpu.implication.starts_with("The CPU nearer to the wire is not the faster one"),
        "{cpu:?}"
    );

    // 22.5 of 49.1 us to 17.1 of 23.0.
    let hardware = found(&all, "lesson-hardware");
    let range = "the median of 10 cases from 45.8 % (BlueField2, SNIC: client) to 74.3 % \
                 (BlueField2, host: server)";
    assert!(hardware.sentence.contains(range), "{hardware:?}");
    assert!(hardware.implication.starts_with("Most of the time is spent in hardware"));

    // 77.01 by 82.87 us to 88.70 by 67.91.
    let path = found(&all, "lesson-on-path");
    let range = "the median of 28 cases from 0.93 (BlueField2, SNIC: client of Redis, 64 B) to \
                 1.31 (BlueField2, SNIC: server of Redis, 1,024 B)";
    assert!(path.sentence.contains(range), "{path:?}");
    assert!((path.value.value - 1.03).abs() < 0.005, "{path:?}");

    // 22.5 - 3.1 and 16.0 - 2.8; 9.2 - 5.5 and 7.7 - 3.3.
    let side = found(&all, "lesson-side");
    let words = "19.4 us and 13.2 us on BlueField2, SNIC; 3.70 us and 4.40 us on Stingray, SNIC";
    assert!(side.sentence.contains(words) && side.sentence.contains("costs a client more time"));
    assert!(near(side.value.value, 6_200.0), "{side:?}");
}

/// Two rows that were measured, six repeats each, of these round trips.
fn of_repeats(parts: [usize; 2], values: [[f64; 6]; 2]) -> Vec<Placed> {
    let row = |(label, cpu, part, values): (&str, Cpu, usize, [f64; 6])| Placed {
        label: label.to_owned(),
        cpu: Some(cpu),
        round_trips: vec![RoundTrip {
            application: "udp_echo",
            size: 64.0,
            side: CpuProgram::Client,
            part: Some(part),
            values: (0..).zip(values).collect(),
        }],
        ..Placed::default()
    };
    let [a, b] = values;
    vec![row(("a", Cpu::Host, parts[0], a)), row(("b", Cpu::Snic, parts[1], b))]
}

/// Repeats that scatter by far more than the two differ, but always the same way.
const BASE: [f64; 6] = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0];

#[test]
fn repeats_are_paired_within_a_run_and_not_between_runs() {
    let more = BASE.map(|ns| 1.1 * ns);
    let paired = &findings(&of_repeats([0, 0], [BASE, more]))[0];
    assert!(near(paired.value.value, 1.1) && paired.device == "a", "{paired:?}");
    assert!(paired.sentence.contains("1.10 times as long (repeat by repeat of one run)."));
    let apart = findings(&of_repeats([0, 1], [BASE, more]));
    let is_soonest = |one: &Finding| one.id.contains("placement-udp_echo");
    assert!(!apart.iter().any(is_soonest), "it may be no difference: {apart:?}");
    let far = &findings(&of_repeats([0, 1], [BASE, BASE.map(|ns| 20.0 * ns)]))[0];
    assert!(far.sentence.contains("(repeats of different runs, not paired)"), "{far:?}");
    assert!(far.interval.is_some_and(|(low, _)| low > 1.0), "{far:?}");
}

#[test]
fn a_lesson_is_reported_where_its_data_exist() {
    let all = findings(&of_repeats([0, 1], [BASE, BASE.map(|ns| 20.0 * ns)]));
    let ids: Vec<&str> = all.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, ["a-placement-udp_echo-client", "lesson-snic-cpu"]);
    let cpu = found(&all, "lesson-snic-cpu");
    assert!(cpu.sentence.ends_with("on its host's (b: client of UDP echo, 64 B)."), "{cpu:?}");
    assert!(cpu.implication.contains("Published: 1.73, the median of 42"), "{cpu:?}");
    // Too few repeats conclude nothing, and neither does a SmartNIC with two hosts.
    let mut few = of_repeats([0, 1], [BASE, BASE]);
    few[1].round_trips[0].values.truncate(2);
    assert!(findings(&few).is_empty());
    let mut two = of_repeats([0, 1], [BASE, BASE]);
    two.push(Placed { label: "c".to_owned(), ..two[0].clone() });
    assert!(!findings(&two).iter().any(|one| one.id.starts_with("lesson")));
}

#[test]
fn a_path_is_compared_where_it_was_measured() {
    let mut rows = of_repeats([0, 1], [BASE, BASE.map(|ns| 2.0 * ns)]);
    (rows[0].way, rows[1].way) = (Some(CpuPath::Off), Some(CpuPath::On));
    rows[1].cpu = rows[0].cpu;
    let all = findings(&rows);
    assert!(near(found(&all, "lesson-on-path").value.value, 2.0), "{all:?}");
    rows.iter_mut().for_each(|row| row.is_computed = true);
    assert!(!findings(&rows).iter().any(|one| one.id == "lesson-on-path"));
}
