//! The frame of `niclab nic top`: ports, queues beside cores, and rules.

use std::iter;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table, Wrap};

use super::view::TopView;

/// Parts of the frame whose rows scroll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pane {
    Ports,
    Queues,
    #[default]
    Rules,
}

/// The content of a frame.
#[derive(Clone, Debug, Default)]
pub struct Screen {
    /// The card's control socket.
    pub socket: String,
    /// The interval of its rates, and whether the view is paused.
    pub state: String,
    /// Why the card does not answer; shown in place of values.
    pub trouble: Option<String>,
    pub view: TopView,
    /// The part that scrolls, and how far each has.
    pub pane: Pane,
    pub offsets: [usize; 3],
    pub keys: &'static str,
}

/// A column of a table.
struct Column {
    head: &'static str,
    width: u16,
    is_number: bool,
    /// Where the screen is narrow, the columns of the highest rank are left out.
    rank: u8,
}

const fn number(head: &'static str, width: u16, rank: u8) -> Column {
    Column { head, width, is_number: true, rank }
}

/// A column of text, which takes the room that is left.
const fn text(head: &'static str, width: u16, rank: u8) -> Column {
    Column { head, width, is_number: false, rank }
}

const PORTS: [Column; 8] = [
    number("PORT", 4, 0),
    text("NAME", 14, 1),
    number("RX pkt/s", 9, 2),
    number("RX bit/s", 9, 6),
    number("TX pkt/s", 9, 3),
    number("TX bit/s", 9, 7),
    number("MISSED/s", 9, 5),
    number("DROPS/s", 9, 4),
];

const QUEUES: [Column; 6] = [
    number("PORT", 4, 0),
    number("QUEUE", 5, 1),
    number("CORE", 4, 2),
    number("RX pkt/s", 9, 3),
    number("RX bit/s", 9, 5),
    number("DROPS/s", 9, 4),
];

const CORES: [Column; 4] =
    [number("CORE", 4, 0), number("BUSY", 9, 1), number("CPU", 9, 3), number("PKT/s", 9, 2)];

const RULES: [Column; 7] = [
    number("PORT", 4, 0),
    number("RULE", 7, 1),
    number("GROUP", 6, 5),
    number("PRIO", 6, 6),
    number("HITS/s", 9, 2),
    number("HITS", 13, 4),
    text("ITEMS => ACTIONS", 20, 3),
];

/// Indices of the columns that fit into a width. The most important columns are taken first; the
/// indices keep the order of the table.
fn fitting(columns: &[Column], width: u16) -> Vec<usize> {
    let mut by_rank: Vec<usize> = (0..columns.len()).collect();
    by_rank.sort_by_key(|&at| columns[at].rank);
    let mut end = 0;
    let mut shown: Vec<usize> = by_rank
        .into_iter()
        .take_while(|&at| {
            end += columns[at].width + u16::from(end > 0);
            end <= width
        })
        .collect();
    shown.sort_unstable();
    shown
}

/// Columns of the queues' table; the cores' table is beside it, behind a gap.
const QUEUES_WIDTH: u16 = 45;
const CORES_WIDTH: u16 = 34;
const GAP: u16 = 1;

/// Width of the queues' table on a screen of this width: all of it, or a share.
fn queues_width(width: u16) -> u16 {
    let room = width.saturating_sub(GAP);
    let share = u32::from(room) * u32::from(QUEUES_WIDTH) / u32::from(QUEUES_WIDTH + CORES_WIDTH);
    QUEUES_WIDTH.min(u16::try_from(share).unwrap_or(QUEUES_WIDTH))
}

/// Lines beside rows: the title, two of each table, and the keys.
const LINES: u16 = 8;

/// Lines that show everything.
pub fn height(view: &TopView) -> u16 {
    let rows = view.ports.len() + view.queues.len().max(view.cores.len()) + view.rules.len().max(1);
    LINES.saturating_add(u16::try_from(rows).unwrap_or(u16::MAX))
}

