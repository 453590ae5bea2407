//! Clients on one host ask real servers on the other, and nothing is left of either.

use std::sync::Mutex;
use std::time::Instant;

use niclab_load::requests::{KeyLength, KeySelection, Order, Protocol, Values};

use super::*;
use crate::face::measured;
use crate::face::{Family, Testbed};
use crate::linux;
use crate::linux::veth_tests::cores;

fn application(protocol: Protocol, client: Host) -> Application {
    let requests = Requests {
        protocol,
        get_ratio: 0.5,
        keys: KeySelection { count: 100, order: Order::Uniform, length: KeyLength::Fixed(16) },
        values: Values::Fixed(64),
        path: "/".to_owned(),
        connections: 5,
        depth: 2,
        pace: Pace::Closed,
        duration_ns: 100_000_000,
        warmup_ns: 20_000_000,
        seed: 1,
    };
    Application { client, family: Family::V4, cores: 1, stamps: false, requests }
}

fn open(test: &str) -> Option<(impl Drop, Box<dyn Testbed>)> {
    let alone = cores(test)?;
    Some((alone, linux::open("linux:veth").unwrap()))
}

#[test]
fn real_servers_answer_clients_of_both_hosts() {
    let Some((_alone, mut bed)) = open("real_servers_answer_clients_of_both_hosts") else { return };
    let protocols =
        [Protocol::MemcachedTcp, Protocol::MemcachedUdp, Protocol::Redis, Protocol::Http];
    for protocol in protocols {
        for (client, family) in [(Host::Here, Family::V4), (Host::There, Family::V6)] {
            let mut asked = application(protocol, client);
            asked.family = family;
            let observed = match measured::requests(&mut *bed, &asked) {
                Ok(observed) => observed,
                Err(DeviceError::NotSupported { capability }) => {
                    println!("SKIP real_servers_answer_clients_of_both_hosts: {capability}");
                    continue;
                }
                Err(error) => panic!("{asked:?}: {error}"),
            };
            let requested = &observed.requested;
            assert!(requested.answered > 0, "{asked:?}: {requested:?}");
            let clean = (requested.lost, requested.refused, requested.foreign, requested.misses);
            assert_eq!(clean, (0, 0, 0, 0), "{asked:?}: {requested:?}");
            assert_eq!(requested.ended, None, "{asked:?}");
            // The hosts have a core each, and what goes over the wire is more than what is asked.
            assert_eq!((observed.client.len(), observed.server.len()), (1, 1));
            assert_ne!(observed.client[0].core, observed.server[0].core);
            assert!(observed.link.unwrap().tx_bytes > 0, "{observed:?}");
        }
    }
}

#[test]
fn servers_end_with_their_device() {
    let Some((_alone, mut bed)) = open("servers_end_with_their_device") else { return };
    if let Err(DeviceError::NotSupported { capability }) =
        measured::requests(&mut *bed, &application(Protocol::MemcachedTcp, Host::Here))
    {
        println!("SKIP servers_end_with_their_device: {capability}");
        return;
    }
    let own = std::process::id();
    let children = || {
        let tasks = std::fs::read_dir(format!("/proc/{own}/task")).unwrap().flatten();
        let of = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children"));
        tasks.filter_map(|task| of(task).ok()).collect::<String>()
    };
    let is_server = |pid: &str| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.trim() == "memcached"
    };
    assert!(children().split_whitespace().any(is_server));
    drop(bed);
    assert!(!children().split_whitespace().any(is_server));
}

#[test]
fn an_impossible_task_is_refused_with_its_reason() {
    let Some((_alone, mut bed)) = open("an_impossible_task_is_refused_with_its_reason") else {
        return;
    };
    let mut asked = application(Protocol::MemcachedTcp, Host::Here);
    asked.cores = allowed().len() as u16 + 1;
    let error = measured::requests(&mut *bed, &asked).unwrap_err().to_string();
    assert!(error.contains("not supported") && error.contains("cores for the server"), "{error}");
    asked.cores = 1;
    asked.requests.connections = 0;
    let error = measured::requests(&mut *bed, &asked).unwrap_err();
    assert!(matches!(&error, DeviceError::BadLoad { reason } if reason.contains("connections")));
}

#[test]
fn cores_go_to_the_server_first_and_one_is_shared_where_it_takes_all() {
    let there = |cores| shares(&[0, 1, 2, 3], Host::There, cores).unwrap();
    assert_eq!(there(1), (vec![1], vec![2, 3, 0]));
    assert_eq!(there(3), (vec![1, 2, 3], vec![0]));
    assert_eq!(there(4), (vec![1, 2, 3, 0], vec![0]));
    let here = |cores| shares(&[0, 1, 2, 3], Host::Here, cores).unwrap();
    assert_eq!(here(1), (vec![0], vec![3, 2, 1]));
    assert_eq!(here(4), (vec![0, 3, 2, 1], vec![1]));
    assert_eq!(shares(&[4, 7], Host::Here, 2).unwrap(), (vec![4, 7], vec![7]));
    for cores in [0, 5] {
        assert!(shares(&[0, 1, 2, 3], Host::There, cores).is_err(), "{cores}");
    }
}

#[test]
fn clients_share_connections_and_rate() {
    let mut requests = application(Protocol::Redis, Host::Here).requests;
    (requests.connections, requests.pace) = (10, Pace::Open { per_s: 1_000.0 });
    let split = split(&requests, 4);
    let connections: Vec<u16> = split.iter().map(|one| one.connections).collect();
    assert_eq!(connections, [3, 3, 2, 2]);
    let per_s: f64 = split
        .iter()
        .map(|one| match one.pace {
            Pace::Open { per_s } => per_s,
            Pace::Closed => 0.0,
        })
        .sum();
    assert!((per_s - 1_000.0).abs() < 1e-9);
    let mut seeds: Vec<u64> = split.iter().map(|one| one.seed).collect();
    seeds.dedup();
    assert_eq!(seeds.len(), 4);
    // A client without a connection would ask nothing.
    requests.connections = 2;
    assert_eq!(super::split(&requests, 4).len(), 2);
}

#[test]
fn resource_use_is_sampled_after_the_last_client_has_started() {
    let mut requests = application(Protocol::Redis, Host::Here).requests;
    (requests.connections, requests.duration_ns) = (2, 40_000_000);
    let (started, looks) = (Instant::now(), Mutex::new(Vec::new()));
    let look = || {
        looks.lock().unwrap().push(started.elapsed());
        ResourceSample::now(&NetNs::current(), None, (&[], &[]))
    };
    // The second client's connections take long, and its time is as long as the first one's.
    let slow = Duration::from_millis(120);
    let work = |begun: OnStart<'_>| {
        begun();
        thread::sleep(slow);
        begun();
        thread::sleep(Duration::from_nanos(requests.warmup_ns + requests.duration_ns));
    };
    watched(look, &requests, 2, work).unwrap();
    let looks = looks.lock().unwrap();
    assert_eq!(looks.len(), 2);
    assert!(looks[0] >= slow + Duration::from_nanos(requests.warmup_ns), "{looks:?}");

    // Nobody begins where no connection is made.
    let never = || -> std::io::Result<ResourceSample> { panic!("nothing to look at") };
    let (_, meanwhile) = watched(never, &requests, 2, |begun| begun()).unwrap();
    assert!(meanwhile.client.is_empty());
}
