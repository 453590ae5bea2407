//! `niclab bench`: how fast the software card is here, beside its peers.

use std::io::{self, Write, stdout};

use niclab_bench::{
    ACL_GOAL, Bench, BenchError, Figures, Goal, Pairs, Row, Slices, Subject, Verdict, geomean,
    median, rows,
};
use niclab_device::cores::allowed;

use crate::arguments::{BenchArguments, BenchSubject};
use crate::failure::Failure;

/// Width of the first column.
const WHAT: usize = 27;

/// Measures the rows that were asked for and prints each as soon as it is decided.
pub fn run(arguments: &BenchArguments) -> Result<(), Failure> {
    let defaults = Bench::default();
    let bench = Bench {
        core: core(arguments.core, &allowed())?,
        pairs: arguments.pairs.map_or(defaults.pairs, |pairs| pairs as usize),
        peers: arguments.peers.clone(),
        ..defaults
    };
    bench.pin()?;
    let asked: Vec<Subject> = arguments.subjects.iter().map(|&subject| subject.into()).collect();
    let rows = rows(&arguments.rules);
    let rows = rows.iter().filter(|row| asked.is_empty() || asked.contains(&row.subject));
    print(&bench, rows, &mut stdout().lock())
}

/// The core that was asked for, else the second of those `there`, or the only one.
fn core(asked: Option<usize>, there: &[u32]) -> Result<usize, Failure> {
    let default = there.get(1).or(there.first()).map_or(0, |&core| core as usize);
    match asked {
        Some(core) if !there.iter().any(|&one| one as usize == core) => {
            Err(Failure::Core { core, there: there.to_vec() })
        }
        asked => Ok(asked.unwrap_or(default)),
    }
}

fn print<'a>(
    bench: &Bench,
    rows: impl Iterator<Item = &'a Row>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    writeln!(
        out,
        "{} pairs of slices of {} ms at most, in turn on core {}; medians in million per second,\n\
         the ratio's with its 95 % interval\n",
        bench.pairs, bench.slice_ms, bench.core
    )?;
    line(out, ["what", "ours", "peer", "", "ratio", "goal", "verdict"])?;
    let (mut sets, mut sets_count) = (Vec::new(), 0);
    for row in rows {
        let measured = row.measure(bench)?;
        let what = row.what.as_str();
        match &measured.slices {
            Slices::Alone { ours, missing } => alone(what, ours, missing, out)?,
            Slices::NotSupported(why) => writeln!(out, "{what:<WHAT$} not supported: {why}")?,
            Slices::Paired(pairs) => decided(row, pairs, measured.broken, out)?,
            Slices::Single(rates) => single(what, &row.goal, rates, out)?,
        }
        for note in &measured.notes {
            writeln!(out, "  {note}")?;
        }
        if row.subject == Subject::Acl {
            sets_count += 1;
            if let Slices::Paired(pairs) = measured.slices {
                sets.push(pairs);
            }
        }
        out.flush()?;
    }
    mean_of_sets(&sets, sets_count, out)
}

/// All sets together.
fn mean_of_sets(sets: &[Pairs], count: usize, out: &mut impl Write) -> Result<(), Failure> {
    let Some(pairs) = geomean(sets).filter(|_| count > 1) else { return Ok(()) };
    let what = format!("acl, geomean of {} of {count} sets", sets.len());
    // A set that cannot be measured is one that is not ahead.
    Ok(compared(&what, "rte_acl", &ACL_GOAL, &pairs, sets.len() < count, out)?)
}

/// Without a peer there is a rate, and nothing to decide.
fn alone(what: &str, ours: &[f64], missing: &BenchError, out: &mut impl Write) -> io::Result<()> {
    let Some(ours) = median(ours) else {
        return writeln!(out, "{what:<WHAT$} too few slices; no peer: {missing}");
    };
    writeln!(out, "{what:<WHAT$} {:>6}  no peer: {missing}", number(ours / 1e6))
}

/// A row without a peer.
fn single(what: &str, goal: &Goal, rates: &[f64], out: &mut impl Write) -> io::Result<()> {
    let ours = median(rates).map_or(String::new(), |ours| number(ours / 1e6));
    let said = said(Verdict::single(rates, goal), goal);
    line(out, [what, &ours, "", "", "", &goal_text(goal), said])
}

fn decided(row: &Row, pairs: &Pairs, broken: bool, out: &mut impl Write) -> io::Result<()> {
    compared(&row.what, row.peer, &row.goal, pairs, broken, out)
}

/// Ours beside the peer's; what is `broken` is missed whatever the rates.
fn compared(
    what: &str,
    peer: &str,
    goal: &Goal,
    pairs: &Pairs,
    broken: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let text = goal_text(goal);
    let Some(figures) = Figures::new(pairs) else {
        return line(out, [what, "", peer, "", "", &text, "too few pairs"]);
    };
    let verdict = if broken { Verdict::Missed } else { figures.verdict(goal) };
    let (ours, theirs) = (number(figures.ours / 1e6), number(figures.theirs / 1e6));
    let [low, median, high] =
        [figures.ratio.low, figures.ratio.median, figures.ratio.high].map(number);
    let ratio = format!("{median} [{low}, {high}]");
    line(out, [what, &ours, peer, &theirs, &ratio, &text, said(verdict, goal)])
}

