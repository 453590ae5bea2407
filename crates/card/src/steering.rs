//! The program that gives requests for a key-value store to the core that owns the key, filled for
//! a store.

use niclab_apps::endpoint::Identity;
use niclab_apps::kvs::protocol::hash::{STEERED, owner};
use niclab_program::{Change, Entry, Invocation, Part, Pipeline, Program};

use crate::CardError;

/// Its text.
pub const PROGRAM: &str = include_str!("../../../programs/kvs-steering/kvs-steering.spec");

/// Number of the action that the entry of a receiver runs.
const SERVE: usize = 0;

/// Queues that a card with this program needs for a store of so many partitions, each of a core:
/// the first have requests for the partition of their number, as many others have the rest.
pub fn queues(partitions: usize) -> u16 {
    2 * partitions as u16
}

/// The program, with its tables for a store of so many partitions, at most half of a port's queues.
///
/// # Errors
/// [`CardError::Program`]: no memory, or the text is not what this was made for.
pub fn pipeline(identity: &Identity, partitions: usize) -> Result<Pipeline, CardError> {
    let mut pipeline = read(PROGRAM)?;
    fill(&mut pipeline, identity, partitions, partitions)?;
    Ok(pipeline)
}

/// A program with one receiver: an entry of a table whose key is Ethernet address, IPv4 address and
/// port of UDP, and whose first action serves.
///
/// # Errors
/// [`CardError::Program`]: no memory, or the text has no such table.
pub fn receiver(text: &str, table: &str, identity: &Identity) -> Result<Pipeline, CardError> {
    let mut pipeline = read(text)?;
    add_receiver(&mut pipeline, table, identity)?;
    Ok(pipeline)
}

fn read(text: &str) -> Result<Pipeline, CardError> {
    let program = Program::read(text).map_err(|error| broken(&error))?;
    Pipeline::new(program).map_err(|error| broken(&error))
}

fn add_receiver(
    pipeline: &mut Pipeline,
    table: &str,
    identity: &Identity,
) -> Result<(), CardError> {
    let table = pipeline.program().table_number(table).map_err(|error| broken(&error))?;
    let key = vec![
        Part::exact(identity.mac.0.to_vec()),
        Part::exact(identity.ip.octets().to_vec()),
        Part::exact(identity.port.to_be_bytes().to_vec()),
    ];
    let does = Invocation { action: SERVE, arguments: Vec::new() };
    let entry = Entry { key, priority: 0, does };
    pipeline.change(&[Change::Add { table, entry }]).map_err(|error| broken(&error))?;
    Ok(())
}

/// Tells a program of stores of this one: its table `stores`, the `owners` of parts of the keys,
/// and the queues of all `others`, as many from `first_other` on as there are partitions.
pub(crate) fn fill(
    pipeline: &mut Pipeline,
    identity: &Identity,
    partitions: usize,
    first_other: usize,
) -> Result<(), CardError> {
    add_receiver(pipeline, "stores", identity)?;
    let program = pipeline.program();
    let (owners, others) = (array(program, "owners")?, array(program, "others")?);
    for part in 0..STEERED {
        pipeline.set_register(owners, part as u64, owner(part, partitions) as u64);
        let other = first_other + part % partitions;
        pipeline.set_register(others, part as u64, other as u64);
    }
    Ok(())
}

/// The number of an array of registers.
///
/// # Errors
/// [`CardError::Program`]: the program has none of this name.
pub fn array(program: &Program, name: &str) -> Result<usize, CardError> {
    let place = program.registers.iter().position(|array| array.name == name);
    place.ok_or_else(|| broken(&format!("no regarray {name}")))
}

