//! `niclab bench`: how fast the software card is here, beside its peers.

use std::io::{self, Write, stdout};

use niclab_bench::{Bench, BenchError, Figures, Goal, ROWS, Row, Subject, Verdict};

use crate::arguments::{BenchArguments, BenchSubject};
use crate::failure::Failure;

/// Measures the rows that were asked for and prints each as soon as it is decided.
pub fn run(arguments: &BenchArguments) -> Result<(), Failure> {
    let defaults = Bench::default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let bench = Bench {
        core: arguments.core.unwrap_or(defaults.core.min(cores - 1)),
        pairs: arguments.pairs.map_or(defaults.pairs, |pairs| pairs as usize),
        peers: arguments.peers.clone(),
        ..defaults
    };
    bench.pin()?;
    let asked: Vec<Subject> = arguments.subjects.iter().map(|&subject| subject.into()).collect();
    let rows = ROWS.iter().filter(|row| asked.is_empty() || asked.contains(&row.subject));
    print(&bench, rows, &mut stdout().lock())
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
    let (mut measured, mut missing) = (false, None);
    for row in rows {
        match row.measure(bench) {
            Ok(pairs) => {
                decided(row, Figures::new(&pairs), out)?;
                measured = true;
            }
            Err(error @ BenchError::NotBuilt { .. }) => {
                writeln!(out, "SKIP {}: {error}", row.what)?;
                missing = Some(error);
            }
            Err(error) => return Err(error.into()),
        }
        out.flush()?;
    }
    match missing {
        Some(error) if !measured => Err(error.into()),
        _ => Ok(()),
    }
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
    fn rows_without_peers_are_skipped_and_nothing_measured_is_a_failure() {
        let bench = Bench { peers: "no/such/directory".into(), ..Bench::default() };
        let mut out = Vec::new();
        let failure = print(&bench, ROWS.iter(), &mut out).unwrap_err();
        assert!(failure.to_string().ends_with("is not built: run benches/peers/build"));
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().filter(|line| line.starts_with("SKIP ")).count(), ROWS.len());
        let line = "SKIP RSS hash, 12-byte tuples: softrss is not built: run benches/peers/build\n";
        assert!(text.contains(line), "{text}");
    }
}
