//! The program that steers tuples by key, with its tables.

use niclab_apps::endpoint::Identity;
use niclab_card::CardError;
use niclab_card::steering::{array, receiver};
use niclab_program::Pipeline;

use crate::partition::PARTS;

/// Its text.
const PROGRAM: &str = include_str!("../../../../programs/tuple-steering/tuple-steering.spec");

/// The core of each part of the keys. `places` names the inbox of each part.
///
/// A source whose keys are of one part of N, where N is a multiple of the workers, has the number
/// of that part as the lowest byte of its id. So this byte has the core of its keys, too.
pub fn owners(places: &[u16], cores: usize) -> [usize; PARTS] {
    std::array::from_fn(|part| usize::from(places.get(part).copied().unwrap_or(0)) % cores)
}

/// The program that gives frames to the core that owns the key. Queue i of the card is of core i.
pub fn pipeline(identity: &Identity, owners: &[usize; PARTS]) -> Result<Pipeline, CardError> {
    let mut pipeline = receiver(PROGRAM, "receivers", identity)?;
    let program = pipeline.program();
    let (of_keys, of_others) = (array(program, "owners")?, array(program, "others")?);
    for (part, core) in owners.iter().enumerate() {
        pipeline.set_register(of_keys, part as u64, *core as u64);
        pipeline.set_register(of_others, part as u64, *core as u64);
    }
    Ok(pipeline)
}