/// The error of a program that is not the one expected.
pub fn broken(error: &dyn std::fmt::Display) -> CardError {
    CardError::Program { reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use niclab_apps::kvs::protocol::hash::steered;
    use niclab_nic::limits::BURST;
    use niclab_nic::memory::Region;
    use niclab_packet::stack::{Layer, build};
    use niclab_packet::wire::{IpProtocol, MacAddress, ethernet, ipv4, udp};
    use niclab_program::{Fate, Lost};
    use rand::{Rng, RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    const US: Identity = Identity {
        mac: MacAddress([2, 0, 10, 9, 0, 2]),
        ip: std::net::Ipv4Addr::new(10, 9, 0, 2),
        network_bits: 24,
        port: 11211,
    };

    /// A frame with a request of the binary protocol, or bytes like it.
    fn frame(code: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0, 1, 0, 0, 0, 1, 0, 0, 0x80, code];
        bytes.extend_from_slice(&(key.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&[extras.len() as u8, 0, 0, 0]);
        bytes.extend_from_slice(&((extras.len() + key.len() + value.len()) as u32).to_be_bytes());
        bytes.extend_from_slice(&[0; 12]);
        let content = [&bytes[..], extras, key, value].concat();
        let src = MacAddress::local(7);
        let dst_port = US.port;
        build(&[
            Layer::Ethernet(ethernet::Repr { dst: US.mac, src, ..ethernet::Repr::default() }),
            Layer::Ipv4(ipv4::Repr {
                src: [10, 9, 0, 1].into(),
                dst: US.ip,
                protocol: IpProtocol::UDP,
                ..ipv4::Repr::default()
            }),
            Layer::Udp(udp::Repr { src_port: 4000, dst_port, ..udp::Repr::default() }),
            Layer::Payload(content),
        ])
        .unwrap()
    }

    /// The queue that the program chooses for each of these frames.
    fn queues_of(frames: &[Vec<u8>], partitions: usize) -> Vec<Option<u64>> {
        let pipeline = pipeline(&US, partitions).unwrap();
        let (mut worker, mut queues) = (pipeline.worker(), Vec::new());
        for frames in frames.chunks(BURST) {
            let (region, mut descs) = Region::new(frames.len(), 1536).unwrap();
            for (desc, frame) in descs.iter_mut().zip(frames) {
                region.slot_mut(desc)[..frame.len()].copy_from_slice(frame);
                region.set_len(desc, frame.len() as u16);
            }
            let mut fates = [Fate::Dropped(Lost::Told); BURST];
            worker.run(&region, &mut descs, 0, &mut fates, |_, _| {});
            for ((fate, desc), frame) in fates.iter().zip(&descs).zip(frames) {
                assert_eq!(region.frame(desc), frame, "it arrives as it came");
                queues.push(if let Fate::Queue(queue) = fate { Some(*queue) } else { None });
            }
        }
        queues
    }

    #[test]
    fn card_and_store_agree_on_who_owns_a_key() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        for partitions in [1, 2, 3, 7] {
            let keys: Vec<Vec<u8>> = (0..1_000)
                .map(|_| {
                    let mut key = vec![0; random.random_range(1..=250)];
                    random.fill_bytes(&mut key);
                    key
                })
                .collect();
            let frames: Vec<_> = keys
                .iter()
                .enumerate()
                .map(|(number, key)| match number % 3 {
                    0 => frame(0, b"", key, b""),
                    1 => frame(1, &[0; 8], key, b"some value"),
                    _ => frame(5, &[0; 20], key, b""),
                })
                .collect();
            for (key, queue) in keys.iter().zip(queues_of(&frames, partitions)) {
                assert_eq!(queue, Some(owner(steered(key), partitions) as u64), "{key:?}");
            }
        }
    }

    /// For any frame, the program extracts a key only if the host finds the same key.
    #[test]
    fn the_card_steers_by_the_same_hash_as_the_host() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(8);
        let mut frames = Vec::new();
        for _ in 0..20_000 {
            let mut frame = frame(random.random_range(0..0x26), &[0; 8], b"key", b"value");
            for _ in 0..random.random_range(1..3) {
                let at = random.random_range(0..frame.len());
                frame[at] = random.random_range(0..=0xff);
            }
            // The checksum of what was changed is put right, or nothing would come further.
            if frame[14] & 0x0f == 5 {
                ipv4::Packet::new_unchecked(&mut frame[14..]).fill_checksum();
            }
            frames.push(frame);
        }
        let (mut steered_count, mut others) = (0, 0);
        for (frame, queue) in frames.iter().zip(queues_of(&frames, 2)) {
            // Headers that say more bytes than there are.
            let Some(queue) = queue else { continue };
            if queue >= 2 {
                others += 1;
                continue;
            }
            steered_count += 1;
            let (ip, udp) = (&frame[14..], &frame[34..]);
            let total_len = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
            let udp_len = usize::from(u16::from_be_bytes([udp[4], udp[5]]));
            assert!(frame[..6] == US.mac.0 && ip[16..20] == US.ip.octets());
            assert!(ip[0] == 0x45 && ip[9] == 17 && ip[6] & 0x3f == 0 && ip[7] == 0);
            assert_eq!(total_len, udp_len + 20);
            let request = &udp[16..];
            let key_len = usize::from(u16::from_be_bytes([request[2], request[3]]));
            let key = &request[24 + usize::from(request[4])..][..key_len];
            assert_eq!(queue, owner(steered(key), 2) as u64);
            let body_len = u32::from_be_bytes([request[8], request[9], request[10], request[11]]);
            assert_eq!(body_len as usize + 40, udp_len);
        }
        assert!(steered_count > 1_000 && others > 1_000, "{steered_count} {others}");
    }
}
