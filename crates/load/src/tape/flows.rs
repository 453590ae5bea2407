//! Which flow comes next, and which of its frames.

use niclab_packet::flow::Picker;

/// Flows that are fetched together.
const STAGED: usize = 64;

/// The flows of a load with what a frame takes of each.
pub(super) struct Flows<H> {
    heads: Vec<H>,
    picker: Picker,
    sequences: Vec<u32>,
    staged: [Next<H>; STAGED],
    at: usize,
}

/// The flow of a frame to be sent.
#[derive(Clone, Copy)]
pub(super) struct Next<H> {
    pub head: H,
    pub flow: u32,
    pub sequence: u32,
}

impl<H: Copy + Default> Flows<H> {
    pub(super) fn new(heads: Vec<H>, picker: Picker) -> Flows<H> {
        let none = Next { head: H::default(), flow: 0, sequence: 0 };
        let sequences = vec![0; heads.len()];
        Flows { heads, picker, sequences, staged: [none; STAGED], at: STAGED }
    }

    pub(super) fn len(&self) -> u32 {
        self.heads.len() as u32
    }

    /// The flow of the next frame.
    #[inline]
    pub(super) fn next(&mut self) -> &Next<H> {
        if self.at == STAGED {
            self.stage();
        }
        let at = self.at;
        self.at += 1;
        &self.staged[at]
    }

    /// Picks the flows of the next frames and fetches what belongs to them. One after the other each
    /// would be waited for; with the sink doing likewise this took 64 B frames of 10 k flows from 27
    /// to 51 Mpps through generator, software NIC and sink (`soft_rate`, Zen 5).
    fn stage(&mut self) {
        let mut flows = [0; STAGED];
        self.picker.fill(&mut flows);
        for (next, &flow) in self.staged.iter_mut().zip(&flows) {
            next.flow = flow;
            next.head = self.heads[flow as usize];
        }
        for next in &mut self.staged {
            let sequence = &mut self.sequences[next.flow as usize];
            next.sequence = *sequence;
            *sequence = sequence.wrapping_add(1);
        }
        self.at = 0;
    }
}
