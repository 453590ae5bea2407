//! The rows as they are printed: a line each, as soon as it is decided.

use std::fs;
use std::io::{self, Write};

use crate::calm::Watch;
use crate::{
    ACL_GOAL, Bar, Bench, BenchError, Figures, Goal, GoalVerdict, Pairs, Row, Slices, Subject,
    Times, geomean, median,
};

/// Least width of the first column.
const WHAT_MIN: usize = 27;

/// Why the rows were not printed to the last one.
#[derive(Debug, thiserror::Error)]
pub enum SheetError {
    /// A row could not be measured.
    #[error(transparent)]
    Row(#[from] BenchError),
    /// What they are printed to is gone or full.
    #[error("output: {0}")]
    Output(#[from] io::Error),
}

/// Measures rows and prints each as soon as it is decided.
///
/// # Errors
/// [`SheetError`]: a row that cannot be measured, which ends it, or an output that takes nothing.
pub fn print(bench: &Bench, rows: &[&Row], out: &mut impl Write) -> Result<(), SheetError> {
    let names = rows.iter().map(|row| row.what.chars().count());
    let mut sheet = Sheet { what: names.fold(WHAT_MIN, usize::max), out };
    sheet.head(bench)?;
    let (mut sets, mut sets_count) = (Vec::new(), 0);
    for row in rows {
        let watch = Watch::start(bench.core);
        let measured = row.measure(bench)?;
        let what = row.what.as_str();
        match &measured.slices {
            Slices::Alone { ours, missing } => sheet.alone(what, ours, missing)?,
            Slices::NotSupported(why) => sheet.said(what, &format!("not supported: {why}"))?,
            Slices::Paired(pairs) => sheet.decided(row, pairs, measured.broken)?,
            Slices::Times(all) => {
                all.iter().try_for_each(|times| sheet.times(what, row.peer, times))?;
            }
            Slices::Single(rates) => sheet.single(what, &row.goal, rates)?,
        }
        for note in &measured.notes {
            writeln!(sheet.out, "  {note}")?;
        }
        for disturbance in watch.disturbances() {
            writeln!(sheet.out, "  {disturbance}: measure again when it is calm")?;
        }
        if row.subject == Subject::Acl {
            sets_count += 1;
            if let Slices::Paired(pairs) = measured.slices {
                sets.push(pairs);
            }
        }
        sheet.out.flush()?;
    }
    Ok(sheet.mean_of_sets(&sets, sets_count)?)
}

/// Where the rows are printed.
struct Sheet<'a, W> {
    /// Width of the first column.
    what: usize,
    out: &'a mut W,
}

impl<W: Write> Sheet<'_, W> {
    fn head(&mut self, bench: &Bench) -> io::Result<()> {
        let cpu = cpu().unwrap_or("an unnamed processor".into());
        let Bench { core, pairs, slice_ms: ms, .. } = bench;
        let word = if *pairs == 1 { "pair" } else { "pairs" };
        writeln!(
            self.out,
            "{cpu}\n{pairs} {word} of slices of {ms} ms at most, in turn on core {core}"
        )?;
        writeln!(self.out, "rates: median, million a second; times: median, microseconds")?;
        writeln!(self.out, "ratio: median [its 95 % interval]\n")?;
        self.line(["what", "ours", "peer", "", "ratio", "goal", "verdict"])
    }

    /// All sets together.
    fn mean_of_sets(&mut self, sets: &[Pairs], count: usize) -> io::Result<()> {
        let Some(pairs) = geomean(sets).filter(|_| count > 1) else { return Ok(()) };
        let what = format!("acl, geomean of {} of {count} sets", sets.len());
        // A set that cannot be measured is one that is not ahead.
        self.compared(&what, "rte_acl", &ACL_GOAL, &pairs, sets.len() < count)
    }

