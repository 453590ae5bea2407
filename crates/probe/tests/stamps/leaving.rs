//! What is attached goes, with its owner at the latest, and what others attached stays.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use niclab_probe::{Direction, Hook, ProbeError, Stamps, clean, leftovers};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use crate::system::tcx_programs;
use crate::udp::receive;
use crate::wire::{End, INDEX, PORT, Wire, hooks, request};

/// All that `tc` tells of the near interface, and the programs that it does not tell of.
fn state(wire: &Wire) -> String {
    let mut state = wire.type_in(End::Near, "tc qdisc show dev near");
    for direction in ["egress", "ingress"] {
        state += &wire.type_in(End::Near, &format!("tc filter show dev near {direction}"));
    }
    let programs = wire.within(End::Near, || tcx_programs(INDEX)).len();
    format!("{state}{programs} by TCX")
}

/// Waits until the state is `wanted`: the kernel lets go of what a dead process held in its time.
fn becomes(wire: &Wire, wanted: &str) {
    for _ in 0..100 {
        if state(wire) == wanted {
            return;
        }
        sleep(Duration::from_millis(20));
    }
    assert_eq!(state(wire), wanted);
}

fn stamps_one(wire: &Wire, stamps: &Stamps) {
    let before = stamps.counts().unwrap().payload;
    let (client, server) = wire.udp_pair(false);
    client.send(&request(128, 1)).unwrap();
    assert!(receive(&server).is_some());
    assert_eq!(stamps.counts().unwrap().payload, before + 1);
}

#[test]
fn dropped_or_detached_the_interface_is_as_it_was() {
    const NAME: &str = "dropped_or_detached_the_interface_is_as_it_was";
    let Some(wire) = Wire::lay(NAME) else { return };
    let before = state(&wire);
    for hook in hooks(&wire, NAME) {
        let stamps = wire.attach(End::Near, hook);
        assert_ne!(state(&wire), before);
        stamps_one(&wire, &stamps);
        // On this thread, which is in another namespace.
        drop(stamps);
        becomes(&wire, &before);
        wire.attach(End::Near, hook).detach().unwrap();
        becomes(&wire, &before);
    }
    let stamps = wire.within(End::Near, || Stamps::attach(INDEX, PORT)).unwrap();
    assert_eq!(stamps.hook(), hooks(&wire, NAME)[0], "TCX is preferred");
}

#[test]
fn a_clsact_that_was_there_stays_with_what_is_on_it() {
    const NAME: &str = "a_clsact_that_was_there_stays_with_what_is_on_it";
    let Some(wire) = Wire::lay(NAME) else { return };
    for hook in hooks(&wire, NAME) {
        wire.type_in(End::Near, "tc qdisc add dev near clsact");
        let bare = state(&wire);
        drop(wire.attach(End::Near, hook));
        becomes(&wire, &bare);

        // At the place that ours would like to have; what it catches, ours would not see.
        let filter = "protocol all prio 1 u32 match u32 0x77777777 0xffffffff classid 1:1";
        wire.type_in(End::Near, &format!("tc filter add dev near egress {filter}"));
        let with_filter = state(&wire);
        let stamps = wire.attach(End::Near, hook);
        stamps_one(&wire, &stamps);
        drop(stamps);
        becomes(&wire, &with_filter);
        wire.type_in(End::Near, "tc qdisc del dev near clsact");
    }
}

#[test]
fn of_two_at_one_interface_the_last_takes_the_qdisc_away() {
    const NAME: &str = "of_two_at_one_interface_the_last_takes_the_qdisc_away";
    let Some(wire) = Wire::lay(NAME) else { return };
    let before = state(&wire);
    for hook in hooks(&wire, NAME) {
        let first = wire.attach(End::Near, hook);
        let second = wire.attach(End::Near, hook);
        if hook == Hook::Tcx {
            // Numbers rise: who came last is ahead, in both directions.
            let programs = wire.within(End::Near, || tcx_programs(INDEX));
            assert_eq!(programs.len(), 4);
            assert!(programs[0] > programs[1] && programs[2] > programs[3], "{programs:?}");
        }
        drop(first);
        stamps_one(&wire, &second);
        drop(second);
        becomes(&wire, &before);
    }
    // A filter of somebody else keeps the qdisc that we added.
    if hooks(&wire, NAME).contains(&Hook::Clsact) {
        let stamps = wire.attach(End::Near, Hook::Clsact);
        let filter = "protocol ip prio 9 u32 match u32 0 0 classid 1:1";
        wire.type_in(End::Near, &format!("tc filter add dev near egress {filter}"));
        drop(stamps);
        let state = state(&wire);
        assert!(state.contains("clsact") && state.contains("pref 9"), "{state}");
        assert!(!state.contains("niclab"), "{state}");
    }
}

