//! `niclab nic top`: a live view of a running card, over its control socket.
//!
//! `snapshot` polls the card, `view` makes rates of two snapshots, `draw` draws them, and
//! `controls` has the keys. A thread of its own asks, so that keys are answered while the card is
//! busy.

mod controls;
mod draw;
mod snapshot;
mod view;

use std::env;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use niclab_control::{Client, ControlError};
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use super::ctl;
use crate::arguments::TopArguments;
use crate::failure::Failure;
use crate::output::{self, one_line, stdout};
use crate::run::stop_flag;
use controls::{Controls, KEYS};
use draw::{Screen, draw, height, plain};
use snapshot::{CardPoller, CardSnapshot};
use view::{RuleOrder, view};

/// How long a key is waited for before the screen is drawn anew.
const TURN: Duration = Duration::from_millis(100);

/// Columns of a frame for a script, unless `COLUMNS` says otherwise.
const COLUMNS: u16 = 80;

/// Most rules of a frame for a script.
const RULES_MAX: usize = 1_000;

/// Shows a card until it is enough.
pub(super) fn run(arguments: &TopArguments) -> Result<(), Failure> {
    let TopArguments { control, interval, once } = arguments;
    let interval = Duration::from_secs_f64(*interval);
    let mut watcher = CardPoller::new(Client::new(control));
    match once {
        true => print(&mut watcher, control, interval),
        false if !output::is_screen() => Err(Failure::NoTerminal),
        false => {
            // A card that is not there is no reason to take the terminal.
            let first = watcher.poll().map_err(|error| ctl::failed(control, error))?;
            live(watcher, first, control, interval)
        }
    }
}

/// Prints one frame, with the rates of one interval.
fn print(watcher: &mut CardPoller, control: &Path, interval: Duration) -> Result<(), Failure> {
    let failed = |error| ctl::failed(control, error);
    let first = watcher.poll().map_err(failed)?;
    thread::sleep(interval);
    let second = watcher.poll().map_err(failed)?;
    let mut view = view(&second, Some(&first), RuleOrder::HitRate);
    let more = view.rules.len().saturating_sub(RULES_MAX);
    view.rules.truncate(RULES_MAX);
    let keys = if more > 0 { "more rules: niclab nic ctl flow list PORT" } else { "" };
    let (socket, state) = (socket(control), rates_over(interval));
    let screen = Screen { socket, state, view, keys, ..Screen::default() };
    let columns = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let text = plain(columns.unwrap_or(COLUMNS), height(&screen.view), &screen);
    Ok(writeln!(stdout(), "{}", text.trim_end())?)
}

fn socket(control: &Path) -> String {
    one_line(&control.display().to_string())
}

fn rates_over(interval: Duration) -> String {
    format!(", rates over {} s", interval.as_secs_f64())
}

/// The result of the polling thread.
type PollResult = Result<CardSnapshot, ControlError>;

/// Asks the card at every interval while nobody has paused it, until nobody listens.
fn ask(
    mut watcher: CardPoller,
    interval: Duration,
    is_paused: &AtomicBool,
    to: &Sender<PollResult>,
) {
    loop {
        thread::sleep(interval);
        if !is_paused.load(Ordering::Relaxed) && to.send(watcher.poll()).is_err() {
            return;
        }
    }
}

/// The looks of a live view.
struct LiveState {
    now: CardSnapshot,
    before: Option<CardSnapshot>,
    /// Why there is no later one.
    trouble: Option<String>,
}

impl LiveState {
    /// Takes what the thread that asks has to say.
    fn hear(&mut self, asked: &Receiver<PollResult>) {
        for look in asked.try_iter() {
            match look {
                Ok(look) => {
                    self.before = Some(std::mem::replace(&mut self.now, look));
                    self.trouble = None;
                }
                Err(error) => self.trouble = Some(one_line(&error.to_string())),
            }
        }
    }

    fn state(&self, interval: Duration, is_paused: bool) -> String {
        let age_s = self.now.at.elapsed().as_secs();
        let state = match (&self.trouble, is_paused) {
            (Some(_), _) => format!("; no answer for {age_s} s"),
            (None, true) => format!("; paused, {age_s} s old"),
            (None, false) => String::new(),
        };
        rates_over(interval) + &state
    }

    /// Why there are no values of now, and what to do.
    fn trouble_words(&self) -> Option<String> {
        let trouble = self.trouble.as_ref()?;
        Some(format!(
            "The card does not answer: {trouble}. It may have ended. This view goes on when a card \
             answers at this socket."
        ))
    }
}

/// Draws until a key or a signal ends it.
fn live(
    watcher: CardPoller,
    first: CardSnapshot,
    control: &Path,
    interval: Duration,
) -> Result<(), Failure> {
    let (stop, is_paused) = (stop_flag()?, Arc::new(AtomicBool::new(false)));
    let (to, asked) = channel();
    let asks = Arc::clone(&is_paused);
    thread::Builder::new()
        .name("top".to_owned())
        .spawn(move || ask(watcher, interval, &asks, &to))?;
    let mut observed = LiveState { now: first, before: None, trouble: None };
    let (mut controls, mut terminal) = (Controls::default(), output::Screen::open()?);
    while !stop.load(Ordering::Relaxed) {
        observed.hear(&asked);
        let screen = Screen {
            socket: socket(control),
            state: observed.state(interval, controls.is_paused),
            trouble: observed.trouble_words(),
            view: view(&observed.now, observed.before.as_ref(), controls.order),
            pane: controls.pane,
            offsets: controls.offsets,
            keys: KEYS,
        };
        terminal.draw(|area, buffer| draw(area, buffer, &screen))?;
        // Whatever came, a key or another size: the screen is drawn anew.
        if !event::poll(TURN)? {
            continue;
        }
        let Event::Key(key) = event::read()? else { continue };
        let (lines, press) = (terminal.lines()?, (key.code, key.modifiers));
        if key.kind != KeyEventKind::Release && !controls.press(press, lines, &screen.view) {
            break;
        }
        is_paused.store(controls.is_paused, Ordering::Relaxed);
    }
    Ok(())
}