    /// Without a peer there is a rate, and nothing to decide.
    fn alone(&mut self, what: &str, ours: &[f64], missing: &BenchError) -> io::Result<()> {
        let ours = median(ours).map_or(String::new(), |ours| number(ours / 1e6));
        self.said(what, &format!("{ours:>6}  no peer: {missing}"))
    }

    /// A row that says something in place of its figures.
    fn said(&mut self, what: &str, said: &str) -> io::Result<()> {
        writeln!(self.out, "{what:<width$} {said}", width = self.what)
    }

    /// A row without a peer.
    fn single(&mut self, what: &str, goal: &Goal, rates: &[f64]) -> io::Result<()> {
        let ours = median(rates).map_or(String::new(), |ours| number(ours / 1e6));
        let said = said(GoalVerdict::single(rates, goal), goal, false);
        self.line([what, &ours, "", "", "", &goal_text(goal), said])
    }

    fn decided(&mut self, row: &Row, pairs: &Pairs, broken: bool) -> io::Result<()> {
        self.compared(&row.what, row.peer, &row.goal, pairs, broken)
    }

    /// Ours beside the peer's; what is `broken` is missed whatever the rates.
    fn compared(
        &mut self,
        what: &str,
        peer: &str,
        goal: &Goal,
        pairs: &Pairs,
        broken: bool,
    ) -> io::Result<()> {
        let text = goal_text(goal);
        let rate = |rates: &[f64]| median(rates).map_or(String::new(), |rate| number(rate / 1e6));
        let (ours, theirs) = (rate(&pairs.ours), rate(&pairs.theirs));
        let Some(figures) = Figures::new(pairs) else {
            let ratio = median(&pairs.ratios()).map_or(String::new(), number);
            return self.line([what, &ours, peer, &theirs, &ratio, &text, TOO_FEW]);
        };
        let verdict = if broken { GoalVerdict::Missed } else { figures.verdict(goal) };
        let by_ratio_alone = !broken && figures.ours >= goal.floor;
        let holds =
            by_ratio_alone && (figures.ratio.low..=figures.ratio.high).contains(&goal.ratio);
        let [low, median, high] =
            [figures.ratio.low, figures.ratio.median, figures.ratio.high].map(number);
        let ratio = format!("{median} [{low}, {high}]");
        self.line([what, &ours, peer, &theirs, &ratio, &text, said(verdict, goal, holds)])
    }

    /// Times beside a peer's, whose own runs are the goal.
    fn times(&mut self, what: &str, peer: &str, times: &Times) -> io::Result<()> {
        let what = format!("{what}, {}", times.what);
        let us = |ns: &[f64]| median(ns).map_or(String::new(), |ns| number(ns / 1e3));
        let (ours, theirs) = (us(&times.ours_ns), us(&times.theirs_ns));
        let bounds = |[low, high]: [f64; 2]| match times.bar {
            Bar::Alike => format!("{} to {}", number(low), number(high)),
            Bar::NoLonger => format!("to {}", number(high)),
        };
        let goal = times.own().map_or(String::new(), bounds);
        let ratio = times.ratio().map_or(String::new(), |ratio| {
            let [low, median, high] = [ratio.low, ratio.median, ratio.high].map(number);
            format!("{median} [{low}, {high}]")
        });
        let verdict = match times.verdict() {
            GoalVerdict::Met => "met",
            GoalVerdict::Missed => "missed",
            GoalVerdict::Undecided if times.is_blurred() => {
                "undecided: the peer differs from itself"
            }
            GoalVerdict::Undecided => TOO_FEW,
        };
        self.line([&what, &ours, peer, &theirs, &ratio, &goal, verdict])
    }

    fn line(&mut self, cells: [&str; 7]) -> io::Result<()> {
        let [what, ours, peer, theirs, ratio, goal, verdict] = cells;
        let text = format!(
            "{what:<width$} {ours:>6}  {peer:<15} {theirs:>6}  {ratio:<18} {goal:<11}  {verdict}",
            width = self.what
        );
        writeln!(self.out, "{}", text.trim_end())
    }
}