/// What the process does that is killed: this program, started with a variable that says so.
#[test]
#[ignore = "no test: the process that others kill"]
fn attached_until_killed() {
    let hook = match std::env::var("NICLAB_PROBE_HOLD").as_deref() {
        Ok("tcx") => Hook::Tcx,
        Ok("clsact") => Hook::Clsact,
        _ => return,
    };
    let _stamps = Stamps::attach_by(hook, INDEX, PORT).unwrap();
    println!("\nattached");
    sleep(Duration::from_secs(60));
}

/// A process that has attached at the near end.
fn holder(wire: &Wire, hook: &str) -> Child {
    let mut child = wire.within(End::Near, || {
        Command::new(std::env::current_exe().unwrap())
            .args(["leaving::attached_until_killed", "--exact", "--ignored", "--nocapture"])
            .env("NICLAB_PROBE_HOLD", hook)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    });
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "attached"), "the child attaches");
    child
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn of_a_killed_process_tcx_leaves_nothing() {
    const NAME: &str = "of_a_killed_process_tcx_leaves_nothing";
    let Some(wire) = Wire::lay(NAME) else { return };
    if !hooks(&wire, NAME).contains(&Hook::Tcx) {
        return;
    }
    let before = state(&wire);
    let child = holder(&wire, "tcx");
    assert!(state(&wire).contains("2 by TCX"));
    kill(child);
    becomes(&wire, &before);
}

#[test]
fn of_a_killed_process_clean_takes_the_filters_and_nobody_elses() {
    const NAME: &str = "of_a_killed_process_clean_takes_the_filters_and_nobody_elses";
    let Some(wire) = Wire::lay(NAME) else { return };
    if !hooks(&wire, NAME).contains(&Hook::Clsact) {
        return;
    }
    let found = || wire.within(End::Near, leftovers).unwrap();
    let before = state(&wire);
    let child = holder(&wire, "clsact");
    assert_eq!(found(), [], "the process lives");
    assert_eq!(wire.within(End::Near, clean).unwrap(), []);
    kill(child);
    let left = found();
    let directions: Vec<_> = left.iter().map(|left| (left.index, left.direction)).collect();
    assert_eq!(directions, [(INDEX, Direction::Egress), (INDEX, Direction::Ingress)]);
    assert!(left[0].name.starts_with("niclab:") && left[0].name.ends_with(":added"), "{left:?}");

    // A living one beside it, and a stranger.
    let living = wire.attach(End::Near, Hook::Clsact);
    let filter = "protocol ip prio 9 u32 match u32 0 0 classid 1:1";
    wire.type_in(End::Near, &format!("tc filter add dev near ingress {filter}"));
    assert_eq!(wire.within(End::Near, clean).unwrap(), left);
    assert_eq!(found(), []);
    stamps_one(&wire, &living);
    assert_eq!(state(&wire).matches("niclab:").count(), 2, "{}", state(&wire));
    drop(living);
    let rest = state(&wire);
    assert!(rest.contains("pref 9") && !rest.contains("niclab"), "{rest}");
    wire.type_in(End::Near, "tc qdisc del dev near clsact");

    // Alone on its qdisc, and on one that was there before.
    kill(holder(&wire, "clsact"));
    assert_eq!(wire.within(End::Near, clean).unwrap().len(), 2);
    assert_eq!(state(&wire), before);
    wire.type_in(End::Near, "tc qdisc add dev near clsact");
    let bare = state(&wire);
    kill(holder(&wire, "clsact"));
    assert_ne!(state(&wire), bare);
    assert_eq!(wire.within(End::Near, clean).unwrap().len(), 2);
    assert_eq!(state(&wire), bare);
}

#[test]
fn what_keeps_programs_from_being_attached_is_distinguished() {
    const NAME: &str = "what_keeps_programs_from_being_attached_is_distinguished";
    assert!(matches!(Stamps::attach(INDEX, 0), Err(ProbeError::NoPort)));
    let Some(wire) = Wire::lay(NAME) else { return };
    let before = state(&wire);
    let attach = |hook, index| wire.within(End::Near, || Stamps::attach_by(hook, index, PORT));
    let all = hooks(&wire, NAME);
    for hook in &all {
        assert!(matches!(attach(*hook, 99), Err(ProbeError::NoInterface { index: 99 })));
        let refused = wire.within(End::Near, || {
            set_capabilities(
                None,
                CapabilitySets {
                    effective: CapabilitySet::empty(),
                    permitted: CapabilitySet::empty(),
                    inheritable: CapabilitySet::empty(),
                },
            )
            .unwrap();
            Stamps::attach_by(*hook, INDEX, PORT)
        });
        let Err(error) = refused else { panic!("attached without a right") };
        assert!(matches!(error, ProbeError::NotAllowed { .. }), "{error}");
    }
    if all.contains(&Hook::Clsact) {
        wire.type_in(End::Near, "tc qdisc add dev near ingress");
        assert!(matches!(attach(Hook::Clsact, INDEX), Err(ProbeError::Occupied { index: INDEX })));
        wire.type_in(End::Near, "tc qdisc del dev near ingress");
    }
    assert_eq!(state(&wire), before);
}
