//! A packet that a program lets go of is counted under the reason that ended it, also where nothing
//! of it is left to be sent.

use niclab_nic::memory::Region;
use niclab_program::definition::Definition;
use niclab_program::{Fate, Lost, Pipeline, Program};

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
fn what_ended_a_packet_is_told_though_nothing_of_it_is_left() {
    let [sent, full] = [Fate::Port(0), Fate::Dropped(Lost::RingFull)];
    assert_eq!(fates("dma_write q 0 h.h.a"), [sent, full, full]);
    assert_eq!(fates("dma_write_at w h.h.a h.h.a"), [Fate::Dropped(Lost::Outside); 3]);
    assert_eq!(fates("jmpeq E h.h.a 0\ndrop\nE : validate h.h"), [Fate::Dropped(Lost::Told); 3]);
    assert_eq!(fates("invalidate h.h"), [Fate::Dropped(Lost::Empty); 3]);
}
