//! The program that steers tuples by key, with its tables.

use niclab_apps::endpoint::Identity;
use niclab_card::CardError;
use niclab_card::steering::{array, receiver};
use niclab_program::Pipeline;

use crate::partition::PARTS;

/// Its text.
const PROGRAM: &str = include_str!("../../../../programs/tuple-steering/tuple-steering.spec");

/// The program that gives frames to the core that has the key. `places` names the inbox of each
/// part of the keys. Queue i of the card is of core i.
pub fn pipeline(identity: &Identity, places: &[u16], cores: usize) -> Result<Pipeline, CardError> {
    let mut pipeline = receiver(PROGRAM, "receivers", identity)?;
    let program = pipeline.program();
    let (owners, others) = (array(program, "owners")?, array(program, "others")?);
    for part in 0..PARTS {
        let core = usize::from(places.get(part).copied().unwrap_or(0)) % cores;
        pipeline.set_register(owners, part as u64, core as u64);
        pipeline.set_register(others, part as u64, (part % cores) as u64);
    }
    Ok(pipeline)
}
