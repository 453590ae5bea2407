//! `dpdk:ARGS`: ports of DPDK under test, driven by a process of their own.
//!
//! DPDK takes a process over: it reads arguments, pins threads, prints, and may abort. So it has
//! one to itself, the program `niclab-dpdk`, which is built where libdpdk is installed; here it is
//! started, asked, and ended. Each of its failures is an error with a reason, never a hang.
//!
//! Which ports there are decides what can be measured:
//!
//! - `--vdev=net_niclab0`: niclab's own card, and another one at the other end of its memory;
//! - `--vdev=net_tap0`: a TAP port, and the kernel's end of it;
//! - `--vdev=net_ring0`: two ports whose queues are two crossed rings in memory, one the tester's,
//!   one the device's: everything but rules;
//! - two cards (`-a ADDRESS -a ADDRESS`), cabled: the first is the tester's, the second the device;
//! - `--vdev=net_null0`: one port that makes frames out of nothing and drops what is sent: the
//!   function's rate alone. `offered` are the frames the port made and `received` those it took
//!   back; there is no latency, and no other rate than `saturate`.

#[cfg(test)]
mod process_tests;
pub mod protocol;
mod runtime;

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use self::protocol::{Answer, Open, Request};
use crate::Load;
use crate::conversation::{Conversation, Counterpart, excerpt};
use crate::cores;
use crate::face::{
    DeviceError, DeviceInfo, Observation, RuleBlock, Setup, SetupReport, Task, Testbed,
};
use crate::plan::{Plan, RuleWork, RulesPlan};
use crate::rule_case::{RuleCase, RuleCases, RuleCasesObservation};
use crate::scratch::Scratch;
use crate::two_hosts::{
    FarAnswer, FarHost, FarLink, HalfObservation, HalfTask, Role, ServeNotice, ServeSignal,
};

/// The program.
const PROGRAM: &str = "niclab-dpdk";

/// Names its path where it does not lie beside niclab.
const PROGRAM_VARIABLE: &str = "NICLAB_DPDK";

/// How long an answer may take beside the load itself. Cards take seconds to bring their link up.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a rule may take beside that: the kernel's filters take a millisecond where the machine
/// is slow.
const RULE_TIMEOUT: Duration = Duration::from_millis(2);

/// How long a call or a frame of a case may take.
const CALL_TIMEOUT: Duration = Duration::from_millis(500);

/// Beginnings of lines that DPDK writes at each start.
const EVERY_START: &[&str] = &[
    "EAL: Detected",
    "EAL: Multi-process socket",
    "EAL: Selected IOVA mode",
    "EAL: Static memory layout",
    "EAL: VFIO support initialized",
    "TELEMETRY: No legacy callbacks",
];

/// How long the program may take to end once its input has.
const GRACE: Duration = Duration::from_secs(1);

/// The ports, as seen from here: a process that is asked.
struct DpdkBed {
    about: DeviceInfo,
    process: Process,
    /// The connection to the tester's host; `None` where the tester is in this process.
    far: Option<FarLink>,
    /// Rules of the set-up.
    rules: u32,
}

/// Opens the ports that a name such as `dpdk:--vdev=net_ring0` stands for.
pub fn open(name: &str) -> Result<Box<dyn Testbed>, DeviceError> {
    let open = question(name, Role::Whole)?;
    greet(&program()?, open, None)
}

/// The same with another program in the place of `niclab-dpdk`.
pub fn open_with(program: &Path, name: &str) -> Result<Box<dyn Testbed>, DeviceError> {
    greet(program, question(name, Role::Whole)?, None)
}

/// Opens the port that is half a testbed; `far` is for the device's half.
pub(crate) fn open_half(
    name: &str,
    role: Role,
    far: FarLink,
) -> Result<Box<dyn Testbed>, DeviceError> {
    let open = question(name, role)?;
    greet(&program()?, open, Some(far))
}

fn greet(
    program: &Path,
    open: Open,
    far: Option<FarLink>,
) -> Result<Box<dyn Testbed>, DeviceError> {
    let mut process = Process::start(program, &open)?;
    match process.ask(&Request::Open(open), ANSWER_TIMEOUT)? {
        Answer::Opened(about) => {
            // DPDK looks for it while it starts and keeps nothing there. Gone now, it is gone even
            // if this process is killed.
            process.runtime = None;
            Ok(Box::new(DpdkBed { about, process, far, rules: 0 }))
        }
        other => Err(process.confused(&other)),
    }
}

