//! `--live`: the latest window on the terminal.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use niclab_analytics::definition::WindowResult;
use niclab_lab::words;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Paragraph, Widget};

use super::InputCounters;
use super::results::ResultLines;
use crate::failure::Failure;
use crate::output::Screen;

/// How long a key is waited for before the screen is drawn anew.
const TURN: Duration = Duration::from_millis(100);
/// Columns of the longest bar.
const BAR: usize = 40;

/// Shows results until a key, a signal or a failure ends the view. All results are written, also
/// those that come while the workers end.
pub fn show(
    results: &Receiver<WindowResult>,
    windows: &str,
    output: &mut ResultLines,
    counters: &InputCounters,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let (mut screen, mut latest, mut is_over) = (Screen::open()?, None, false);
    while !stop.load(Ordering::Relaxed) {
        loop {
            match results.try_recv() {
                Ok(result) => {
                    output.write(&result)?;
                    counters.count_window();
                    latest = Some(result);
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    is_over = true;
                    break;
                }
            }
        }
        let text = frame(windows, latest.as_ref(), counters, is_over);
        screen.draw(|area, buffer| draw(area, buffer, text))?;
        if event::poll(TURN)?
            && let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
        {
            let is_end = key.code == KeyCode::Char('c')
                && key.modifiers.contains(KeyModifiers::CONTROL)
                || key.code == KeyCode::Char('q');
            if is_end {
                stop.store(true, Ordering::Relaxed);
            }
        }
    }
    drop(screen);
    output.write_all(results, counters)
}

fn draw(area: Rect, buffer: &mut Buffer, text: Text<'_>) {
    Paragraph::new(text).render(area, buffer);
}

/// The lines of a frame.
fn frame(
    windows: &str,
    latest: Option<&WindowResult>,
    counters: &InputCounters,
    is_over: bool,
) -> Text<'static> {
    let (tuples, bold) = (counters.tuples(), Style::new().add_modifier(Modifier::BOLD));
    let whole = |count: u64| words::whole(count as f64);
    let state = if is_over { "the input has ended; q ends this view" } else { "q ends it" };
    let mut lines = vec![
        Line::styled(format!("niclab analytics: {windows}; {state}"), bold),
        Line::raw(format!(
            "{} tuples, {} duplicates, {} late; {} live sources; {} windows",
            whole(tuples.taken),
            whole(tuples.duplicates),
            whole(tuples.late),
            counters.live_sources(),
            whole(counters.windows()),
        )),
        Line::raw(""),
    ];
    let Some(WindowResult { window, top }) = latest else {
        lines.push(Line::raw("no window is complete yet"));
        return Text::from(lines);
    };
    lines.push(Line::styled(format!("window {window}"), bold));
    lines.push(Line::raw(format!("{:>4} {:>20} {:>12}", "RANK", "KEY", "COUNT")));
    let most = top.first().map_or(1, |of| of.count.max(1));
    for (rank, of) in top.iter().enumerate() {
        let bar = "#".repeat((of.count as f64 / most as f64 * BAR as f64).round() as usize);
        let count = whole(of.count);
        lines.push(Line::raw(format!("{:>4} {:>20} {count:>12} {bar}", rank + 1, of.key)));
    }
    Text::from(lines)
}

#[cfg(test)]
mod tests {
    use niclab_analytics::rank::KeyCount;

    use super::*;

    fn text(text: &Text<'_>) -> String {
        let line = |line: &Line<'_>| line.spans.iter().map(|span| &*span.content).collect();
        text.lines.iter().map(line).collect::<Vec<String>>().join("\n")
    }

    #[test]
    fn the_latest_window_is_shown_with_bars() {
        let counters = InputCounters::default();
        let waiting = text(&frame("stream 0", None, &counters, false));
        assert!(waiting.ends_with("no window is complete yet"), "{waiting}");
        let top = vec![KeyCount { key: 7, count: 1_000 }, KeyCount { key: 9, count: 500 }];
        let shown =
            text(&frame("stream 0", Some(&WindowResult { window: 3, top }), &counters, true));
        let full = format!("   1                    7        1,000 {}", "#".repeat(40));
        let half = format!("   2                    9          500 {}", "#".repeat(20));
        assert!(shown.ends_with(&format!("{full}\n{half}")), "{shown}");
        assert!(shown.contains("window 3\n") && shown.contains("the input has ended"), "{shown}");
    }
}
