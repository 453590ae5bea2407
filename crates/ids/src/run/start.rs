//! How a run starts: directories, engines, and the card.

use std::fs;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use niclab_card::{Card, CardConfig, CardError, CardWorkload, PacketProcessor, PortName, Receive};
use niclab_port::link;
use niclab_program::{Pipeline, Program, read_tables};

use super::account::Account;
use super::engine::{Engine, EngineChange, EngineSettings, Output};
use super::error::RunError;
use super::eve::{EVE, EveFile};
use super::gate::Gate;
use super::merge::Merge;
use super::pipe::{Pipe, RunPort};
use super::settings::{self, CONFIG, Input, SOCKET};
use super::setup::Setup;
use super::{EVENTS_MAX, IdsRun, LOOK, RunConfig, failed, place};
use crate::partition::Partition;
use crate::rule::Rule;
use crate::steering::{STEERING_PROGRAM, SteeringTables};

/// Bytes of the address of a socket, without its last zero (unix(7)).
const SOCKET_LEN_MAX: usize = 107;

/// An error of the card's program.
fn of_program(error: &dyn std::fmt::Display) -> RunError {
    RunError::Card(CardError::Program { reason: error.to_string() })
}

/// The card's program with the tables of a partition.
pub(super) fn pipeline(partition: &Partition) -> Result<Pipeline, RunError> {
    let tables = SteeringTables::of(partition).map_err(RunError::Steering)?;
    let program = Program::read(STEERING_PROGRAM).map_err(|error| of_program(&error))?;
    let mut pipeline = Pipeline::new(program).map_err(|error| of_program(&error))?;
    let text = serde_json::to_string(&tables).map_err(|error| of_program(&error))?;
    let commands = read_tables(pipeline.program(), &text).map_err(|error| of_program(&error))?;
    pipeline.tell(&commands, 0).map_err(|error| of_program(&error))?;
    Ok(pipeline)
}

/// Makes the directory of each engine, with its configuration.
fn make_directories(config: &RunConfig, inputs: &[Input]) -> Result<(), RunError> {
    let eve = settings::eve(&config.config)?;
    inputs.iter().enumerate().try_for_each(|(engine, input)| {
        let directory = place(&config.directory, engine);
        fs::create_dir(&directory).map_err(failed(&directory))?;
        let directory = fs::canonicalize(&directory).map_err(failed(&directory))?;
        let socket = directory.join(SOCKET);
        if socket.as_os_str().len() > SOCKET_LEN_MAX {
            return Err(RunError::LongPath(socket));
        }
        let path = directory.join(CONFIG);
        let text = settings::config(eve.clone(), &directory, input);
        fs::write(&path, text).map_err(failed(&path))
    })
}

impl IdsRun {
    /// Starts the engines and the card. Packets are taken when every engine is ready.
    ///
    /// # Errors
    /// [`RunError`]; nothing is left running.
    pub fn start(
        config: RunConfig,
        (rules, partition): (Vec<Rule>, Partition),
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<IdsRun, RunError> {
        let whole = pipeline(&partition)?;
        let is_trace = matches!(config.port, PortName::Pcap(_));
        let engines = config.engine_cpus.len();
        let inputs: Vec<Input> = match is_trace {
            true => vec![Input::Pipe; engines],
            false => taps(engines).into_iter().map(Input::Tap).collect(),
        };
        let pipes: Vec<Pipe> = (0..if is_trace { engines } else { 0 }).map(Pipe::new).collect();
        make_directories(&config, &inputs)?;
        let setup = Arc::new(Setup::new(rules, partition, None));
        let (to, output) = sync_channel(EVENTS_MAX);
        let merge = Merge::new(Arc::clone(&setup), pipes.clone());
        let eve = EveFile::create(&config.directory);
        let eve = eve.map_err(failed(&config.directory.join(EVE)))?;
        let mut run = IdsRun {
            config,
            setup,
            card: None,
            pipes,
            engines: Vec::new(),
            gate: Gate::default(),
            accounts: vec![Account::default(); engines],
            output,
            merge,
            eve,
            reload: None,
            loading: Duration::ZERO,
            generation: 1,
            looked: Instant::now(),
            is_eve_failing: false,
            missing: Vec::new(),
            events: Vec::new(),
        };
        run.write_rules(|core| run.setup.text(core, None))?;
        let mut whole = Some(whole);
        if !is_trace {
            // The interfaces come with the card.
            run.card = whole.take().map(|whole| run.start_card(&inputs, whole)).transpose()?;
        }
        run.start_engines(inputs.clone(), &to)?;
        run.wait_for_engines(is_stopped)?;
        run.gate.open();
        if let Some(whole) = whole {
            run.card = Some(run.start_card(&inputs, whole)?);
        }
        Ok(run)
    }

    fn start_engines(
        &mut self,
        inputs: Vec<Input>,
        output: &SyncSender<Output>,
    ) -> Result<(), RunError> {
        for (number, input) in inputs.into_iter().enumerate() {
            let directory = place(&self.config.directory, number);
            let settings = EngineSettings {
                number,
                cpu: self.config.engine_cpus[number],
                program: self.config.suricata.clone(),
                config: self.config.config.clone(),
                directory: fs::canonicalize(&directory).map_err(failed(&directory))?,
                input,
                pipe: self.pipes.get(number).cloned(),
            };
            let engine = Engine::start(settings, output.clone());
            self.engines.push(engine.map_err(|error| RunError::Engine { engine: number, error })?);
        }
        Ok(())
    }

    fn start_card(&self, inputs: &[Input], program: Pipeline) -> Result<Card, RunError> {
        let engine = |(number, input): (usize, &Input)| match input {
            Input::Tap(name) => RunPort::Tap(name.clone()),
            Input::Pipe => RunPort::Pipe(self.pipes[number].clone()),
        };
        let ports = std::iter::once(RunPort::Named(self.config.port.clone(), self.gate.clone()))
            .chain(inputs.iter().enumerate().map(engine))
            .collect();
        let cores = self.config.card_cores.clone();
        let config = CardConfig { receive: Receive::Interrupt, ..CardConfig::new(ports, 1, cores) };
        let program = Some(PacketProcessor::from(program));
        let workload = CardWorkload { program, ..CardWorkload::default() };
        Card::start_with(&config, workload).map_err(RunError::Card)
    }

    fn wait_for_engines(&mut self, is_stopped: &dyn Fn() -> bool) -> Result<(), RunError> {
        while !self.engines.iter().all(|engine| engine.has_loaded(self.generation)) {
            if is_stopped() {
                return Err(RunError::Stopped);
            }
            std::thread::sleep(LOOK);
            for (engine, of) in self.engines.iter_mut().enumerate() {
                match of.look() {
                    Some(EngineChange::Died(error) | EngineChange::Refused { error, .. }) => {
                        return Err(RunError::Engine { engine, error });
                    }
                    Some(EngineChange::Ready) | None => {}
                }
            }
        }
        Ok(())
    }
}

/// Names of TAP interfaces that do not exist yet.
fn taps(count: usize) -> Vec<String> {
    let is_free = |name: &String| !matches!(link::find(name), Ok(Some(_)));
    (0..).map(|at| format!("ids{at}")).filter(is_free).take(count).collect()
}