/// Rows of ports, of queues and cores, and of rules, where a frame has so many lines.
fn shares(lines: u16, view: &TopView) -> [u16; 3] {
    let len = |rows: usize| u16::try_from(rows).unwrap_or(u16::MAX);
    let queues = len(view.queues.len().max(view.cores.len()));
    let room = lines.saturating_sub(LINES);
    let fits = lines >= height(view);
    let ports = len(view.ports.len()).min(if fits { room } else { (room / 4).max(1) });
    let rest = room.saturating_sub(ports);
    let rules = len(view.rules.len().max(1)).min(if fits { rest } else { rest.div_ceil(2) });
    let queues = queues.min(rest.saturating_sub(rules));
    [ports, queues, rest.saturating_sub(queues)]
}

/// How far a part may scroll: its last row stays in sight.
pub fn offset_max(pane: Pane, lines: u16, view: &TopView) -> usize {
    let [ports, queues, rules] = shares(lines, view);
    let (rows, shown) = match pane {
        Pane::Ports => (view.ports.len(), ports),
        Pane::Queues => (view.queues.len().max(view.cores.len()), queues),
        Pane::Rules => (view.rules.len(), rules),
    };
    rows.saturating_sub(shown.into())
}

/// Draws a frame.
pub fn draw(area: Rect, buffer: &mut Buffer, screen: &Screen) {
    let view = &screen.view;
    let [ports, queues, rules] = shares(area.height, view);
    let [title_area, ports_area, queues_area, rules_area, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(ports + 2),
        Constraint::Length(queues + 2),
        Constraint::Length(rules + 2),
        Constraint::Length(1),
    ])
    .areas(area);
    let head = title(&screen.socket, &screen.state, area.width.into());
    line(title_area, buffer, &head, Modifier::REVERSED);
    line(keys, buffer, &shortened(screen.keys, area.width.into()), Modifier::empty());
    if let Some(trouble) = &screen.trouble {
        // Old values would pass for those of now.
        let body = Rect { y: ports_area.y, height: keys.y.saturating_sub(ports_area.y), ..area };
        let text = Paragraph::new(trouble.as_str()).wrap(Wrap { trim: true });
        ratatui::widgets::Widget::render(text, body, buffer);
        return;
    }
    let [left, _, right] = Layout::horizontal([
        Constraint::Length(queues_width(area.width)),
        Constraint::Length(GAP),
        Constraint::Min(0),
    ])
    .areas(queues_area);
    let [of_ports, of_queues, of_rules] = screen.offsets;
    let at = |pane: Pane| screen.pane == pane;
    let head = ("Ports", "", at(Pane::Ports));
    table(ports_area, buffer, head, &PORTS, &view.ports, of_ports);
    table(left, buffer, ("Queues", "", at(Pane::Queues)), &QUEUES, &view.queues, of_queues);
    table(right, buffer, ("Cores", "", at(Pane::Queues)), &CORES, &view.cores, of_queues);
    let head = ("Rules", &*view.rules_note, at(Pane::Rules));
    table(rules_area, buffer, head, &RULES, &view.rules, of_rules);
}

/// The keys that fit into a line.
fn shortened(keys: &str, width: usize) -> String {
    let mut shown = String::new();
    for key in keys.split("  ") {
        let gap = if shown.is_empty() { "" } else { "  " };
        if shown.len() + gap.len() + key.len() > width {
            break;
        }
        shown += gap;
        shown += key;
    }
    shown
}

/// Most of a socket's path that goes before its state does.
const SOCKET_MIN: usize = 12;

/// The first line. Where it is too long for the screen, the beginning of the path goes: what comes
/// after it tells whether the numbers below are of now.
fn title(socket: &str, state: &str, width: usize) -> String {
    let state_len = state.chars().count();
    const NAME: &str = "niclab nic top: ";
    // The name of the program is the first to go.
    let name = if NAME.len() + SOCKET_MIN + state_len > width { "" } else { NAME };
    let room = width.saturating_sub(name.len() + state_len).max(SOCKET_MIN);
    let len = socket.chars().count();
    let end: String = match len > room {
        true => iter::once('…').chain(socket.chars().skip(len + 1 - room)).collect(),
        false => socket.to_owned(),
    };
    name.to_owned() + &end + state
}

