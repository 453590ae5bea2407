//! The programs of tuples, filled for a receiving side.

use niclab_apps::endpoint::Identity;
use niclab_card::CardError;
use niclab_program::{Change, Entry, Invocation, Part, Pipeline, Program};

use crate::partition::PARTS;

/// Its text.
const PROGRAM: &str = include_str!("../../../../programs/tuple-steering/tuple-steering.spec");
/// Number of the action that an entry of the table `receivers` runs.
const SERVE: usize = 0;

/// The program that gives frames to the core that has the key, of a receiver whose inboxes have
/// these parts of the keys, served by so many cores. A queue of the card belongs to the core of its
/// number.
pub fn pipeline(identity: &Identity, places: &[u16], cores: usize) -> Result<Pipeline, CardError> {
    let mut pipeline = read(PROGRAM, identity)?;
    let program = pipeline.program();
    let (owners, others) = (array(program, "owners")?, array(program, "others")?);
    for part in 0..PARTS {
        let core = usize::from(places.get(part).copied().unwrap_or(0)) % cores;
        pipeline.set_register(owners, part as u64, core as u64);
        pipeline.set_register(others, part as u64, (part % cores) as u64);
    }
    Ok(pipeline)
}

/// A program whose table `receivers` has one receiver.
pub fn read(text: &str, identity: &Identity) -> Result<Pipeline, CardError> {
    let program = Program::read(text).map_err(|error| broken(&error))?;
    let mut pipeline = Pipeline::new(program).map_err(|error| broken(&error))?;
    let table = pipeline.program().table_number("receivers").map_err(|error| broken(&error))?;
    let key = vec![
        Part::exact(identity.mac.0.to_vec()),
        Part::exact(identity.ip.octets().to_vec()),
        Part::exact(identity.port.to_be_bytes().to_vec()),
    ];
    let does = Invocation { action: SERVE, arguments: Vec::new() };
    let entry = Entry { key, priority: 0, does };
    pipeline.change(&[Change::Add { table, entry }]).map_err(|error| broken(&error))?;
    Ok(pipeline)
}

/// The number of an array of registers.
pub fn array(program: &Program, name: &str) -> Result<usize, CardError> {
    let place = program.registers.iter().position(|array| array.name == name);
    place.ok_or_else(|| broken(&format!("no regarray {name}")))
}

/// The text is not what this was made for.
pub fn broken(error: &dyn std::fmt::Display) -> CardError {
    CardError::Program { reason: error.to_string() }
}
