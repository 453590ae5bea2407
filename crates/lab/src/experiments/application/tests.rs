//! Servers with known answers, and the findings from them.

use niclab_device::requests::{Pace, Protocol, Requested};
use niclab_device::{
    BreakdownObservation, BreakdownTerm, CoreUse, DeviceError, DeviceInfo, Energy, Host, Latency,
    Observation, PathNode, RequestsObservation, Setup, SetupReport, Task, Testbed,
};
use niclab_result::{Figure, Mark, Outcome};

use super::metrics::{ENERGY, RATE, WAITING, put_application};
use crate::measure::Metrics;
use crate::spec::GridName;
use crate::validation::{MeasuredModel, measure};

/// A request takes 40 us alone, 50 us from there, and 5 us of a core of the server: so 200 k/s are
/// answered on a core, and as many more on each other.
pub struct Servers {
    about: DeviceInfo,
    /// What it has not.
    lacks: Option<(Protocol, &'static str)>,
    /// Why it ends early.
    ended: Option<&'static str>,
    /// The clients' cores work all the time, and the server's half of it.
    is_slow_client: bool,
    /// Share of the time in which the clients' cores work.
    client_busy: f64,
    /// Where the server has several cores, the clients have one of them.
    shares_core: bool,
    /// Why nobody knows the energy.
    no_meter: Option<&'static str>,
    /// Why nobody knows where the time goes.
    no_probes: Option<&'static str>,
    /// All takes so many times as long.
    pub slowness: f64,
}

impl Servers {
    pub fn new() -> Servers {
        let seat = |role: &str| PathNode { role: role.into(), label: "a host".into(), core: None };
        let hosts = ["client", "wire", "server"].map(seat).into();
        let about = DeviceInfo { name: "known".into(), hosts, ..DeviceInfo::default() };
        Servers {
            about,
            lacks: None,
            ended: None,
            is_slow_client: false,
            client_busy: 0.3,
            shares_core: false,
            no_meter: None,
            no_probes: None,
            slowness: 1.0,
        }
    }
}

/// Time of the server's core that a request takes, nanoseconds.
const WORK_NS: f64 = 5_000.0;

fn core(core: u32, busy: f64) -> CoreUse {
    let busy_ns = (busy * 1e9) as u64;
    let user_ns = busy_ns / 2;
    let (softirq_ns, system_ns) = (busy_ns / 10, busy_ns - user_ns - busy_ns / 10);
    let idle_ns = 1_000_000_000 - busy_ns;
    CoreUse { core, user_ns, system_ns, softirq_ns, idle_ns, ..CoreUse::default() }
}

impl Testbed for Servers {
    fn about(&self) -> &DeviceInfo {
        &self.about
    }

    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError> {
        assert!(setup.rules.is_empty(), "an application needs no rules");
        Ok(SetupReport::default())
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        let Task::Requests(application) = task else { return Err(task.not_supported()) };
        let asked = &application.requests;
        if let Some((protocol, capability)) = self.lacks
            && protocol == asked.protocol
        {
            return Err(DeviceError::lacks(capability));
        }
        let alone_ns = if application.client == Host::There { 50_000.0 } else { 40_000.0 };
        let alone_ns = alone_ns * self.slowness;
        let waiting = f64::from(asked.connections) * f64::from(asked.depth);
        let most = f64::from(application.cores) * 1e9 / WORK_NS;
        let per_s = match asked.pace {
            Pace::Closed => (waiting / alone_ns * 1e9).min(most),
            Pace::Open { per_s } => per_s.min(most),
        };
        let latency_ns = if per_s < most { alone_ns } else { waiting / per_s * 1e9 };
        let count = (per_s * asked.duration_ns as f64 / 1e9) as u64;
        let mut latency = Latency::new();
        latency.record_n(latency_ns as u64, count);
        let requested = Requested {
            duration_ns: asked.duration_ns,
            planned: count,
            sent: count,
            answered: count,
            latency,
            ended: self.ended.map(String::from),
            ..Requested::default()
        };
        let busy = (per_s / most).min(1.0);
        let (server, client) = match self.is_slow_client {
            true => (0.5, 1.0),
            false => (busy, self.client_busy),
        };
        let server = (1..=application.cores.into()).map(|at| core(at, server)).collect();
        let energy = match self.no_meter {
            None => Energy::Measured { joules: count as f64 / 1e4, meters: vec!["one".into()] },
            Some(why) => Energy::Unknown { why: why.into() },
        };
        let is_shared = self.shares_core && application.cores > 1;
        let client = vec![core(u32::from(is_shared), client)];
        let breakdown = application.stamps.then(|| match self.no_probes {
            None => Ok(breakdown(latency_ns)),
            Some(why) => Err(why.to_owned()),
        });
        let (link, watched_ns) = (None, requested.duration_ns);
        let observation =
            RequestsObservation { requested, client, server, link, energy, watched_ns, breakdown };
        Ok(Observation::Requests(observation))
    }
}

/// A tenth of the time is the client's on the way there, six are the server's, two the client's on
/// the way back, one the wire's; and four stamps cost 100 ns each.
fn breakdown(latency_ns: f64) -> BreakdownObservation {
    let shares =
        [("client_transmit", 0.1), ("server", 0.6), ("client_receive", 0.2), ("hardware", 0.1)];
    let term = |(name, share): (&str, f64)| BreakdownTerm {
        name: name.into(),
        mean_ns: share * latency_ns,
        median_ns: share * latency_ns,
        tail_ns: share * latency_ns,
        core: (name == "server").then_some(1),
        core_share: 1.0,
    };
    let mut with = Latency::new();
    with.record_n(latency_ns as u64, 100);
    let pair = [latency_ns as u64 + 400, latency_ns as u64];
    BreakdownObservation {
        messages: 100,
        rtt_ns: latency_ns,
        terms: shares.map(term).into(),
        without: with.clone(),
        with,
        pairs: vec![pair; 3],
        stamps: 4,
        ..BreakdownObservation::default()
    }
}

fn measured(servers: &mut Servers, name: &str, set: &[&str]) -> MeasuredModel {
    measure(servers, name, GridName::Reduced, set, Some(6)).unwrap()
}

fn finding(measured: &MeasuredModel, id: &str) -> (String, f64) {
    let findings = measured.summary().findings;
    let found = findings.iter().find(|finding| finding.id == format!("known-{id}"));
    let found = found.unwrap_or_else(|| panic!("no {id} among {findings:#?}"));
    (found.sentence.clone(), found.value.value)
}

/// `true` within a thousandth: what a histogram keeps.
fn near(value: f64, wanted: f64) -> bool {
    (value / wanted - 1.0).abs() < 2e-3
}

#[test]
fn a_request_alone_the_most_of_them_and_what_bounds_them_are_found_as_they_are() {
    let measured = measured(&mut Servers::new(), "memcached", &[]);
    let (sentence, value) = finding(&measured, "memcached-memcached-udp-alone");
    assert!(sentence.starts_with("A set of 64 B takes 40.0 us with memcached over UDP"));
    assert!(near(value, 40_000.0), "{value}");
    let (sentence, value) = finding(&measured, "memcached-memcached-udp-most");
    assert!(sentence.contains("limited by the server's cores"), "{sentence}");
    assert!(sentence.contains("is busy 100 % of the time."), "{sentence}");
    assert!(near(value, 200_000.0), "{value}");
    let experiment = measured.summary().experiments.remove(0);
    let published = experiment.tables.iter().find(|table| table.id == "memcached-published");
    let rows = &published.unwrap().rows;
    // As the histogram keeps it.
    assert_eq!(rows[0], ["memcached", "known", "40.03 (50.02)", "40.03 (50.02)", "measured"]);
    assert!(rows.iter().any(|row| row[1] == "BlueField2, SNIC" && row[4] == "published"));
    let ids: Vec<&str> = experiment.figures.iter().map(|figure| figure.id.as_str()).collect();
    assert_eq!(ids[..2], ["memcached-rate-parallel", "memcached-latency-parallel"], "{ids:?}");
    let joules = measured.samples.iter().map(|sample| sample.metrics["joules_per_request"].value);
    joules.for_each(|joules| assert!(near(joules, 1e-4), "{joules}"));
}

#[test]
fn queued_requests_have_their_own_curve_and_curves_go_from_left_to_right() {
    let mut experiment =
        measured(&mut Servers::new(), "redis", &[]).summary().experiments.remove(0);
    let at = |id: &str, figures: &[Figure]| figures.iter().position(|figure| figure.id == id);
    let place = at("redis-rate-parallel", &experiment.figures).unwrap();
    let series = experiment.figures.remove(place).series;
    let of = |words: &str| {
        let found = series.iter().find(|series| series.name.contains(words));
        let found = found.unwrap_or_else(|| panic!("no {words} among {series:?}"));
        found.points.iter().map(|point| point.x).collect::<Vec<f64>>()
    };
    assert_eq!(of("64 B, 1 waiting on each"), [1.0, 15.0, 100.0, 1000.0]);
    assert_eq!(of("64 B, 16 waiting on each"), [240.0]);
}

#[test]
fn the_breakdown_of_a_request_or_the_reason_for_its_absence_is_reported() {
    let observation = measured(&mut Servers::new(), "redis", &[]);
    let (sentence, value) = finding(&observation, "redis-redis-inside");
    let reported = "The server's stack and program take 60.0 % of the time of a set of 64 B with \
                    Redis on known.";
    assert!(sentence.starts_with(reported), "{sentence}");
    assert!(near(value, 60.0), "{value}");
    let table = |measured: MeasuredModel| {
        let tables = measured.summary().experiments.remove(0).tables;
        tables.into_iter().find(|table| table.id == "redis-breakdown")
    };
    let rows = table(observation).unwrap().rows;
    let asked: Vec<&str> = rows.iter().map(|row| row[1].as_str()).collect();
    let wanted = ["here, 64 B", "here, 1,024 B", "there, 64 B", "there, 1,024 B"];
    let wanted = wanted.map(|place| format!("clients {place}"));
    assert_eq!(asked, wanted, "those that a breakdown is asked for, by what they differ in");
    assert!(
        rows[0][3] == "24.0 us (core 1)" && rows[0][9] == "100 ns (100 ns to 100 ns)",
        "{rows:?}"
    );
    let lacking = Servers { no_probes: Some("stamps: no BPF"), ..Servers::new() };
    let observation = measured(&mut { lacking }, "redis", &[]);
    assert!(
        observation
            .samples
            .iter()
            .any(|sample| sample.counters["no_breakdown"] == "stamps: no BPF")
    );
    let used = observation.summary().experiments.remove(0).tables;
    let used = used.iter().find(|table| table.id == "redis-used").unwrap();
    assert!(
        used.title.ends_with(" No breakdown: not supported: stamps: no BPF."),
        "{}",
        used.title
    );
    assert_eq!(table(observation), None);
    let asked = |set: &str| {
        let error = measure(&mut Servers::new(), "redis", GridName::Reduced, &[set], Some(6));
        error.err().unwrap().to_string()
    };
    assert!(asked("stamps=perhaps").contains("use one of no, yes"));
    assert!(asked("stamps=no,yes").contains("give one value"));
}

#[test]
fn the_cost_of_a_request_or_the_reason_for_its_absence_is_reported() {
    let used = |measured: MeasuredModel| {
        let mut tables = measured.summary().experiments.remove(0).tables;
        tables.remove(tables.iter().position(|table| table.id == "redis-used").unwrap())
    };
    let known = used(measured(&mut Servers::new(), "redis", &[]));
    assert!(!known.title.contains("energy"), "{}", known.title);
    let at = |name: &str| known.columns.iter().position(|column| column == name).unwrap();
    assert!(known.rows.iter().all(|row| row[at("energy per request")] == "0.100 mJ"), "{known:?}");
    assert!(known.rows.iter().all(|row| row[at("server time per request")] == "5.00 us"));
    let no_meter = Some("the meter fell off");
    let unknown = used(measured(&mut Servers { no_meter, ..Servers::new() }, "redis", &[]));
    assert!(unknown.title.ends_with("No energy: the meter fell off."), "{}", unknown.title);
    assert!(unknown.rows.iter().all(|row| row[at("energy per request")] == "-"));
}

#[test]
fn the_gain_of_more_cores_is_found() {
    let set = ["cores=1,2", "connections=50/core"];
    let measured = measured(&mut Servers::new(), "core-scaling", &set);
    for protocol in ["memcached-tcp", "redis", "http"] {
        let (sentence, value) = finding(&measured, &format!("core-scaling-{protocol}-scaling"));
        assert!(sentence.starts_with("2 cores of known "), "{sentence}");
        assert!(sentence.contains("answer 2.00 times as many requests"), "{sentence}");
        assert!(near(value, 2.0), "{value}");
        let findings = measured.summary().findings;
        let is_it = |id: &str| id.ends_with(&format!("{protocol}-scaling"));
        let found = findings.iter().find(|finding| is_it(&finding.id)).unwrap();
        let one_thread = found.implication.starts_with("Redis runs commands on one thread");
        assert_eq!(one_thread, protocol == "redis", "{}", found.implication);
    }
}

#[test]
fn a_client_at_its_limit_marks_what_it_measured() {
    let mut servers = Servers { is_slow_client: true, ..Servers::new() };
    let measured = measured(&mut servers, "redis", &[]);
    let samples = &measured.samples;
    assert!(samples.iter().all(|sample| sample.marks.contains(&Mark::GeneratorLimited)));
    let (sentence, _) = finding(&measured, "redis-redis-most");
    assert!(sentence.contains("limited by the clients' cores"), "{sentence}");
}

#[test]
fn missing_capabilities_are_named_and_early_ends_are_kept() {
    let mut servers = Servers { lacks: Some((Protocol::Http, "a function")), ..Servers::new() };
    let missing = measured(&mut servers, "core-scaling", &["cores=1"]);
    assert!(missing.summary().warnings.iter().any(|said| said.contains("a function")));
    finding(&missing, "core-scaling-redis-most");

    let mut servers = Servers { ended: Some("the server was lost"), ..Servers::new() };
    let lost = measured(&mut servers, "redis", &["size=64"]);
    let samples = lost.samples;
    let is_kept = |sample: &&niclab_result::Sample| {
        matches!(&sample.outcome, Outcome::Failed { reason, .. } if reason.contains("lost"))
            && sample.metrics.contains_key(RATE)
    };
    assert_eq!(samples.iter().filter(is_kept).count(), samples.len());
}

#[test]
fn values_out_of_range_are_refused_with_what_would_be_right() {
    for (set, remedy) in [
        (
            "protocol=http2",
            "protocol = http2: use one of memcached-tcp, memcached-udp, redis, http",
        ),
        ("gets=101", "gets = 101: use 0 to 100"),
        ("size=small", "size = small: use 0 to 1048576 bytes, or etc"),
        ("connections=0", "connections = 0: use 1 to 10000, or so many for each core"),
        ("connections=x/core", "connections = x/core: use 1 to 10000"),
        ("cores=none", "cores = none: use 1 or more, or to-all"),
        ("depth=1025", "depth = 1025: use 1 to 1024"),
        ("rate=0", "rate = 0: use 1 to 1000M"),
        ("protocol=memcached-udp", ""),
    ] {
        let measured = measure(&mut Servers::new(), "redis", GridName::Reduced, &[set], Some(1));
        match (measured, remedy) {
            (Ok(_), "") => {}
            (Ok(_), _) => panic!("{set} passes"),
            (Err(error), remedy) => assert!(error.to_string().contains(remedy), "{set}: {error}"),
        }
    }
}

#[test]
fn shares_are_of_the_time_that_was_watched_and_of_no_answers_there_are_no_times() {
    use niclab_device::{Energy, LinkUse};

    // A link of 1 Gbps full for 3 s: the machine stood still behind the second of the requests.
    let requested = Requested { duration_ns: 1_000_000_000, ..Requested::default() };
    let link = LinkUse { tx_bytes: 375_000_000, rx_bytes: 0, bits_per_s: Some(1_000_000_000) };
    let silent = RequestsObservation {
        requested: requested.clone(),
        link: Some(link),
        watched_ns: 3_000_000_000,
        ..RequestsObservation::default()
    };
    let mut metrics = Metrics::new();
    put_application(&mut metrics, &silent);
    assert_eq!(metrics["link_ratio"].value, 1.0);
    assert_eq!(metrics[RATE].value, 0.0);
    let times = metrics.keys().filter(|name| name.contains("_ns") || *name == WAITING);
    assert_eq!(times.count(), 0, "{metrics:?}");
    let energy = Energy::Measured { joules: 30.0, meters: vec!["one".into()] };
    let requested = Requested { answered: 10, ..requested };
    let mut metrics = Metrics::new();
    put_application(&mut metrics, &RequestsObservation { requested, energy, ..silent });
    assert!((metrics[ENERGY].value - 1.0).abs() < 1e-12, "{metrics:?}");
}

#[test]
fn busy_clients_keep_the_servers_cores_from_being_the_limit() {
    let mut servers = Servers { client_busy: 0.97, ..Servers::new() };
    let measured = measured(&mut servers, "memcached", &[]);
    let (sentence, _) = finding(&measured, "memcached-memcached-udp-most");
    assert!(sentence.contains("limited by the cores of both sides"), "{sentence}");
    let found = measured.summary().findings.into_iter().find(|of| of.id.ends_with("udp-most"));
    let implication = found.unwrap().implication;
    assert!(implication.starts_with("Both sides are always busy"), "{implication}");
}

#[test]
fn a_server_scales_where_clients_share_no_core_with_it_and_have_time_left() {
    let set = ["cores=1,2", "connections=50/core"];
    let ids = |mut servers: Servers| {
        let measured = measured(&mut servers, "core-scaling", &set);
        measured.summary().findings.into_iter().map(|of| of.id).collect::<Vec<String>>()
    };
    let has_scaling = |ids: &[String]| ids.iter().any(|id| id.ends_with("-scaling"));
    assert!(has_scaling(&ids(Servers::new())));
    for servers in [
        Servers { shares_core: true, ..Servers::new() },
        Servers { client_busy: 1.0, ..Servers::new() },
    ] {
        let ids = ids(servers);
        assert!(!has_scaling(&ids), "{ids:?}");
        assert!(ids.contains(&"known-core-scaling-redis-most".to_owned()), "{ids:?}");
    }
}
