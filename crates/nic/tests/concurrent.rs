//! Rules change at full speed while a worker classifies: every answer is one that held meanwhile.
//!
//! Each flow has queues of its own, so an answer says whose rule gave it, and frames of a length of
//! its own, so a counter that was ever raised for another flow's frame shows it: its bytes are no
//! multiple of that length. Frames that no rule matches go to queue 0, where no rule sends any.
//!
//! The control thread numbers its operations and says which it has begun and which it has done. The
//! worker reads what is done before a call and what is begun after it: its answers must be those of
//! the states between. That can be asked because at any time one word decides about a flow in each
//! group: the rules of a flow have one key, or there is one of them.
//!
//! Between the operations hundreds of rules that match no frame come and go, in waves. They have
//! the masks of the flows' rules, so that the tables that the worker looks into grow while it does.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use niclab_nic::limits::QUEUES_MAX;
use niclab_nic::memory::{Desc, Region};
use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{Counts, Nic, NicConfig, RuleError, RuleId, Worker};

/// How long rules change.
const DURATION: Duration = Duration::from_millis(1_500);
const FLOWS: usize = 12;
/// Frames of each flow in a burst.
const FRAMES: usize = 3;
const BURST: usize = FLOWS * FRAMES;
/// Queues of one flow; the first flow's first is 1.
const QUEUES: u16 = 20;
/// Where the rules of a wave send what they match; no flow's queue.
const FILLED: u16 = QUEUES_MAX - 1;
const _: () = assert!(FLOWS as u16 * QUEUES < FILLED);
/// Rules of a wave, and how many of them come or go after each operation: a table takes 11 rules
/// before it grows, and each of four masks has a quarter of these.
const WAVE: usize = 600;
const WAVE_STEP: usize = 8;
const _: () = assert!(WAVE.is_multiple_of(WAVE_STEP));
/// The answer to a frame that no rule matches.
const MISS: u16 = 0;
/// The answer to a frame that a rule drops.
const DROP: u16 = u16::MAX;
/// Calls that are remembered at most.
const CALLS_MAX: usize = 400_000;

/// What both threads see.
#[derive(Default)]
struct Stage {
    /// Operations begun, and done.
    begun: AtomicU64,
    done: AtomicU64,
    /// Calls of `classify` that have ended.
    calls: AtomicU64,
    stop: AtomicBool,
}

/// One call of `classify`.
struct Call {
    /// Operations done before it.
    from: u64,
    /// Operations begun when it had ended.
    until: u64,
    answers: [u16; BURST],
}

/// How the rules of a flow change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// One rule, each time in another mask.
    Lone,
    /// Up to three rules of one key; the best decides.
    Stacked,
    /// A rule that counts and jumps, each time to a group of its own.
    Jumping,
}

#[derive(Clone, Copy)]
struct Live {
    id: RuleId,
    priority: u32,
    answer: u16,
}

struct Flow {
    number: usize,
    kind: Kind,
    sport: u16,
    rules: Vec<Live>,
    /// The rule that jumps.
    jump: Option<RuleId>,
    /// The group it jumps to.
    group: u32,
    /// A rule in a group that no jump leads to any more, and the calls ended when the jump moved.
    left: Option<(RuleId, u64)>,
    /// Operations that changed the answer, and the new one.
    history: Vec<(u64, u16)>,
    /// What destroyed rules had counted, and frames they may have counted between the last look
    /// and their end.
    counted: u64,
    unseen: u64,
    turn: u16,
}

impl Flow {
    fn new(number: usize) -> Flow {
        let kind = [Kind::Lone, Kind::Stacked, Kind::Jumping][number % 3];
        Flow {
            number,
            kind,
            sport: 0,
            rules: Vec::new(),
            jump: None,
            group: 0,
            left: None,
            history: vec![(0, MISS)],
            counted: 0,
            unseen: 0,
            turn: 0,
        }
    }

    /// Bytes of one of its frames, with FCS.
    fn frame_bytes(&self) -> u64 {
        64 + self.number as u64
    }

    fn frame(&self) -> Vec<u8> {
        let mut frame = vec![0; self.frame_bytes() as usize - 4];
        (frame[12], frame[14], frame[23]) = (8, 0x45, 17);
        frame[26..30].copy_from_slice(&[10, 0, self.number as u8, 1]);
        frame[30..34].copy_from_slice(&[10, 1, self.number as u8, 1]);
        frame[34..36].copy_from_slice(&self.sport.to_be_bytes());
        frame[37] = self.number as u8;
        frame
    }

