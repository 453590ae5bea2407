//! Losses are counted: a packet under the reason that ended it, also where nothing of it is left
//! to be sent; a record for the control side that finds no room. So is what cores have learnt.

use niclab_nic::memory::Region;
use niclab_program::definition::Definition;
use niclab_program::{Fate, Lost, Pipeline, Program, Worker};

/// What both executions say of three packets of four bytes, which `body` gets as a header.
fn fates(body: &str) -> [Fate; 3] {
    let text = format!(
        "struct h_t {{\n bit<32> a\n}}
         header h instanceof h_t
         struct m_t {{\n bit<32> port\n}}
         metadata instanceof m_t
         window w size 8
         ring q count 1 size 1 entry 4
         apply {{
            rx m.port
            extract h.h
            {body}
            emit h.h
            tx m.port
         }}"
    );
    let program = Program::read(&text).unwrap_or_else(|error| panic!("{error}"));
    let mut definition = Definition::new(program.clone());
    let mut worker = Pipeline::new(program).unwrap().worker();
    let (region, mut descs) = Region::new(3, 256).unwrap();
    for desc in &mut descs {
        region.slot_mut(desc)[..4].fill(7);
        region.set_len(desc, 4);
    }
    let mut fates = [Fate::Dropped(Lost::Told); 3];
    worker.run(&region, &mut descs, 0, &mut fates, |_, _| panic!("a copy"));
    for fate in fates {
        assert_eq!(definition.run(0, &[7; 4]).fate, fate, "{body}");
    }
    fates
}

#[test]
fn what_ended_a_packet_is_reported_though_nothing_of_it_is_left() {
    let [sent, full] = [Fate::Port(0), Fate::Dropped(Lost::RingFull)];
    assert_eq!(fates("dma_write q 0 h.h.a"), [sent, full, full]);
    // Who reads the ring has it; the one that found it full is nobody's.
    let handed = Fate::Dropped(Lost::Handed);
    assert_eq!(fates("dma_write q 0 h.h.a\ndrop"), [handed, full, full]);
    assert_eq!(fates("dma_write q 0 h.h.a\ninvalidate h.h"), [handed, full, full]);
    assert_eq!(fates("dma_write_at w h.h.a h.h.a"), [Fate::Dropped(Lost::Outside); 3]);
    assert_eq!(fates("jmpeq E h.h.a 0\ndrop\nE : validate h.h"), [Fate::Dropped(Lost::Told); 3]);
    assert_eq!(fates("invalidate h.h"), [Fate::Dropped(Lost::Empty); 3]);
}

#[test]
fn records_without_room_and_entries_that_cores_learnt_are_counted() {
    let text = "struct m_t {\n bit<32> port\n bit<32> timeout\n}
        metadata instanceof m_t
        digest d size 4 instanceof m_t
        action met args none {\n return\n}
        action missed args none {\n learn met m.timeout\n return\n}
        learner l {
            key {\n m.port\n}
            actions {\n met\n missed\n}
            default_action missed args none
            size 8
            timeout {\n 60\n}
        }
        apply {\n rx m.port\n table l\n digest d m.port\n drop\n}";
    let program = Program::read(text).unwrap_or_else(|error| panic!("{error}"));
    let mut pipeline = Pipeline::new(program).unwrap();
    let (region, mut descs) = Region::new(1, 256).unwrap();
    region.set_len(&mut descs[0], 60);
    let mut run = |worker: &mut Worker, port: u64| {
        worker.run(&region, &mut descs, port, &mut [Fate::Back], |_, _| panic!("a copy"));
    };
    let mut workers = [pipeline.worker(), pipeline.worker()];
    (0..3).for_each(|port| run(&mut workers[0], port));
    assert_eq!([pipeline.entries(0), pipeline.untold(0) as usize], [3, 0]);
    (0..3).for_each(|port| run(&mut workers[1], port % 2));
    assert_eq!([pipeline.entries(0), pipeline.untold(0) as usize], [5, 2]);
    assert_eq!(std::iter::from_fn(|| pipeline.digest(0)).count(), 4);
    let [first, second] = workers;
    drop(second);
    assert_eq!([pipeline.entries(0), pipeline.untold(0) as usize], [3, 2], "one is gone");
    drop(first);
    assert_eq!(pipeline.entries(0), 0);
}
