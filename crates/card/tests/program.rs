//! Programs on a card: what they decide, and that no frame is lost, or sees half of a change, when
//! tables change and programs are replaced while frames flow.
//!
//! Each queue pair makes frames as long as fewer than a window are under way, and looks at what
//! leaves by it: a frame has four numbers then, each written by another part of the program.

mod made;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use made::Made;
use niclab_card::{Card, CardConfig, CardWorkload, ChangeError, Receive};
use niclab_program::{Change, Entry, Invocation, Part, Pipeline, Ports, Program, TablesFile};

const WINDOW: usize = 700;

/// What all queue pairs see.
#[derive(Default)]
struct World {
    made: AtomicU64,
    left: AtomicU64,
    /// Frames whose numbers are not those of one moment.
    torn: AtomicU64,
    /// The largest number that was seen.
    latest: AtomicU64,
    under_way: AtomicUsize,
    makes: AtomicBool,
}

impl made::World for World {
    type Own = ();

    const HELD: usize = WINDOW;

    fn own(&self, _: u32, _: u32) {}

    fn make(&self, (): &mut (), _: usize, slot: &mut [u8]) -> Option<u16> {
        let may =
            self.makes.load(Ordering::Relaxed) && self.under_way.load(Ordering::Relaxed) < WINDOW;
        if !may {
            return None;
        }
        slot[..60].fill(0);
        self.under_way.fetch_add(1, Ordering::Relaxed);
        self.made.fetch_add(1, Ordering::Relaxed);
        Some(60)
    }

