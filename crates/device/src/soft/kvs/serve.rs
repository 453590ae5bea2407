//! Requests in memory and a store: the time of each pass, and its breakdown.

use niclab_apps::kvs::codec::datagram::batch::{BATCH_STEPS, BatchStep};
use niclab_nic::limits::BURST;

use super::super::staged::{check_ranges, median, path, repeat};
use super::load::KEYS_MAX;
use super::pass::{Pass, StagedStore};
use super::{Build, FRAMES};
use crate::cores::{self, Pinned};
use crate::face::{DeviceError, PathNode};
use crate::serving::{BusTraffic, Serving, StepTime, StoreObservation};

/// Most cores of a store.
pub const CORES_MAX: usize = 64;

/// The steps by name.
const NAMES: [(BatchStep, &str); BATCH_STEPS] = [
    (BatchStep::Receive, "receive"),
    (BatchStep::Parse, "parse"),
    (BatchStep::Hash, "hash"),
    (BatchStep::Lock, "lock"),
    (BatchStep::LookUp, "look_up"),
    (BatchStep::CarryOut, "carry_out"),
    (BatchStep::Reply, "reply"),
];

/// Fewest passes that say where the time goes, and what the card's work takes.
const TIMED_PASSES_MIN: usize = 5;

/// Share of the measured time that they have.
const TIMED_SHARE: u64 = 4;

/// What stands along the requests' way: the card's stage is over before the application is timed,
/// and is timed by itself.
pub(in crate::soft) fn places() -> Vec<PathNode> {
    path([
        ("memory", "requests of all clients"),
        ("device", "card's stage, RSS or a program: timed apart"),
        ("memory", "a queue for each core"),
        ("function", "key-value store, staged, on all its cores"),
    ])
}

/// Serves requests on the cores that the setting asks for. Returns the frames that the card took,
/// too.
pub(in crate::soft) fn serve(
    serving: &Serving,
    is_pinned: bool,
) -> Result<(StoreObservation, u64), DeviceError> {
    check(serving)?;
    let (allowed, count) = (cores::allowed(), usize::from(serving.cores));
    if count > allowed.len() {
        let capability = format!("{count} cores: there are {}", allowed.len());
        return Err(DeviceError::lacks(capability));
    }
    let pinned_cores: Vec<Option<u32>> =
        allowed.iter().take(count).map(|core| Some(*core).filter(|_| is_pinned)).collect();
    let mut staged =
        StagedStore::new(serving.build, &serving.asked, &pinned_cores, usize::from(serving.burst))?;
    let judged = staged.check_answers()?;
    passes(serving.warmup_ns, 0, || staged.pass())?;
    let measured = passes(serving.duration_ns, 1, || staged.pass())?;
    let watched_ns = serving.duration_ns / TIMED_SHARE;
    let watched = passes(watched_ns, TIMED_PASSES_MIN, || staged.timed_pass())?;
    let _pinned = pinned_cores[0].map(Pinned::to);
    let card_ns =
        (0..TIMED_PASSES_MIN).map(|_| staged.card_ns()).collect::<Result<Vec<u64>, _>>()?;
    let dma = staged.dma_writes();
    let (requests, has_dma) = (FRAMES as f64, serving.build == Build::Dma);
    let answered = StoreObservation {
        requests: FRAMES as u64,
        timed: measured[0].requests,
        cores: staged.shares(),
        wrong: judged.wrong,
        passes_ns: measured.iter().map(|pass| pass.ns).collect(),
        worked_ns: measured.iter().map(|pass| pass.worked_ns).collect(),
        is_disturbed: measured.iter().all(|pass| pass.is_disturbed),
        steps: steps(&watched),
        card_ns: median(card_ns) as f64 / requests,
        crossed: BusTraffic {
            // What the card tells crosses as events.
            frames: if has_dma { 0.0 } else { 1.0 },
            frame_bytes: if has_dma { 0.0 } else { staged.frame_bytes() as f64 / requests },
            answers: judged.answers as f64 / requests,
            answer_bytes: judged.bytes as f64 / requests,
            dma_writes: dma.0 as f64 / requests,
            dma_bytes: dma.1 as f64 / requests,
        },
    };
    Ok((answered, staged.end()?))
}

/// Refuses numbers out of their ranges.
fn check(serving: &Serving) -> Result<(), DeviceError> {
    let (asked, most) = (&serving.asked, KEYS_MAX);
    let ranges = [
        ("count", asked.count, 1, most),
        ("gets", asked.gets_percent, 0, 100),
        ("cores", u32::from(serving.cores), 1, CORES_MAX as u32),
        ("burst", u32::from(serving.burst), 1, BURST as u32),
    ];
    check_ranges(&ranges)
}

/// Passes for so long, and no fewer than so many. Those in which the machine took a core away are
/// left out where there are others.
fn passes(
    ns: u64,
    least: usize,
    pass: impl FnMut() -> Result<Pass, DeviceError>,
) -> Result<Vec<Pass>, DeviceError> {
    let mut all = repeat(ns, least, pass)?;
    if all.iter().any(|pass| !pass.is_disturbed) {
        all.retain(|pass| !pass.is_disturbed);
    }
    Ok(all)
}