/// What is said in place of a verdict.
const TOO_FEW: &str = "too few pairs";

/// The verdict in words, nothing where there is no goal. `holds` says that the interval of the
/// ratio holds its goal: more pairs or a calmer machine may decide otherwise.
fn said(verdict: GoalVerdict, goal: &Goal, holds: bool) -> &'static str {
    match verdict {
        _ if *goal == Goal::NONE => "",
        GoalVerdict::Met => "met",
        GoalVerdict::Missed if holds => "missed: the interval holds the goal",
        GoalVerdict::Missed => "missed",
        GoalVerdict::Undecided => TOO_FEW,
    }
}

fn goal_text(goal: &Goal) -> String {
    // Goals such as 1 / 0.7 have no end.
    match ((goal.ratio * 100.0).round() / 100.0, goal.floor) {
        (0.0, 0.0) => String::new(),
        (0.0, floor) => format!("{} M/s", floor / 1e6),
        (ratio, 0.0) => format!("{ratio} x"),
        (ratio, floor) => format!("{ratio} x, {} M/s", floor / 1e6),
    }
}

/// Three figures.
fn number(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        // Requests over sockets: some ten thousand a second.
        ..0.1 => format!("{value:.4}"),
        _ => format!("{value:.2}"),
    }
}

/// The processor's name.
fn cpu() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let value = |line: &str, of: &str| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == of).then(|| value.trim().to_owned())
    };
    let named = |of: &str| text.lines().find_map(|line| value(line, of));
    named("model name").or_else(|| named("CPU part"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows;

    fn decided_text(row: &Row, ours: f64, count: usize) -> String {
        let pairs = Pairs { ours: vec![ours; count], theirs: vec![20e6; count] };
        sheet(|sheet| sheet.decided(row, &pairs, false))
    }

    /// What is printed on a sheet.
    fn sheet(print: impl Fn(&mut Sheet<'_, Vec<u8>>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        print(&mut Sheet { what: WHAT_MIN, out: &mut out }).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn words(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_row_says_figures_goal_and_verdict() {
        let rows = rows(&[]);
        let exact = rows.iter().find(|row| row.subject == Subject::Exact).unwrap();
        assert_eq!(
            decided_text(exact, 64.24e6, 31),
            "exact match, 64 k entries     64.2  rte_hash bulk     20.0  3.21 [3.21, 3.21]  \
             3 x, 60 M/s  met\n"
        );
        assert!(decided_text(exact, 59e6, 31).ends_with(" missed\n"));
        assert!(decided_text(exact, 64e6, 7).ends_with(" too few pairs\n"));
        assert!(decided_text(exact, 64e6, 5).ends_with(" too few pairs\n"));
        let few = words(&decided_text(exact, 64e6, 1));
        assert_eq!(
            few,
            "exact match, 64 k entries 64.0 rte_hash bulk 20.0 3.20 3 x, 60 M/s too few pairs"
        );
        // Of ratios from 2.5 to 4 the interval holds 3.
        let ours = (0..31).map(|i| 50e6 + f64::from(i) * 1e6).collect();
        let pairs = Pairs { ours, theirs: vec![20e6; 31] };
        let text = sheet(|sheet| sheet.decided(exact, &pairs, false));
        assert!(text.ends_with(" missed: the interval holds the goal\n"), "{text}");
        let text = sheet(|sheet| sheet.decided(exact, &pairs, true));
        assert!(text.ends_with(" missed\n"), "{text}");
    }

    #[test]
    fn times_say_both_sides_and_what_the_peer_differs_by_from_itself() {
        let theirs_ns: Vec<f64> =
            (0..31).map(|turn| if turn % 2 == 0 { 30_000.0 } else { 31_000.0 }).collect();
        let ours_ns = theirs_ns.iter().map(|ns| ns * 1.01).collect();
        let times = Times { what: "p50", ours_ns, theirs_ns, bar: Bar::Alike };
        let text = |times: &Times| words(&sheet(|sheet| sheet.times("echo", "sockperf", times)));
        let figures = "sockperf 30.0 1.01 [1.01, 1.01] 0.97 to 1.03 met";
        assert_eq!(text(&times), format!("echo, p50 30.3 {figures}"));
        let late = times.ours_ns.iter().map(|ns| ns * 1.1).collect();
        assert!(text(&Times { ours_ns: late, ..times }).ends_with(" 0.97 to 1.03 missed"));
        assert_eq!(text(&Times::default()), "echo, sockperf too few pairs");
    }

    #[test]
    fn columns_stand_below_their_heads_however_long_a_name_is() {
        let long = "a row with a name that is longer than others are";
        let mut out = Vec::new();
        let mut sheet = Sheet { what: long.len(), out: &mut out };
        sheet.line(["what", "ours", "peer", "", "ratio", "goal", "verdict"]).unwrap();
        sheet.single(long, &Goal { ratio: 0.0, floor: 20e6 }, &[21e6; 31]).unwrap();
        let text = String::from_utf8(out).unwrap();
        let (head, row) = text.split_once('\n').unwrap();
        assert_eq!(head.find("goal"), row.find("20 M/s"), "{text}");
        assert_eq!(head.find("verdict"), row.find("met"), "{text}");
    }

    #[test]
    fn a_row_without_its_peer_has_our_figure_and_the_reason() {
        let peers = "no/such/directory".into();
        let bench = Bench { core: 0, other: None, pairs: 6, peers, slice_ms: 1 };
        let rows = rows(&[]);
        let rows: Vec<&Row> = rows.iter().filter(|row| row.subject == Subject::Rss).collect();
        let mut out = Vec::new();
        print(&bench, &rows, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains("\n6 pairs of slices of 1 ms at most, in turn on core 0\n"),
            "{text}"
        );
        let line = text.lines().find(|line| line.starts_with("RSS hash")).unwrap();
        let said = line.strip_prefix("RSS hash, 12-byte tuples").unwrap().trim_start();
        let (ours, peer) = said.split_once("  ").unwrap();
        assert!(ours.parse::<f64>().unwrap() > 0.0, "{text}");
        assert_eq!(peer, "no peer: softrss is not built; build with benches/peers/build");
        assert!(line.chars().count() <= 100, "{line}");
    }

    #[test]
    fn a_row_without_a_peer_is_decided_by_its_floor() {
        let goal = Goal { ratio: 0.0, floor: 20e6 };
        let text = |goal: &Goal, rate| {
            words(&sheet(|sheet| sheet.single("update, 64 k rules, bulk", goal, &[rate; 31])))
        };
        assert_eq!(text(&goal, 21e6), "update, 64 k rules, bulk 21.0 20 M/s met");
        assert_eq!(text(&goal, 19e6), "update, 64 k rules, bulk 19.0 20 M/s missed");
        assert_eq!(text(&Goal::NONE, 19e6), "update, 64 k rules, bulk 19.0");
    }

    #[test]
    fn the_sets_together_are_missed_where_one_could_not_be_measured() {
        let pairs = |ours: f64| Pairs { ours: vec![ours; 31], theirs: vec![5e6; 31] };
        let text =
            |count| words(&sheet(|sheet| sheet.mean_of_sets(&[pairs(10e6), pairs(40e6)], count)));
        let figures = "20.0 rte_acl 5.00 4.00 [4.00, 4.00] 2 x, 9 M/s";
        assert_eq!(text(2), format!("acl, geomean of 2 of 2 sets {figures} met"));
        assert_eq!(text(3), format!("acl, geomean of 2 of 3 sets {figures} missed"));
    }
}