    fn left(&self, (): &mut (), frame: &[u8]) {
        let number =
            |at: usize| u32::from_be_bytes(*frame[4 * at..].first_chunk().unwrap_or(&[0; 4]));
        let is_whole = (1..4).all(|at| number(at) == number(0)) && frame.len() == 60;
        self.torn.fetch_add(u64::from(!is_whole), Ordering::Relaxed);
        self.latest.fetch_max(number(0).into(), Ordering::Relaxed);
        self.left.fetch_add(1, Ordering::Relaxed);
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A program that writes `constant`, and what two tables and a default action say, into a frame.
fn program(constant: u32) -> Program {
    let text = format!(
        "struct h_t {{\n bit<32> constant\n bit<32> first\n bit<32> second\n bit<32> other\n}}
         header h instanceof h_t
         struct m_t {{\n bit<32> port\n bit<32> key\n}}
         metadata instanceof m_t
         struct number_t {{\n bit<32> number\n}}
         action first args instanceof number_t {{\n mov h.h.first t.number\n return\n}}
         action second args instanceof number_t {{\n mov h.h.second t.number\n return\n}}
         action other args instanceof number_t {{\n mov h.h.other t.number\n return\n}}
         table t1 {{
            key {{\n m.key exact\n}}
            actions {{\n first\n}}
            default_action first args number 0
         }}
         table t2 {{
            key {{\n m.key wildcard\n}}
            actions {{\n second\n}}
            default_action second args number 0
         }}
         table t3 {{
            actions {{\n other\n}}
            default_action other args number {constant}
         }}
         apply {{
            rx m.port
            extract h.h
            mov h.h.constant {constant}
            table t1
            table t2
            table t3
            emit h.h
            tx m.port
         }}"
    );
    Program::read(&text).unwrap_or_else(|error| panic!("{error}"))
}

/// What makes all of a program's tables say a number.
fn numbers(number: u32, is_new: bool) -> Vec<Change> {
    let does = |action| Invocation { action, arguments: vec![number.to_be_bytes().to_vec()] };
    let entry =
        |action| Entry { key: vec![Part::exact(vec![0; 4])], priority: 0, does: does(action) };
    let each = |table: usize| match is_new {
        true => Change::Add { table, entry: entry(table) },
        false => Change::Modify { table, entry: entry(table) },
    };
    vec![each(0), each(1), Change::Default { table: 2, does: does(2) }]
}

/// A program whose tables all say the number that it writes itself.
fn pipeline(number: u32) -> Pipeline {
    let mut pipeline = Pipeline::new(program(number)).unwrap();
    pipeline.change(&numbers(number, true)).unwrap();
    pipeline
}

/// A card of one port on two cores, frames flowing.
fn at_work(program: Option<Pipeline>, receive: Receive) -> (Card, Arc<World>) {
    let world = Arc::new(World::default());
    let config =
        CardConfig { receive, ..CardConfig::new(vec![Made(Arc::clone(&world))], 2, vec![0, 1]) };
    let program = program.map(Pipeline::into);
    let card =
        Card::start_with(&config, CardWorkload { program, ..CardWorkload::default() }).unwrap();
    world.makes.store(true, Ordering::Relaxed);
    (card, world)
}

/// Waits until so many more frames have left.
fn let_leave(world: &World, count: u64) {
    let (until, from) =
        (Instant::now() + Duration::from_secs(20), world.left.load(Ordering::Relaxed));
    while world.left.load(Ordering::Relaxed) < from + count {
        assert!(Instant::now() < until, "frames do not leave");
        thread::yield_now();
    }
}

/// Ends: every frame that was made has left or is counted, and none was lost.
fn end(card: Card, world: &World) {
    world.makes.store(false, Ordering::Relaxed);
    let until = Instant::now() + Duration::from_secs(20);
    while world.under_way.load(Ordering::Relaxed) > 0 && Instant::now() < until {
        thread::yield_now();
    }
    let ended = card.shut_down();
    assert_eq!(ended.frames_lost, 0);
    assert_eq!(world.made.load(Ordering::Relaxed), world.left.load(Ordering::Relaxed), "{ended:?}");
    assert_eq!(world.torn.load(Ordering::Relaxed), 0);
    let port = &ended.counters.ports[0];
    assert_eq!([port.program_drops, port.program_faults, port.tx_dropped], [0; 3]);
}

#[test]
fn programs_are_replaced_while_frames_flow_and_none_is_lost_or_sees_two() {
    for receive in [Receive::BusyPoll, Receive::Interrupt] {
        let (mut card, world) = at_work(Some(pipeline(1)), receive);
        let_leave(&world, 2_000);
        for number in 2..200 {
            let mut next = Some(pipeline(number));
            let until = Instant::now() + Duration::from_secs(20);
            while let Some(program) = next.take() {
                match card.set_program(Some(program)) {
                    Ok(()) => {}
                    Err(ChangeError::ProgramUnderWay { .. }) => {
                        assert!(Instant::now() < until, "a core does not take its program");
                        next = Some(pipeline(number));
                    }
                    Err(other) => panic!("{other}"),
                }
            }
            let_leave(&world, 50);
            card.run_housekeeping();
        }
        let_leave(&world, 5_000);
        assert_eq!(world.latest.load(Ordering::Relaxed), 199);
        end(card, &world);
    }
}

#[test]
fn tables_change_together_while_frames_flow() {
    // The program's own constant is that of the tables in every frame only if it is not looked at.
    let text = program(0).to_string().replace("mov h.h.constant 0x0", "mov h.h.constant 0x7");
    let text = text.replace("\temit h.h\n", "\tmov h.h.constant h.h.first\n\temit h.h\n");
    let mut pipeline = Pipeline::new(Program::read(&text).unwrap()).unwrap();
    pipeline.change(&numbers(1, true)).unwrap();
    let (mut card, world) = at_work(Some(pipeline), Receive::BusyPoll);
    for number in 2..5_000 {
        card.program().unwrap().change(&numbers(number, false)).unwrap();
        if number % 100 == 0 {
            let_leave(&world, 100);
            card.run_housekeeping();
        }
    }
    let_leave(&world, 5_000);
    assert_eq!(world.latest.load(Ordering::Relaxed), 4_999);
    end(card, &world);
}

/// A file of all tables that says a number: by entries where it is odd, else by default actions.
fn file(program: &Program, number: u32) -> TablesFile {
    let does = |action: &str| format!(r#""action":"{action}","arguments":{{"number":{number}}}"#);
    let table = |action: &str| match number % 2 {
        0 => format!(r#"{{"default":{{{}}}}}"#, does(action)),
        _ => format!(r#"{{"entries":[{{"key":{{"key":0}},{}}}]}}"#, does(action)),
    };
    let (first, second, other) = (table("first"), table("second"), does("other"));
    let text =
        format!(r#"{{"tables":{{"t1":{first},"t2":{second},"t3":{{"default":{{{other}}}}}}}}}"#);
    TablesFile::read(program, &text).unwrap()
}

#[test]
fn tables_become_what_a_file_says_while_frames_flow() {
    let text = program(0).to_string().replace("mov h.h.constant 0x0", "mov h.h.constant 0x7");
    let text = text.replace("\temit h.h\n", "\tmov h.h.constant h.h.first\n\temit h.h\n");
    let program = Program::read(&text).unwrap();
    let mut pipeline = Pipeline::new(program.clone()).unwrap();
    pipeline.replace(&file(&program, 1), 0).unwrap();
    let (mut card, world) = at_work(Some(pipeline), Receive::BusyPoll);
    for number in 2..5_000 {
        let of = card.program().unwrap();
        // One that says two things of a table changes nothing.
        let mut wrong = file(&program, number);
        wrong.commands.extend(file(&program, 3).commands.into_iter().skip(1).take(1));
        wrong.commands.extend(file(&program, 5).commands.into_iter().skip(1).take(1));
        of.replace(&wrong, 0).unwrap_err();
        of.replace(&file(&program, number), 0).unwrap();
        if number % 100 == 0 {
            let_leave(&world, 100);
            card.run_housekeeping();
        }
    }
    let_leave(&world, 5_000);
    assert_eq!(world.latest.load(Ordering::Relaxed), 4_999);
    end(card, &world);
}

#[test]
fn a_program_comes_and_goes_and_what_it_has_no_way_for_is_counted() {
    let (mut card, world) = at_work(None, Receive::BusyPoll);
    let_leave(&world, 1_000);
    let nowhere = program(0).to_string().replace("tx m.port", "tx 0x5");
    card.set_program(Some(Pipeline::new(Program::read(&nowhere).unwrap()).unwrap())).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while card.counters().ports[0].program_drops < WINDOW as u64 {
        assert!(Instant::now() < until, "{:?}", card.counters());
        // Frames that are dropped leave no room in the window.
        world.under_way.store(0, Ordering::Relaxed);
        thread::yield_now();
    }
    let short = program(0)
        .to_string()
        .replace("extract h.h", "extract h.h\n extract h.h\n extract h.h\n extract h.h");
    let mut next = Some(Pipeline::new(Program::read(&short).unwrap()).unwrap());
    while card.counters().ports[0].program_faults == 0 {
        assert!(Instant::now() < until, "{:?}", card.counters());
        if let Some(program) = next.take()
            && card.set_program(Some(program)).is_err()
        {
            next = Some(Pipeline::new(Program::read(&short).unwrap()).unwrap());
        }
        world.under_way.store(0, Ordering::Relaxed);
        thread::yield_now();
    }
    // Programs that are not needed any more are let go of.
    card.run_housekeeping();
    while card.set_program(None).is_err() {
        thread::yield_now();
    }
    let left = world.left.load(Ordering::Relaxed);
    while world.left.load(Ordering::Relaxed) == left {
        assert!(Instant::now() < until);
        world.under_way.store(0, Ordering::Relaxed);
        thread::yield_now();
    }
    assert_eq!(card.shut_down().frames_lost, 0);
}

/// Ports that are not the card's, too, are in the group.
#[test]
fn copies_for_a_group_leave_by_its_other_ports() {
    let floods = program(0).to_string().replace("tx m.port", "multicast 0x3\n\tdrop");
    let mut floods = Pipeline::new(Program::read(&floods).unwrap()).unwrap();
    floods.set_ports(3, Ports(0b10_1111));
    let worlds: Vec<Arc<World>> = (0..4).map(|_| Arc::default()).collect();
    let config = CardConfig {
        receive: Receive::BusyPoll,
        ..CardConfig::new(worlds.iter().map(|of| Made(Arc::clone(of))).collect(), 2, vec![0, 1])
    };
    let card = Card::start_with(
        &config,
        CardWorkload { program: Some(floods.into()), ..CardWorkload::default() },
    )
    .unwrap();
    worlds[2].makes.store(true, Ordering::Relaxed);
    let until = Instant::now() + Duration::from_secs(20);
    let made = || worlds[2].made.load(Ordering::Relaxed);
    while made() < 5_000 {
        assert!(Instant::now() < until, "{:?}", card.counters());
        worlds[2].under_way.store(0, Ordering::Relaxed);
        thread::yield_now();
    }
    worlds[2].makes.store(false, Ordering::Relaxed);
    // The frame, and its copy for port 5.
    while card.counters().ports[2].program_drops < 2 * made() {
        assert!(Instant::now() < until, "{:?} of {}", card.counters(), made());
        thread::yield_now();
    }
    let ended = card.shut_down();
    assert_eq!(ended.frames_lost, 0);
    for (port, world) in worlds.iter().enumerate() {
        let left = world.left.load(Ordering::Relaxed);
        let dropped = ended.counters.ports[port].tx_dropped;
        let all = if port == 2 { 0 } else { made() };
        assert_eq!(left + dropped, all, "port {port}: {:?}", ended.counters);
        assert_eq!(world.torn.load(Ordering::Relaxed), 0);
        assert!(port == 2 || left > 0);
    }
}

/// The card has this program from the start: no core can count a fault of another one meanwhile.
#[test]
fn a_ring_that_is_full_is_counted_as_that_and_nothing_else() {
    let full = program(0)
        .to_string()
        .replace("apply {", "ring q count 1 size 4 entry 8\napply {")
        .replace("emit h.h", "dma_write q 0 m.key\nemit h.h");
    let full = Pipeline::new(Program::read(&full).unwrap()).unwrap();
    let (card, world) = at_work(Some(full), Receive::BusyPoll);
    let until = Instant::now() + Duration::from_secs(20);
    while card.counters().ports[0].program_ring_full < 1_000 {
        assert!(Instant::now() < until, "{:?}", card.counters());
        // Frames that are dropped leave no room in the window.
        world.under_way.store(0, Ordering::Relaxed);
        thread::yield_now();
    }
    assert_eq!(card.counters().ports[0].program_faults, 0);
    assert_eq!(card.shut_down().frames_lost, 0);
}