/// The request that opens a device: DPDK's arguments, and the cores that this process may use.
fn question(name: &str, role: Role) -> Result<Open, DeviceError> {
    let arguments = arguments(name)?;
    cores::take(name, if role == Role::Whole { 2 } else { 1 })?;
    Ok(Open { name: name.into(), arguments, cores: cores::allowed(), role })
}

/// The arguments in a name, split at white space.
fn arguments(name: &str) -> Result<Vec<String>, DeviceError> {
    let bad = |reason: &str| DeviceError::BadName { text: name.into(), reason: reason.into() };
    let rest = name.strip_prefix("dpdk:").ok_or_else(|| bad("must start with `dpdk:`"))?;
    if let Some((port, _)) = rest.split_once(",stamps=") {
        return Err(DeviceError::lacks(format!(
            "time stamps of the port `dpdk:{port}`: niclab lacks it; a tester `linux:IFACE` has \
             them"
        )));
    }
    let arguments: Vec<String> = rest.split_whitespace().map(String::from).collect();
    if arguments.is_empty() {
        return Err(bad("give DPDK's arguments, such as `dpdk:--vdev=net_ring0`, or two cards: \
             `dpdk:-a 0000:01:00.0 -a 0000:01:00.1`"));
    }
    Ok(arguments)
}

/// The path of the program: from the variable, or beside this program.
fn program() -> Result<PathBuf, DeviceError> {
    let named = env::var_os(PROGRAM_VARIABLE).map(PathBuf::from);
    let beside = env::current_exe().ok().and_then(|exe| {
        let directory = exe.parent()?;
        // Tests lie in a directory below.
        let above = directory.parent().filter(|_| directory.ends_with("deps"));
        let found = |d: &Path| Some(d.join(PROGRAM)).filter(|program| program.is_file());
        found(directory).or_else(|| found(above?))
    });
    named.or(beside).ok_or_else(|| absent(PROGRAM.into()))
}

fn absent(what: String) -> DeviceError {
    DeviceError::Absent {
        what,
        remedy: format!(
            "install DPDK (apt-get install libdpdk-dev) and build with ./run, which puts {PROGRAM} \
             beside niclab; or set {PROGRAM_VARIABLE} to its path"
        ),
    }
}

impl DpdkBed {
    /// Asks the process. While it works it may ask the tester on the other host.
    fn ask(&mut self, request: &Request, timeout: Duration) -> Result<Answer, DeviceError> {
        let mut answer = self.process.ask(request, timeout)?;
        loop {
            let Answer::Ask(asked) = answer else { return Ok(answer) };
            let Some(far) = &self.far else {
                return Err(self.process.confused(&Answer::Ask(asked)));
            };
            let of_tester = far.borrow_mut().ask(asked).unwrap_or_else(FarAnswer::Failed);
            answer = self.process.ask(&Request::Far(of_tester), timeout)?;
        }
    }

    /// Passes the signals of the tester's host to the process, and its notices back, until it has
    /// served the load.
    fn serve(
        &mut self,
        mut answer: Answer,
        timeout: Duration,
    ) -> Result<HalfObservation, DeviceError> {
        while let Answer::Notice(notice) = answer {
            let signal = match &self.far {
                None => return Err(self.process.confused(&Answer::Notice(notice))),
                Some(far) => next_signal(&mut *far.borrow_mut(), notice),
            };
            // Without the tester's host, nothing else ends the trial of the process.
            let signal =
                signal.inspect_err(|_| drop(self.process.conversation.fail("is ended")))?;
            answer = self.ask(&Request::Signal(signal), timeout)?;
        }
        match answer {
            Answer::Half(observation) => Ok(observation),
            other => Err(self.process.confused(&other)),
        }
    }

    /// The longest time that a load and the operations of a plan may take.
    fn timeout(&self, load: Option<&Load>, plan: Option<&RulesPlan>) -> Duration {
        let offered_ns = load.map_or(0, |load| load.warmup_ns.saturating_add(load.duration_ns));
        // The rules of the set-up may have to be created anew, behind a proof.
        let operations = plan.map_or(0, |plan| match &plan.work {
            RuleWork::Create(block) => block.count().saturating_mul(2).saturating_add(self.rules),
            RuleWork::Change { .. } | RuleWork::Renew { .. } => self.rules.saturating_mul(2),
        });
        ANSWER_TIMEOUT
            .saturating_add(Duration::from_nanos(offered_ns))
            .saturating_add(RULE_TIMEOUT.saturating_mul(operations))
    }
}

