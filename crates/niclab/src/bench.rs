//! `niclab bench`: how fast the software card is here, beside its peers.

use std::io::{self, Write, stdout};

use niclab_bench::{
    Bench, BenchError, Figures, Goal, Measured, ROWS, Row, Subject, Verdict, median,
};
use niclab_device::cores::allowed;

use crate::arguments::{BenchArguments, BenchSubject};
use crate::failure::Failure;

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
    let rows = ROWS.iter().filter(|row| asked.is_empty() || asked.contains(&row.subject));
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
    for row in rows {
        match row.measure(bench)? {
            Measured::Alone { ours, missing } => alone(row, &ours, &missing, out)?,
            Measured::Paired(pairs) => decided(row, Figures::new(&pairs), out)?,
        }
        out.flush()?;
    }
    Ok(())
}

/// Without a peer there is a rate, and nothing to decide.
fn alone(row: &Row, ours: &[f64], missing: &BenchError, out: &mut impl Write) -> io::Result<()> {
    let Some(ours) = median(ours) else {
        return writeln!(out, "{:<27} too few slices; no peer: {missing}", row.what);
    };
    writeln!(out, "{:<27} {:>6}  no peer: {missing}", row.what, number(ours / 1e6))
}

fn decided(row: &Row, figures: Option<Figures>, out: &mut impl Write) -> io::Result<()> {
    let goal = goal(&row.goal);
    let Some(figures) = figures else {
        return line(out, [row.what, "", row.peer, "", "", &goal, "too few pairs"]);
    };
    let verdict = match figures.verdict(&row.goal) {
        Verdict::Met => "met",
        Verdict::Missed => "missed",
        Verdict::Undecided => "too few pairs",
    };
    let (ours, theirs) = (number(figures.ours / 1e6), number(figures.theirs / 1e6));
    let [low, median, high] =
        [figures.ratio.low, figures.ratio.median, figures.ratio.high].map(number);
    let ratio = format!("{median} [{low}, {high}]");
    line(out, [row.what, &ours, row.peer, &theirs, &ratio, &goal, verdict])
}

fn line(out: &mut impl Write, cells: [&str; 7]) -> io::Result<()> {
    let [what, ours, peer, theirs, ratio, goal, verdict] = cells;
    let text =
        format!("{what:<27} {ours:>6}  {peer:<15} {theirs:>6}  {ratio:<18} {goal:<11}  {verdict}");
    writeln!(out, "{}", text.trim_end())
}

fn goal(goal: &Goal) -> String {
    match goal.floor {
        0.0 => format!("{} x", goal.ratio),
        floor => format!("{} x, {} M/s", goal.ratio, floor / 1e6),
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
            BenchSubject::Exact => Subject::Exact,
            BenchSubject::Generator => Subject::Generator,
            BenchSubject::Insert => Subject::Insert,
            BenchSubject::Rss => Subject::Rss,
        }
    }
}

#[cfg(test)]
mod tests {
    use niclab_bench::Figures;
    use niclab_pairing::Pairs;

    use super::*;

    fn decided_text(row: &Row, ours: f64, count: usize) -> String {
        let pairs = Pairs { ours: vec![ours; count], theirs: vec![20e6; count] };
        let mut out = Vec::new();
        decided(row, Figures::new(&pairs), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_row_says_figures_goal_and_verdict() {
        let exact = &ROWS[0];
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
        let rows = || ROWS.iter().filter(|row| row.subject == Subject::Rss);
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