fn line(area: Rect, buffer: &mut Buffer, text: &str, modifier: Modifier) {
    let paragraph = Paragraph::new(text).style(Style::new().add_modifier(modifier));
    ratatui::widgets::Widget::render(paragraph, area, buffer);
}

/// Draws a table below a line with its name, which of its rows are shown, and a note.
fn table<const N: usize>(
    area: Rect,
    buffer: &mut Buffer,
    (name, note, is_chosen): (&str, &str, bool),
    columns: &[Column; N],
    rows: &[[String; N]],
    offset: usize,
) {
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let shown = usize::from(body.height.saturating_sub(1));
    let offset = offset.min(rows.len().saturating_sub(shown));
    let last = (offset + shown).min(rows.len());
    let which = match rows.len() {
        len if len > last - offset => format!("{} to {last} of {len}", offset + 1),
        len => len.to_string(),
    };
    let note = if note.is_empty() { String::new() } else { format!(", {note}") };
    let modifier = if is_chosen { Modifier::BOLD | Modifier::UNDERLINED } else { Modifier::BOLD };
    line(head, buffer, &format!("{name}: {which}{note}"), modifier);
    let cell = |column: &Column, text: &str| {
        let line = Line::from(text.to_owned());
        let line = if column.is_number { line.right_aligned() } else { line };
        Cell::from(Text::from(line))
    };
    let chosen = fitting(columns, body.width);
    let heads = chosen.iter().map(|&at| cell(&columns[at], columns[at].head));
    let heads = Row::new(heads).style(Style::new().add_modifier(Modifier::DIM));
    let cells = |row: &[String; N]| -> Row<'static> {
        Row::new(chosen.iter().map(|&at| cell(&columns[at], &row[at])))
    };
    let widths = chosen.iter().map(|&at| match columns[at].is_number {
        true => Constraint::Length(columns[at].width),
        false => Constraint::Min(columns[at].width),
    });
    let table = Table::new(rows[offset..last].iter().map(cells), widths).header(heads);
    ratatui::widgets::Widget::render(table.column_spacing(1), body, buffer);
}

/// A frame as text, of lines without blanks at their ends.
pub fn plain(width: u16, height: u16, screen: &Screen) -> String {
    // Nothing of a backend in memory can fail.
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
    let Ok(_) = terminal.draw(|frame| draw(frame.area(), frame.buffer_mut(), screen));
    lines(terminal.backend().buffer())
}