/// Sends a notice to the tester's host, and waits for its next signal.
fn next_signal(far: &mut dyn FarHost, notice: ServeNotice) -> Result<ServeSignal, DeviceError> {
    far.tell(notice)?;
    loop {
        if let Some(signal) = far.wait(Duration::from_secs(1))? {
            return Ok(signal);
        }
    }
}

/// The operations on rules of a plan.
fn of_rules(plan: &Plan) -> Option<&RulesPlan> {
    match plan {
        Plan::Rules(plan) => Some(plan),
        _ => None,
    }
}

impl Testbed for DpdkBed {
    fn about(&self) -> &DeviceInfo {
        &self.about
    }

    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError> {
        let rules = setup.rules.iter().map(RuleBlock::count).fold(0, u32::saturating_add);
        let timeout = ANSWER_TIMEOUT.saturating_add(RULE_TIMEOUT.saturating_mul(rules));
        self.rules = rules;
        match self.ask(&Request::Setup(setup.clone()), timeout)? {
            Answer::Ready(report) => Ok(report),
            other => Err(self.process.confused(&other)),
        }
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        let timeout = match task {
            Task::Load { load, plan } => self.timeout(Some(load), of_rules(plan)),
            Task::Plan(plan) => self.timeout(None, Some(plan)),
            _ => return Err(task.not_supported()),
        };
        match self.ask(&Request::Measure(task.clone()), timeout)? {
            Answer::Observed(observation) => Ok(*observation),
            other => Err(self.process.confused(&other)),
        }
    }

    fn try_rules(&mut self, cases: &RuleCases) -> Result<RuleCasesObservation, DeviceError> {
        let timeout =
            cases.cases.iter().map(RuleCase::extent).fold(ANSWER_TIMEOUT, |sum, (calls, time)| {
                sum.saturating_add(time).saturating_add(CALL_TIMEOUT.saturating_mul(calls))
            });
        match self.ask(&Request::TryRules(cases.clone()), timeout)? {
            Answer::Tried(observation) => Ok(observation),
            other => Err(self.process.confused(&other)),
        }
    }

    fn measure_half(&mut self, task: &HalfTask) -> Result<HalfObservation, DeviceError> {
        let timeout = match task {
            HalfTask::Serve { load, plan } => self.timeout(Some(load), of_rules(plan)),
            HalfTask::Offer { load, .. } => self.timeout(Some(load), None),
            HalfTask::Mark { .. } | HalfTask::Exchange { .. } | HalfTask::Clock => ANSWER_TIMEOUT,
        };
        let answer = self.ask(&Request::MeasureHalf(task.clone()), timeout)?;
        self.serve(answer, timeout)
    }
}

/// The program while it runs; ended with this value.
struct Process {
    conversation: Conversation,
    /// DPDK's, while it starts.
    runtime: Option<Scratch>,
}

impl Process {
    fn start(program: &Path, open: &Open) -> Result<Process, DeviceError> {
        let device = open.name.as_str();
        let runtime = runtime::private(&open.arguments)
            .map_err(|e| broken(device, format!("{}: {e}", env::temp_dir().display())))?;
        let mut command = Command::new(program);
        command.envs(runtime.iter().map(|runtime| (runtime::VARIABLE, runtime.path())));
        let with = Counterpart { device, program: PROGRAM, grace: GRACE, usual: EVERY_START };
        let conversation = Conversation::start(command, with).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => absent(program.display().to_string()),
            _ => broken(device, format!("{}: {e}", program.display())),
        })?;
        Ok(Process { conversation, runtime })
    }

    /// Asks and waits for the answer; one that refuses is an error.
    fn ask(&mut self, request: &Request, timeout: Duration) -> Result<Answer, DeviceError> {
        self.conversation.send(request)?;
        match self.conversation.receive(timeout)? {
            // It did not open.
            Answer::Refused(DeviceError::BadName { text, reason }) => {
                let reason = self.conversation.explain(reason);
                Err(DeviceError::BadName { text, reason })
            }
            Answer::Refused(error) => Err(error),
            answer => Ok(answer),
        }
    }

    /// An answer to another question.
    fn confused(&mut self, answer: &Answer) -> DeviceError {
        let answer = serde_json::to_string(answer).unwrap_or_default();
        let what = format!("gave the answer to another question: {}", excerpt(&answer));
        self.conversation.fail(&what)
    }
}