    /// A pattern that matches this flow alone, with one of four masks.
    fn pattern(&self, mask: u64) -> Pattern {
        let number = self.number as u8;
        let src = IpAddr::V4(Ipv4Addr::new(10, 0, number, 1));
        let dst = IpAddr::V4(Ipv4Addr::new(10, 1, number, 1));
        match mask % 4 {
            0 => Pattern::any().src(src).dst(dst).udp().sport(self.sport).dport(number.into()),
            1 => Pattern::any().src(src),
            2 => Pattern::any().dst(dst).udp(),
            _ => Pattern::ipv4().udp().dport(number.into()),
        }
    }

    /// The next answer of its own: a queue, now and then a drop.
    fn next_answer(&mut self) -> (u16, [Action; 2]) {
        self.turn = (self.turn + 1) % QUEUES;
        match self.turn {
            0 => (DROP, [Action::Count, Action::Drop]),
            turn => {
                let queue = 1 + self.number as u16 * QUEUES + turn;
                (queue, [Action::Count, Action::Queue(queue)])
            }
        }
    }

    /// What its rules answer now.
    fn answer(&self) -> u16 {
        self.rules.iter().min_by_key(|rule| rule.priority).map_or(MISS, |rule| rule.answer)
    }
}

/// The control thread.
struct Control {
    nic: Nic,
    stage: Arc<Stage>,
    random: u64,
    groups: u32,
    destroyed: Option<RuleId>,
    wave: Wave,
}

/// Rules that match no frame; they come one by one, and then they go.
#[derive(Default)]
struct Wave {
    group: u32,
    rules: Vec<RuleId>,
    falling: bool,
    /// Waves that came and went.
    ended: u64,
}