/// What each step takes for a request: the median of the passes.
fn steps(watched: &[Pass]) -> Vec<StepTime> {
    let requests = watched.first().map_or(0, |pass| pass.requests).max(1);
    let of = |(step, name): (BatchStep, &str)| {
        let all = watched.iter().map(|pass| pass.steps_ns[step as usize]).collect();
        StepTime { name: name.to_owned(), request_ns: median(all) as f64 / requests as f64 }
    };
    NAMES.map(of).into()
}

#[cfg(test)]
mod tests {
    use super::super::{KeyPopularity, KeyWorkload};
    use super::*;

    fn serving(build: Build) -> Serving {
        let asked = KeyWorkload { keys: KeyPopularity::Uniform, count: 1_000, gets_percent: 90 };
        Serving { build, asked, cores: 1, burst: 64, duration_ns: 1, warmup_ns: 0 }
    }

    #[test]
    fn served_requests_are_reported_with_their_steps_and_bus_traffic() {
        for build in [Build::Rss { partitions: 2 }, Build::Steer] {
            let observation = serve(&serving(build), false).unwrap().0;
            let of = (observation.requests, observation.timed, observation.wrong);
            assert_eq!(of, (FRAMES as u64, FRAMES as u64 / 4 * 3, 0));
            assert_eq!(observation.cores, [FRAMES as u64]);
            assert_eq!(
                (observation.passes_ns.len(), observation.worked_ns.len()),
                (1, 1),
                "a pass is enough"
            );
            let names: Vec<&str> =
                observation.steps.iter().map(|step| step.name.as_str()).collect();
            assert_eq!(names, NAMES.map(|(_, name)| name));
            assert!(
                observation.steps.iter().all(|step| step.request_ns > 0.0),
                "{:?}",
                observation.steps
            );
            assert!(observation.card_ns > 0.0);
            // Headers, memcached's frame header and its own, a key of 32 B; of one in ten more.
            let get = (14 + 20 + 8 + 8 + 24 + 32) as f64;
            let BusTraffic { frame_bytes, answer_bytes, .. } = observation.crossed;
            assert!((get + 6.0..get + 9.0).contains(&frame_bytes), "{frame_bytes}");
            // Flags and a value of 64 B, in nine of ten.
            let get = (14 + 20 + 8 + 8 + 24 + 4 + 64) as f64;
            assert!((get - 9.0..get - 5.0).contains(&answer_bytes), "{answer_bytes}");
            assert_eq!((observation.crossed.frames, observation.crossed.answers), (1.0, 1.0));
            assert_eq!((observation.crossed.dma_writes, observation.crossed.dma_bytes), (0.0, 0.0));
        }
    }

    #[test]
    fn a_card_with_dma_sends_events_and_items() {
        let observation = serve(&serving(Build::Dma), false).unwrap().0;
        let BusTraffic { frames, frame_bytes, answers, dma_writes, dma_bytes, .. } =
            observation.crossed;
        assert_eq!((frames, frame_bytes, observation.wrong), (0.0, 0.0, 0));
        assert!((0.89..0.91).contains(&answers), "the card answers sets: {answers}");
        assert!((dma_writes - (2.0 - answers)).abs() < 1e-9, "an item more for each of them");
        // A key of 32 B behind 22, and the ring's word; or where it is, and the item.
        let (get, set) = ((8 + 22 + 32) as f64, (8 + 22 + 12 + 40 + 32 + 64) as f64);
        let bytes = answers * get + (1.0 - answers) * set;
        assert!((dma_bytes - bytes).abs() < 1e-6, "{dma_bytes} {bytes}");
    }

    #[test]
    fn numbers_out_of_range_are_bad_loads_and_cores_that_are_not_there_not_supported() {
        let refused = |change: fn(&mut Serving)| {
            let mut of = serving(Build::Steer);
            change(&mut of);
            serve(&of, false).unwrap_err().to_string()
        };
        assert_eq!(refused(|of| of.burst = 65), "load: burst = 65: use 1 to 64");
        assert_eq!(refused(|of| of.asked.count = 0), "load: count = 0: use 1 to 1000000");
        assert_eq!(refused(|of| of.asked.gets_percent = 101), "load: gets = 101: use 0 to 100");
        assert_eq!(refused(|of| of.cores = 65), "load: cores = 65: use 1 to 64");
        let there = cores::allowed().len();
        if there < CORES_MAX {
            let words = format!("not supported: {CORES_MAX} cores: there are {there}");
            assert_eq!(refused(|of| of.cores = CORES_MAX as u16), words);
        }
    }

    #[test]
    fn passes_in_which_a_core_was_taken_away_count_only_where_there_are_no_others() {
        let pass = |ns, is_disturbed| Pass { ns, is_disturbed, ..Pass::default() };
        let kept = |of: Vec<Pass>| {
            let (count, mut of) = (of.len(), of.into_iter());
            let all = passes(0, count, || Ok(of.next().unwrap())).unwrap();
            all.iter().map(|pass| pass.ns).collect::<Vec<_>>()
        };
        assert_eq!(kept(vec![pass(1, true), pass(2, false), pass(3, true)]), [2]);
        assert_eq!(kept(vec![pass(1, true), pass(3, true)]), [1, 3]);
    }
}
