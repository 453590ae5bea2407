//! The program in C, which sends every frame back.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use niclab_nic::rule::session::Session;
use niclab_nic::{Nic, NicConfig};
use niclab_port::Burst;
use niclab_port::external_queue::{ExternalQueueRefusals, ExternalQueueSize};
use niclab_port::queue_pair::{QueuePair, QueuePairCounters};

use crate::card::{Card, SMALL, bytes, swapped, until};

/// The program in C: compiled once a test.
pub struct Reply(PathBuf);

/// A process of it, which is killed at the end of a test that fails.
pub struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Reply {
    pub fn new(test: &str, directory: &Path) -> Option<Reply> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("external_queue/reply.c");
        let program = directory.join("reply");
        let flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o"];
        match Command::new("cc").args(flags).arg(&program).arg(source).output() {
            Err(error) => {
                println!("SKIP {test}: no C compiler (cc): {error}");
                None
            }
            Ok(ran) => {
                assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
                Some(Reply(program))
            }
        }
    }

    pub fn start(&self, path: &Path) -> Running {
        let mut command = Command::new(&self.0);
        command.arg(path).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(command.spawn().unwrap())
    }
}

impl Running {
    /// Waits for its end: how, and what it said.
    pub fn end(mut self) -> (Option<i32>, String) {
        let status = until("the end", || self.0.try_wait().unwrap());
        let mut message = String::new();
        for stream in [
            &mut self.0.stdout.take().unwrap() as &mut dyn Read,
            &mut self.0.stderr.take().unwrap(),
        ] {
            stream.read_to_string(&mut message).unwrap();
        }
        (status.code(), message)
    }

    /// Waits until it sleeps for want of frames.
    pub fn until_asleep(&self) {
        let state = format!("/proc/{}/stat", self.0.id());
        until("sleep", || fs::read_to_string(&state).unwrap().contains(") S ").then_some(()));
    }
}

#[test]
fn frames_of_all_lengths_go_to_a_program_in_c_and_come_back() {
    for shape in [SMALL, ExternalQueueSize::default()] {
        let mut card = Card::new(shape);
        let name = "frames_of_all_lengths_go_to_a_program_in_c_and_come_back";
        let Some(reply) = Reply::new(name, card.directory.path()) else { return };
        let running = reply.start(&card.path());
        let mut queue_pair = card.queue();
        let longest = card.region.frame_len_max();
        let lens: Vec<usize> = (14..=longest).collect();
        for lens in lens.chunks(48) {
            // All slots are offered again once it has done all.
            running.until_asleep();
            let sent: Vec<_> = lens.iter().map(|len| bytes(*len as u32, *len)).collect();
            card.send(&mut queue_pair, sent.iter().map(|bytes| &bytes[..]));
            let mut back = Vec::new();
            until("what was sent", || {
                back.extend(card.receive(&mut queue_pair));
                (back.len() >= sent.len()).then_some(())
            });
            assert!(back.into_iter().eq(sent.into_iter().map(swapped)), "{lens:?}");
        }
        let (frames, sum) = (lens.len() as u64, lens.iter().sum::<usize>() as u64);
        let both = QueuePairCounters {
            rx_frames: frames,
            rx_bytes: sum,
            tx_frames: frames,
            tx_bytes: sum,
            ..QueuePairCounters::default()
        };
        assert_eq!(
            (queue_pair.counters(), queue_pair.refusals().counters()),
            (both, ExternalQueueRefusals::default())
        );
        card.end([queue_pair]);
        assert_eq!(running.end(), (Some(0), format!("{frames} frames\n")));
    }
}

#[test]
fn a_rule_steers_frames_to_an_external_queue_and_the_others_are_not_its_own() {
    let mut card = Card::new(SMALL);
    let name = "a_rule_steers_frames_to_an_external_queue_and_the_others_are_not_its_own";
    let Some(reply) = Reply::new(name, card.directory.path()) else { return };
    let running = reply.start(&card.path());
    let mut queue_pair = card.queue();
    running.until_asleep();
    let mut nic = Nic::new(&NicConfig { queues: 2, ports: 1, ..NicConfig::default() }).unwrap();
    let rules = "flow create 0 ingress pattern eth type is 0x88b5 / end actions queue index 1 / \
                 end\nflow create 0 priority 1 ingress pattern eth / end actions queue index 0 / \
                 end\n";
    Session::new(0).apply(&mut nic, rules.as_bytes()).unwrap();
    let mut burst = Burst::new();
    for number in 0..40_u32 {
        let mut bytes = bytes(number, 60);
        bytes[12..14].copy_from_slice(if number % 4 == 1 { &[0x88, 0xb5] } else { &[0x88, 0xb6] });
        burst.push(card.frame(&bytes));
    }
    nic.worker().classify(&card.region, &mut burst);
    let (mut own, mut others): (Burst, Burst) = burst.drain(..).partition(|desc| desc.queue == 1);
    assert_eq!((own.len(), others.len()), (10, 30));
    queue_pair.send(&mut card.pools[0], &mut own).unwrap();
    card.pools[0].give_all(&mut others);
    let mut back = Vec::new();
    until("its frames", || {
        back.extend(card.receive(&mut queue_pair));
        (back.len() >= 10).then_some(())
    });
    assert!(back.iter().all(|bytes| bytes[..14] == *b"\x02from.\x02to...\x88\xb5"));
    assert!(back.iter().map(|bytes| bytes[20]).eq((0..10).map(|at| 21 + 4 * at)));
    card.end([queue_pair]);
    assert_eq!(running.end(), (Some(0), "10 frames\n".to_owned()));
}

#[test]
fn a_killed_client_costs_no_frame_and_the_next_begins_anew() {
    let mut card = Card::new(SMALL);
    let name = "a_killed_client_costs_no_frame_and_the_next_begins_anew";
    let Some(reply) = Reply::new(name, card.directory.path()) else { return };
    for killed_after in [1_000_u64, 5_000, 20_000] {
        let mut running = reply.start(&card.path());
        let mut queue_pair = card.queue();
        let mut burst = Burst::new();
        let ended = until("its end", || {
            while !burst.is_full() {
                let desc = card.frame(&bytes(7, 600));
                burst.push(desc);
            }
            let result = queue_pair.send(&mut card.pools[0], &mut burst);
            let result = result.and_then(|()| queue_pair.receive(&mut card.pools[0], &mut burst));
            card.pools[0].give_all(&mut burst);
            if queue_pair.counters().rx_frames >= killed_after {
                running.0.kill().unwrap();
            }
            result.err()
        });
        assert_eq!(ended.to_string(), "the client is gone");
        assert!(queue_pair.counters().rx_frames >= killed_after);
        let again = queue_pair.send(&mut card.pools[0], &mut burst);
        assert!(again.is_err(), "it stays gone");
        Box::new(queue_pair).close(&mut card.pools[0]).unwrap();
    }
    let (mut queue_pair, peer) = card.peer();
    assert!(peer.all().iter().all(|byte| *byte == 0), "nothing of those before");
    peer.lend(0..1);
    card.send(&mut queue_pair, [&bytes(1, 60)[..]]);
    assert_eq!(peer.received(), [(0, bytes(1, 60))]);
    card.end([queue_pair]);
}
