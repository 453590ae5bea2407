//! The way of a packet that is alone: a jump goes to its join at once.

use std::ops::Range;

use super::burst::NO_ACTION;
use super::exec::Run;
use super::packets::{OnePacket, Packets};
use super::plan::{Look, Op};

impl Run<'_> {
    /// Carries out instructions of the main part for a packet. Returns whether the packet is there
    /// behind them: it may have ended, or wait at a join that comes later.
    pub(super) fn single(&mut self, one: OnePacket, range: Range<usize>) -> bool {
        let line = &self.plan.apply;
        let mut at = range.start;
        while at < range.end {
            let op = &line.ops[at];
            at += 1;
            match op {
                Op::Join(_) => {}
                Op::Jump(when, join) => {
                    if self.which(when, one) != 0 {
                        at = line.joins[*join];
                        if at >= range.end {
                            self.burst.waiting[*join] |= one.mask();
                            return false;
                        }
                    }
                }
                Op::Table(table) => self.single_table(*table, one),
                op => self.op(op, one),
            }
            if self.burst.ended & one.mask() != 0 {
                return false;
            }
        }
        true
    }

    /// Looks a packet up and runs its action.
    fn single_table(&mut self, table: usize, one: OnePacket) {
        let plan = self.plan;
        if let Look::Selector { .. } = &plan.tables[table] {
            return self.select(table, one.packet());
        }
        self.tables.look(table, one, self.burst, plan, self.now_ns, &self.reading);
        let action = self.burst.ran[one.packet()];
        if action != NO_ACTION {
            self.single_action(table, usize::from(action), one);
        }
    }

    fn single_action(&mut self, table: usize, action: usize, one: OnePacket) {
        let line = &self.plan.actions[action];
        let mut at = 0;
        while let Some(op) = line.ops.get(at) {
            at += 1;
            match op {
                Op::Join(_) => {}
                Op::Jump(when, join) => {
                    if self.which(when, one) != 0 {
                        at = line.joins[*join];
                    }
                }
                Op::Return => return,
                Op::Learn { .. } | Op::Rearm(_) | Op::Forget => {
                    self.learner(table, op, one.packet());
                }
                op => self.op(op, one),
            }
            if self.burst.ended & one.mask() != 0 {
                return;
            }
        }
    }
}