fn broken(device: &str, reason: String) -> DeviceError {
    DeviceError::Broken { device: device.into(), reason }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// What comes of opening with a shell script in the program's place.
    fn open_script(script: &str) -> String {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("niclab-dpdk");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        loop {
            let opened = open_with(&path, "dpdk:--vdev=net_ring0");
            let error = opened.map(|bed| bed.about().name.clone()).unwrap_err().to_string();
            // A process that another test has just forked still has the file open for writing.
            if !error.contains("Text file busy") {
                return error;
            }
        }
    }

    #[test]
    fn time_stamps_of_a_port_are_what_niclab_lacks() {
        let error = question("dpdk:-a 0000:01:00.0,stamps=card", Role::Tester).unwrap_err();
        let expected = "not supported: time stamps of the port `dpdk:-a 0000:01:00.0`: niclab \
                        lacks it; a tester `linux:IFACE` has them";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn a_dead_process_is_reported_with_its_status_and_last_output() {
        assert_eq!(
            open_script("echo EAL: no memory >&2; exit 3"),
            "dpdk:--vdev=net_ring0 failed: niclab-dpdk ended: exit status: 3; its output: \
             EAL: no memory"
        );
        assert_eq!(
            open_script("kill -9 $$"),
            "dpdk:--vdev=net_ring0 failed: niclab-dpdk ended: signal: 9 (SIGKILL)"
        );
    }

    #[test]
    fn garbage_and_answers_to_other_questions_end_the_process() {
        assert_eq!(
            open_script("echo EAL: Detected CPU lcores: 2; exec sleep 100"),
            "dpdk:--vdev=net_ring0 failed: niclab-dpdk gave an unreadable answer: \
             EAL: Detected CPU lcores: 2"
        );
        let ready = r#"{"ready":{"rules_installed":0,"rules_refused":0,"refusal":null,"#.to_owned()
            + r#""install":{"secs":0,"nanos":0},"rule_bytes":null}}"#;
        assert_eq!(
            open_script(&format!("echo '{ready}'; exec sleep 100")),
            "dpdk:--vdev=net_ring0 failed: niclab-dpdk gave the answer to another question: "
                .to_owned()
                + &ready
        );
    }

    #[test]
    fn the_run_time_directory_is_private_and_gone_after() {
        let error = open_script(
            "mkdir -p ${RUNTIME_DIRECTORY:?}/dpdk/rte; echo $RUNTIME_DIRECTORY >&2; exit 3",
        );
        let path = Path::new(error.rsplit(' ').next().unwrap());
        assert!(path.starts_with(env::temp_dir()) && !path.exists(), "{error}");
    }

    #[test]
    fn a_missing_program_names_the_remedy() {
        let error = open_with(Path::new("/nowhere/niclab-dpdk"), "dpdk:--vdev=net_ring0");
        let Err(DeviceError::Absent { what, remedy }) = error.map(|bed| bed.about().clone()) else {
            panic!("opened");
        };
        assert_eq!(what, "/nowhere/niclab-dpdk");
        assert!(remedy.contains("apt-get install libdpdk-dev") && remedy.contains("./run"));
    }

    #[test]
    fn a_name_without_arguments_is_refused() {
        for name in ["dpdk:", "dpdk:  ", "dpdk"] {
            let error = open(name).map(|bed| bed.about().clone());
            assert!(matches!(error, Err(DeviceError::BadName { .. })), "{error:?}");
        }
    }

    #[test]
    fn the_lines_that_say_why_are_quoted_whatever_comes_behind_them() {
        let noise = "for n in 1 2 3 4 5 6 7; do echo net_ice: queue $n >&2; done";
        assert_eq!(
            open_script(&format!(
                "echo EAL: Detected CPU lcores: 2 >&2; echo EAL: Cannot open /dev/vfio/9 >&2; \
                 {noise}; echo EAL: probe FAILED >&2; {noise}; exit 1"
            )),
            "dpdk:--vdev=net_ring0 failed: niclab-dpdk ended: exit status: 1; its output: \
             EAL: Cannot open /dev/vfio/9 | EAL: probe FAILED"
        );
        let many = "for n in 1 2 3 4 5 6 7 8 9; do echo error $n >&2; done; exit 1";
        let error = open_script(many);
        assert!(
            error.ends_with("error 1 | error 2 | error 3 | error 7 | error 8 | error 9"),
            "{error}"
        );
    }

    #[test]
    fn a_name_that_was_refused_comes_with_all_that_dpdk_said() {
        let refused = r#"{"refused":{"bad_name":{"text":"dpdk:x","reason":"no"}}}"#;
        let script = format!("echo '{refused}'; read line; echo late: cannot map >&2");
        let error = open_script(&script);
        assert!(error.ends_with("no; its output: late: cannot map"), "{error}");
    }
}