fn lines(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width).max(1);
    let line = |cells: &[ratatui::buffer::Cell]| -> String {
        let text: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        text.trim_end().to_owned() + "\n"
    };
    buffer.content.chunks(width).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::looks;
    use super::super::view::{RuleOrder, view};
    use super::*;

    fn screen() -> Screen {
        let [first, second] = looks();
        Screen {
            socket: "card".to_owned(),
            view: view(&second, Some(&first), RuleOrder::HitRate),
            keys: "q quit",
            ..Screen::default()
        }
    }

    #[test]
    fn a_frame_of_80_by_24_has_everything() {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        let screen = screen();
        terminal.draw(|frame| draw(frame.area(), frame.buffer_mut(), &screen)).unwrap();
        let known: Vec<String> = KNOWN.map(|line| format!("{line:<80}")).into();
        let cells = |line: &[ratatui::buffer::Cell]| -> String {
            line.iter().map(ratatui::buffer::Cell::symbol).collect()
        };
        let shown: Vec<String> =
            terminal.backend().buffer().content.chunks(80).map(cells).collect();
        assert_eq!(shown, known, "{shown:#?}");
        assert_eq!(plain(80, 24, &screen), KNOWN.map(|line| format!("{line}\n")).concat());
    }

    const KNOWN: [&str; 24] = [
        "niclab nic top: card",
        "Ports: 2",
        "PORT NAME             RX pkt/s  RX bit/s  TX pkt/s  TX bit/s  MISSED/s   DROPS/s",
        "   0 xdp:va             1.50 M     720 M      2.50         0      5.00      49.0",
        "   1 gone: tap:nic0\\         0         0         0         0 not known         0",
        "Queues: 2                                     Cores: 2",
        "PORT QUEUE CORE  RX pkt/s  RX bit/s   DROPS/s CORE      BUSY       CPU     PKT/s",
        "   0     0    2    1.00 M     480 M      2.00    2      25 %     100 %       500",
        "   0     1    3     500 k     240 M      2.00    3      25 %     100 %       500",
        "Rules: 3, by hits/s",
        "PORT    RULE  GROUP   PRIO    HITS/s          HITS ITEMS => ACTIONS",
        "   1       0      0      1    1.00 M     4,000,000 ETH => COUNT DROP",
        "   0       1      0      1      20.0            80 ETH IPV4 UDP => COUNT QUEUE",
        "   0       0      0      1 not known     not known ETH IPV4 => DROP",
        "",
        "",
        "",
        "",
        "",
        "",
        "",
        "",
        "",
        "q quit",
    ];

    #[test]
    fn the_state_is_shown_however_long_the_path() {
        let state = ", rates over 0.1 s; paused, 3 s old";
        let path = format!("/tmp/{}/card", "directory/".repeat(9));
        let [short, long] = ["/tmp/card", &*path].map(|socket| title(socket, state, 80));
        assert_eq!(short, "niclab nic top: /tmp/card, rates over 0.1 s; paused, 3 s old");
        assert_eq!(long, format!("niclab nic top: …{}{state}", &path[path.len() - 28..]));
        assert_eq!(long.chars().count(), 80);
        assert_eq!(title(&path, state, 50), format!("…{}{state}", &path[path.len() - 14..]));
    }

    #[test]
    fn a_narrow_screen_leaves_out_whole_columns() {
        let mut screen = screen();
        screen.keys = "q quit  p pause  s sort rules  left/right choose a table";
        let text = plain(50, 24, &screen);
        for line in [
            "PORT NAME             RX pkt/s  TX pkt/s   DROPS/s",
            "Queues: 2                   Cores: 2",
            "PORT QUEUE CORE  RX pkt/s   CORE      BUSY",
            "   0     0    2    1.00 M      2      25 %",
            "PORT    RULE    HITS/s ITEMS => ACTIONS",
            "q quit  p pause  s sort rules",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} is missing in:\n{text}");
        }
    }

    #[test]
    fn trouble_stands_in_place_of_values_and_is_whole() {
        let trouble = "the card does not answer: No such file or directory (os error 2)";
        let screen = Screen { trouble: Some(trouble.to_owned()), ..screen() };
        let text = plain(50, 24, &screen);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(trouble), "{text}");
        assert!(!text.contains("1.50 M") && text.contains("q quit"), "{text}");
    }

    #[test]
    fn rows_that_find_no_room_scroll() {
        let mut screen = screen();
        let row = |number: usize| {
            let cells = ["0", "", "0", "0", "0", "0", "ETH => COUNT"].map(str::to_owned);
            let [port, _, rest @ ..] = cells;
            let [group, priority, rate, hits, shape] = rest;
            [port, number.to_string(), group, priority, rate, hits, shape]
        };
        screen.view.rules = (0..100).map(row).collect();
        let text = plain(80, 24, &screen);
        assert!(text.contains("Rules: 1 to 12 of 100, by hits/s"), "{text}");
        assert_eq!(offset_max(Pane::Rules, 24, &screen.view), 88);
        assert_eq!(offset_max(Pane::Ports, 24, &screen.view), 0);
        // Too far is as far as there is.
        screen.offsets = [0, 0, 1_000];
        let text = plain(80, 24, &screen);
        assert!(text.contains("Rules: 89 to 100 of 100") && text.contains("     99"), "{text}");
        let all = plain(80, height(&screen.view), &screen);
        assert!(all.contains("Rules: 100, by hits/s") && all.ends_with("q quit\n"), "{all}");
    }

    #[test]
    fn no_size_of_a_terminal_is_too_small_or_too_large() {
        let (screen, empty) = (screen(), Screen::default());
        for (width, height) in [(1, 1), (10, 3), (40, 8), (79, 9), (80, 24), (300, 100)] {
            for screen in [&screen, &empty] {
                assert_eq!(plain(width, height, screen).lines().count(), usize::from(height));
            }
        }
    }
}
