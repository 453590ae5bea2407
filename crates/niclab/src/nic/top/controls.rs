//! The keys of `niclab nic top`.

use ratatui::crossterm::event::{KeyCode, KeyModifiers};

use super::draw::{Pane, offset_max};
use super::view::{RuleOrder, TopView};

/// The line that names the keys.
pub const KEYS: &str =
    "q quit  p pause  s sort rules  left/right choose a table  up/down scroll it";

/// Rows of a page.
const PAGE: usize = 10;

/// The settings that keys change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Controls {
    pub is_paused: bool,
    pub order: RuleOrder,
    pub pane: Pane,
    pub offsets: [usize; 3],
}

impl Controls {
    /// Does what a key says, on a screen of so many lines; `false` where it ends the view.
    pub fn press(&mut self, key: (KeyCode, KeyModifiers), lines: u16, view: &TopView) -> bool {
        match key {
            (KeyCode::Char('c'), KeyModifiers::CONTROL) => return false,
            (KeyCode::Char('q') | KeyCode::Esc, _) => return false,
            (KeyCode::Char('p'), _) => self.is_paused = !self.is_paused,
            (KeyCode::Char('s'), _) => self.order = self.order.next(),
            (KeyCode::Left | KeyCode::BackTab, _) => self.pane = before(self.pane),
            (KeyCode::Right | KeyCode::Tab, _) => self.pane = before(before(self.pane)),
            (KeyCode::Up, _) => self.scroll(|at| at.saturating_sub(1), lines, view),
            (KeyCode::Down, _) => self.scroll(|at| at + 1, lines, view),
            (KeyCode::PageUp, _) => self.scroll(|at| at.saturating_sub(PAGE), lines, view),
            (KeyCode::PageDown, _) => self.scroll(|at| at + PAGE, lines, view),
            (KeyCode::Home, _) => self.scroll(|_| 0, lines, view),
            (KeyCode::End, _) => self.scroll(|_| usize::MAX, lines, view),
            _ => {}
        }
        true
    }

    fn scroll(&mut self, to: impl Fn(usize) -> usize, lines: u16, view: &TopView) {
        let offset = &mut self.offsets[self.pane as usize];
        *offset = to(*offset).min(offset_max(self.pane, lines, view));
    }
}

/// The table before another one; of three, the one behind it is two before.
fn before(pane: Pane) -> Pane {
    match pane {
        Pane::Ports => Pane::Rules,
        Pane::Queues => Pane::Ports,
        Pane::Rules => Pane::Queues,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_scroll_sort_pause_and_quit() {
        let view = TopView { rules: vec![Default::default(); 50], ..TopView::default() };
        let mut controls = Controls::default();
        let mut press = |code| {
            let goes_on = controls.press((code, KeyModifiers::NONE), 24, &view);
            (goes_on, controls.clone())
        };
        assert_eq!(press(KeyCode::Char('x')), (true, Controls::default()));
        assert_eq!(press(KeyCode::Up).1.offsets, [0, 0, 0]);
        assert_eq!(press(KeyCode::Down).1.offsets, [0, 0, 1]);
        assert_eq!(press(KeyCode::PageDown).1.offsets, [0, 0, 11]);
        let most = offset_max(Pane::Rules, 24, &view);
        assert!(most < 50 && most > 30);
        assert_eq!(press(KeyCode::End).1.offsets, [0, 0, most]);
        assert_eq!(press(KeyCode::PageUp).1.offsets, [0, 0, most - 10]);
        assert_eq!(press(KeyCode::Home).1.offsets, [0, 0, 0]);
        assert_eq!(press(KeyCode::Left).1.pane, Pane::Queues);
        assert_eq!(press(KeyCode::Down).1.offsets, [0, 0, 0]);
        assert_eq!(press(KeyCode::Right).1.pane, Pane::Rules);
        assert_eq!(press(KeyCode::Right).1.pane, Pane::Ports);
        assert_eq!(press(KeyCode::Char('s')).1.order, RuleOrder::Hits);
        assert!(press(KeyCode::Char('p')).1.is_paused);
        assert!(!press(KeyCode::Char('p')).1.is_paused);
        assert!(!press(KeyCode::Char('q')).0 && !press(KeyCode::Esc).0);
        let control_c = (KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert!(!controls.press(control_c, 24, &view));
        assert!(controls.press((KeyCode::Char('c'), KeyModifiers::NONE), 24, &view));
    }
}