/// The verdict in words; nothing where there is no goal.
fn said(verdict: Verdict, goal: &Goal) -> &'static str {
    match verdict {
        _ if *goal == Goal::NONE => "",
        Verdict::Met => "met",
        Verdict::Missed => "missed",
        Verdict::Undecided => "too few pairs",
    }
}

fn line(out: &mut impl Write, cells: [&str; 7]) -> io::Result<()> {
    let [what, ours, peer, theirs, ratio, goal, verdict] = cells;
    let text = format!(
        "{what:<WHAT$} {ours:>6}  {peer:<15} {theirs:>6}  {ratio:<18} {goal:<11}  {verdict}"
    );
    writeln!(out, "{}", text.trim_end())
}

fn goal_text(goal: &Goal) -> String {
    match (goal.ratio, goal.floor) {
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
        _ => format!("{value:.2}"),
    }
}

impl From<BenchSubject> for Subject {
    fn from(subject: BenchSubject) -> Subject {
        match subject {
            BenchSubject::Acl => Subject::Acl,
            BenchSubject::Beside => Subject::Beside,
            BenchSubject::Chain => Subject::Chain,
            BenchSubject::Exact => Subject::Exact,
            BenchSubject::Generator => Subject::Generator,
            BenchSubject::Insert => Subject::Insert,
            BenchSubject::Pipeline => Subject::Pipeline,
            BenchSubject::Prefixes => Subject::Prefixes,
            BenchSubject::Rss => Subject::Rss,
            BenchSubject::Update => Subject::Update,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided_text(row: &Row, ours: f64, count: usize) -> String {
        let pairs = Pairs { ours: vec![ours; count], theirs: vec![20e6; count] };
        let mut out = Vec::new();
        decided(row, &pairs, false, &mut out).unwrap();
        String::from_utf8(out).unwrap()
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
    }

    #[test]
    fn a_row_without_its_peer_has_our_figure_and_the_reason() {
        let peers = "no/such/directory".into();
        let bench = Bench { core: 0, pairs: 6, peers, slice_ms: 1 };
        let rows = rows(&[]);
        let rows = || rows.iter().filter(|row| row.subject == Subject::Rss);
        let mut out = Vec::new();
        print(&bench, rows(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let line = text.lines().last().unwrap();
        let said = line.strip_prefix("RSS hash, 12-byte tuples").unwrap().trim_start();
        let (ours, peer) = said.split_once("  ").unwrap();
        assert!(ours.parse::<f64>().unwrap() > 0.0, "{text}");
        assert_eq!(peer, "no peer: softrss is not built; build with benches/peers/build");
        assert!(line.chars().count() <= 100, "{line}");
        let mut out = Vec::new();
        print(&Bench { pairs: 5, ..bench }, rows(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let end =
            " too few slices; no peer: softrss is not built; build with benches/peers/build\n";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn a_row_without_a_peer_is_decided_by_its_floor() {
        let goal = Goal { ratio: 0.0, floor: 20e6 };
        let text = |goal: &Goal, rate| {
            let mut out = Vec::new();
            single("update, 64 k rules, bulk", goal, &[rate; 31], &mut out).unwrap();
            String::from_utf8(out).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(text(&goal, 21e6), "update, 64 k rules, bulk 21.0 20 M/s met");
        assert_eq!(text(&goal, 19e6), "update, 64 k rules, bulk 19.0 20 M/s missed");
        assert_eq!(text(&Goal::NONE, 19e6), "update, 64 k rules, bulk 19.0");
    }

    #[test]
    fn the_sets_together_are_missed_where_one_could_not_be_measured() {
        let pairs = |ours: f64| Pairs { ours: vec![ours; 31], theirs: vec![5e6; 31] };
        let text = |count| {
            let mut out = Vec::new();
            mean_of_sets(&[pairs(10e6), pairs(40e6)], count, &mut out).unwrap();
            String::from_utf8(out).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let figures = "20.0 rte_acl 5.00 4.00 [4.00, 4.00] 2 x, 9 M/s";
        assert_eq!(text(2), format!("acl, geomean of 2 of 2 sets {figures} met"));
        assert_eq!(text(3), format!("acl, geomean of 2 of 3 sets {figures} missed"));
    }

    #[test]
    fn the_core_is_one_of_those_there() {
        let ok = |asked, there: &[u32]| core(asked, there).unwrap();
        assert_eq!((ok(None, &[0, 1, 2]), ok(None, &[3]), ok(None, &[4, 7])), (1, 3, 7));
        assert_eq!((ok(Some(0), &[0, 1]), ok(Some(7), &[4, 7])), (0, 7));
        let said = |asked, there: &[u32]| core(Some(asked), there).unwrap_err().to_string();
        assert_eq!(
            said(99, &[0, 1]),
            "--core 99: choose one of the cores this process may use: 0, 1"
        );
    }
}