impl Control {
    /// Lets the wave rise or fall by a few rules; where there is none, the next one rises, in the
    /// root or in the group that a flow jumps to just now.
    fn fill(&mut self, flows: &[Flow]) {
        if self.wave.rules.is_empty() {
            let group = flows[self.random(FLOWS as u64) as usize].group;
            self.wave = Wave { group, ended: self.wave.ended, ..Wave::default() };
        }
        for _ in 0..WAVE_STEP {
            if !self.wave.falling {
                let number = self.wave.rules.len();
                let pattern = filler(number);
                let (group, priority) = (self.wave.group, self.random(3) as u32);
                let actions = &[Action::Count, Action::Queue(FILLED)];
                let rule = Rule { group, priority, pattern, actions };
                self.wave.rules.push(self.nic.create(&rule).unwrap());
            } else {
                let at = self.random(self.wave.rules.len() as u64) as usize;
                let id = self.wave.rules.swap_remove(at);
                assert_eq!(self.nic.query(id), Ok(Counts::default()), "it matches no frame");
                self.nic.destroy(id).unwrap();
            }
        }
        match self.wave.rules.len() {
            WAVE => self.wave.falling = true,
            0 => self.wave.ended += 1,
            _ => {}
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % below
    }

    fn create(&mut self, flow: &Flow, group: u32, priority: u32, actions: &[Action]) -> RuleId {
        let pattern = match flow.kind {
            Kind::Stacked => flow.pattern(0),
            // Whoever comes to another flow's group by mistake shall find something there.
            Kind::Jumping if group > 0 && self.random(2) == 0 => Pattern::any(),
            Kind::Lone | Kind::Jumping => flow.pattern(self.random(4)),
        };
        let rule = Rule { group, priority, pattern, actions };
        self.nic.create(&rule).unwrap()
    }

    /// What a rule of a flow has counted: of that flow alone.
    fn query(&self, flow: &Flow, id: RuleId) -> Counts {
        let counts = self.nic.query(id).unwrap();
        let Counts { packets, bytes } = counts;
        assert_eq!(bytes % flow.frame_bytes(), 0, "{packets} packets, a frame of another flow");
        counts
    }

    fn destroy(&mut self, flow: &mut Flow, id: RuleId) {
        let calls = self.stage.calls.load(SeqCst);
        flow.counted += self.query(flow, id).packets;
        self.nic.destroy(id).unwrap();
        // The call under way at first, and those that began until the rule was gone.
        let calls = self.stage.calls.load(SeqCst) - calls + 2;
        flow.unseen += calls * FRAMES as u64;
        self.destroyed = Some(id);
    }

    /// One operation on a flow.
    fn operate(&mut self, flow: &mut Flow) {
        if let Some(id) = self.destroyed {
            assert_eq!(self.nic.query(id), Err(RuleError::Unknown(id)));
        }
        let op = self.stage.begun.load(SeqCst) + 1;
        self.stage.begun.store(op, SeqCst);
        match (flow.kind, self.random(3)) {
            (Kind::Jumping, 0) => self.move_jump(flow),
            (_, 0) if flow.kind == Kind::Stacked || flow.rules.is_empty() => self.add(flow),
            (Kind::Lone | Kind::Stacked, 1) if !flow.rules.is_empty() => {
                let at = self.random(flow.rules.len() as u64) as usize;
                let rule = flow.rules.swap_remove(at);
                self.destroy(flow, rule.id);
            }
            (_, _) if !flow.rules.is_empty() => {
                let at = self.random(flow.rules.len() as u64) as usize;
                let (answer, actions) = flow.next_answer();
                self.nic.update(flow.rules[at].id, &actions).unwrap();
                flow.rules[at].answer = answer;
                self.query(flow, flow.rules[at].id);
            }
            _ => {}
        }
        self.stage.done.store(op, SeqCst);
        if flow.history.last().is_none_or(|(_, answer)| *answer != flow.answer()) {
            flow.history.push((op, flow.answer()));
        }
    }

    fn add(&mut self, flow: &mut Flow) {
        let priority = self.random(3) as u32;
        if flow.rules.iter().any(|rule| rule.priority == priority) {
            return;
        }
        let (answer, actions) = flow.next_answer();
        let id = self.create(flow, 0, priority, &actions);
        flow.rules.push(Live { id, priority, answer });
    }

    /// Lets the flow jump to a new group, with a rule or without any. The rule it comes from is
    /// destroyed later, when no burst can be on its way to it; a group without rules goes at once.
    fn move_jump(&mut self, flow: &mut Flow) {
        if let Some((id, calls)) = flow.left {
            if self.stage.calls.load(SeqCst) >= calls + 2 {
                self.destroy(flow, id);
                flow.left = None;
            }
            return;
        }
        self.groups += 1;
        let live = (self.random(2) == 0).then(|| {
            let (answer, actions) = flow.next_answer();
            Live { id: self.create(flow, self.groups, 0, &actions), priority: 0, answer }
        });
        flow.group = self.groups;
        let jump = [Action::Count, Action::Jump(self.groups)];
        match flow.jump {
            Some(outer) => self.nic.update(outer, &jump).unwrap(),
            None => flow.jump = Some(self.create(flow, 0, 0, &jump)),
        }
        let old = flow.rules.pop();
        flow.rules.extend(live);
        flow.left = old.map(|old| (old.id, self.stage.calls.load(SeqCst)));
    }
}

/// A pattern that matches no flow, with one of the masks of [`Flow::pattern`].
fn filler(number: usize) -> Pattern {
    let [high, low] = (number as u16).to_be_bytes();
    let src = IpAddr::V4(Ipv4Addr::new(10, 2, high, low));
    let dst = IpAddr::V4(Ipv4Addr::new(10, 3, high, low));
    let port = FLOWS as u16 + number as u16;
    match number % 4 {
        0 => Pattern::any().src(src).dst(dst).udp().sport(port).dport(port),
        1 => Pattern::any().src(src),
        2 => Pattern::any().dst(dst).udp(),
        _ => Pattern::ipv4().udp().dport(port),
    }
}

/// The worker thread: classifies one burst again and again.
fn classify(mut worker: Worker, region: &Region, burst: &mut [Desc], stage: &Stage) -> Vec<Call> {
    let mut calls = Vec::with_capacity(CALLS_MAX);
    while !stage.stop.load(SeqCst) && calls.len() < CALLS_MAX {
        burst.iter_mut().for_each(|desc| desc.queue = QUEUES_MAX);
        let from = stage.done.load(SeqCst);
        let dropped = worker.classify(region, burst);
        let until = stage.begun.load(SeqCst);
        let answer = |i: usize| if dropped >> i & 1 == 1 { DROP } else { burst[i].queue };
        calls.push(Call { from, until, answers: std::array::from_fn(answer) });
        stage.calls.store(calls.len() as u64, SeqCst);
        if calls.len() % 1_000 == 0 {
            worker.offline();
            std::thread::yield_now();
            worker.online();
        }
    }
    stage.stop.store(true, SeqCst);
    calls
}

/// Gives each flow a source port with which RSS sends it where no rule sends any.
fn choose_ports(flows: &mut [Flow], nic: &mut Nic) {
    let mut worker = nic.worker();
    let (region, mut descs) = Region::new(1, 100).unwrap();
    for flow in flows {
        let mut missed = |port: u16| {
            flow.sport = port;
            fill(&region, &mut descs[0], &flow.frame());
            assert_eq!(worker.classify(&region, &mut descs), 0);
            descs[0].queue == MISS
        };
        assert!((1..u16::MAX).any(&mut missed), "some port has queue {MISS}");
    }
}

fn fill(region: &Region, desc: &mut Desc, frame: &[u8]) {
    region.slot_mut(desc)[..frame.len()].copy_from_slice(frame);
    region.set_len(desc, frame.len() as u16);
}

/// Every answer to a flow is one that held during the call.
fn check_answers(flow: &Flow, calls: &[Call]) {
    let mut at = 0;
    for (number, call) in calls.iter().enumerate() {
        let later = &flow.history[at..];
        at += later.iter().take_while(|(op, _)| *op <= call.from).count().max(1) - 1;
        let held = flow.history[at..].iter().take_while(|(op, _)| *op <= call.until.max(call.from));
        let held: Vec<u16> = held.map(|(_, answer)| *answer).collect();
        for frame in 0..FRAMES {
            let answer = call.answers[frame * FLOWS + flow.number];
            let Call { from, until, .. } = call;
            assert!(
                held.contains(&answer),
                "flow {}, call {number}, operations {from} to {until}: {answer}; of {} answers \
                 that held the last are {:?}",
                flow.number,
                held.len(),
                &held[held.len().saturating_sub(8)..]
            );
        }
    }
}

/// What the rules of a flow have counted is what they answered.
fn check_counts(control: &Control, flow: &Flow, calls: &[Call]) {
    let all = (calls.len() * FRAMES) as u64;
    let hits = calls
        .iter()
        .flat_map(|call| (0..FRAMES).map(|frame| call.answers[frame * FLOWS + flow.number]))
        .filter(|answer| *answer != MISS)
        .count() as u64;
    let live = flow.rules.iter().map(|rule| rule.id).chain(flow.left.map(|(id, _)| id));
    let counted = flow.counted + live.map(|id| control.query(flow, id).packets).sum::<u64>();
    let number = flow.number;
    assert!(counted <= hits, "flow {number}: {counted} counted, {hits} answered");
    assert!(hits <= counted + flow.unseen, "flow {number}: {counted} counted of {hits}");
    if let Some(jump) = flow.jump {
        assert_eq!(control.query(flow, jump).packets, all, "flow {number}: updates keep counts");
    }
}

#[test]
fn every_answer_held_during_its_call_and_counters_add_up() {
    let config = NicConfig { queues: QUEUES_MAX, ..NicConfig::default() };
    let mut flows: Vec<Flow> = (0..FLOWS).map(Flow::new).collect();
    choose_ports(&mut flows, &mut Nic::new(&config).unwrap());
    let (region, mut descs) = Region::new(BURST, 100).unwrap();
    for (desc, flow) in descs.iter_mut().zip(flows.iter().cycle()) {
        fill(&region, desc, &flow.frame());
    }
    let stage = Arc::new(Stage::default());
    let nic = Nic::new(&config).unwrap();
    let mut control = Control {
        nic,
        stage: Arc::clone(&stage),
        random: 7,
        groups: 0,
        destroyed: None,
        wave: Wave::default(),
    };
    for flow in flows.iter_mut().filter(|flow| flow.kind == Kind::Jumping) {
        control.move_jump(flow);
        flow.history = vec![(0, flow.answer())];
    }
    let worker = control.nic.worker();
    let calls = std::thread::scope(|scope| {
        let worker = scope.spawn(|| classify(worker, &region, &mut descs, &stage));
        let start = Instant::now();
        while !stage.stop.load(SeqCst) && start.elapsed() < DURATION {
            for _ in 0..64 {
                let flow = control.random(FLOWS as u64) as usize;
                control.operate(&mut flows[flow]);
                control.fill(&flows);
            }
        }
        stage.stop.store(true, SeqCst);
        worker.join().unwrap()
    });
    for flow in &flows {
        check_answers(flow, &calls);
        check_counts(&control, flow, &calls);
    }
    assert!(control.wave.ended > 0, "no table was filled");
    // More than the operation under way when the call began: the threads did run side by side, even
    // where other programs keep both cores busy (10 of 183,000 calls with three builds beside it).
    let met = calls.iter().filter(|call| call.until > call.from + 1).count();
    assert!(met > 0, "none of {} calls met changes", calls.len());
}
