//! The program that writes a key-value store's items and tells the core that owns a key what it is
//! asked for, filled for a store; and what a card with it lends the store.
#![allow(unsafe_code)]

use std::sync::Arc;

use niclab_apps::kvs::frames::Identity;
use niclab_apps::kvs::store::{LENT_LEN, Loan, Next, Turns, Window, segments_of};
use niclab_apps::kvs::time::Moment;
use niclab_program::{Pipeline, Program, SharedRegisters};

use crate::CardError;
use crate::steering::{array, broken, fill};

/// Its text.
pub const PROGRAM: &str = include_str!("../../../programs/kvs-items/kvs-items.spec");

/// Cores that it can have as owners of keys.
pub const CORES_MAX: usize = 16;

/// What the card has done for a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Items that it has written and answered.
    pub stored: u64,
    /// Keys that cores were told are asked for.
    pub asked: u64,
    /// Frames that went to a queue as they came.
    pub left: u64,
}

/// The place of the next item of one owner.
#[derive(Debug)]
struct NextOf {
    registers: SharedRegisters,
    owner: u64,
}

impl Next for NextOf {
    fn read(&self) -> u64 {
        self.registers.read(self.owner)
    }

    fn write(&self, place: u64) {
        self.registers.write(self.owner, place);
    }
}

/// The program, with its tables for a store on so many cores, each of which has a queue; and what
/// it lends each of them. `memory_bytes` are the store's, half of which at most are lent; the rings
/// have so many entries as the program says, or as many as are asked for.
///
/// # Errors
/// [`CardError::Program`]: too many cores, no memory, or the text is not what this was made for.
pub fn pipeline(
    identity: &Identity,
    cores: usize,
    memory_bytes: usize,
    entries: Option<u32>,
) -> Result<(Pipeline, Vec<Loan>), CardError> {
    let mut program = Program::read(PROGRAM).map_err(|error| broken(&error))?;
    let next = array(&program, "next")?;
    let ([window], [rings]) = (&mut program.windows[..], &mut program.rings[..]) else {
        return Err(broken(&"another window or other rings"));
    };
    let lent = segments_of(memory_bytes, cores, window.len / LENT_LEN);
    let lent = lent.filter(|_| cores <= CORES_MAX && cores <= rings.count);
    let lent = lent.ok_or_else(|| broken(&"too many cores, or too little memory for them"))?;
    // No more memory is taken than what is lent.
    (window.len, rings.count) = (lent * cores * LENT_LEN, cores);
    rings.shape.entries = entries.unwrap_or(rings.shape.entries);
    let mut pipeline = Pipeline::new(program).map_err(|error| broken(&error))?;
    fill(&mut pipeline, identity, cores, 0)?;
    let (memory, registers) = (pipeline.window(0), pipeline.registers(next));
    let (Some(memory), Some(registers)) = (memory, registers) else {
        return Err(broken(&"no window"));
    };
    // SAFETY: nobody else has the memory but the cores that run the program. An item goes where
    // register `next` says, by an addition that gives each packet a place of its own; the event
    // that publishes it is written behind it; and a segment's number is written to the register by
    // the partition alone that it is lent to.
    let window = unsafe { Window::new(memory) };
    let turns = Arc::new(Turns::new(cores));
    let mut loans = Vec::new();
    for core in 0..cores {
        let Some(events) = pipeline.reader(0, core) else { return Err(broken(&"no ring")) };
        loans.push(Loan {
            window: window.clone(),
            segments: core * lent..(core + 1) * lent,
            events,
            next: Box::new(NextOf { registers: registers.clone(), owner: core as u64 }),
            turns: Arc::clone(&turns),
        });
    }
    Ok((pipeline, loans))
}

/// Says what time it is, for items to come.
pub fn set_time(pipeline: &mut Pipeline, now: Moment) {
    if let Ok(clock) = array(pipeline.program(), "clock") {
        pipeline.set_register(clock, 0, now.0.into());
    }
}

/// What the program has counted for so many owners.
pub fn told(pipeline: &Pipeline, cores: usize) -> Told {
    let counters = &pipeline.program().counters;
    let count = |name: &str, index: u64| {
        let array = counters.iter().position(|array| array.name == name);
        array.and_then(|array| pipeline.counter(array, index)).map_or(0, |(packets, _)| packets)
    };
    let of_all = |name: &str| (0..cores as u64).map(|owner| count(name, owner)).sum();
    Told { stored: of_all("stored"), asked: of_all("asked"), left: count("left", 0) }
}
