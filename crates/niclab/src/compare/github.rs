//! A comparison as a comment on a pull request: GitHub's Markdown, the worst first.
//!
//! Names and reasons come from files that anybody may have written. None of them becomes markup, a
//! link, a mention of a person or a reference to an issue.

use std::fmt::Write;

use niclab_lab::compare::{Comparison, Row, Verdict, conditions, ratio_words, started};

use super::Pair;
use super::page::{Page, metric_words, point_words};
use crate::output::one_line;
use crate::rules::plural;

/// Longest body that GitHub takes, characters. Bytes are counted here: they are never fewer.
const LEN_MAX: usize = 65_536;
/// Bytes kept back for what ends a table, a fold and the comment.
const END_LEN: usize = 512;

const HEAD: &str = "| metric | before | after | ratio [95 % interval] | verdict |\n\
                    |---|--:|--:|--:|---|\n";

type Compared<'a> = [(Pair<'a>, Comparison)];

/// The comment: what changed as a table, the rest folded.
pub fn comment(page: &Page, compared: &Compared<'_>) -> String {
    let mut comment = Comment::default();
    comment.add(&format!("### niclab compare: {}\n\n", headline(page, compared)));
    for (pair, found) in compared {
        comment.add(&format!("- {}\n", summary(page, pair, found)));
    }
    let rows = rows(compared);
    let (changed, others): (Vec<&TableRow<'_>>, Vec<_>) =
        rows.iter().partition(|row| matches!(row.row.verdict, Verdict::Worse | Verdict::Better));
    if !changed.is_empty() {
        comment.add("\n");
        comment.table(&changed);
    }
    lost(page, compared, &mut comment);
    conditions(page, compared, &mut comment);
    if !others.is_empty() {
        let points = plural(others.len(), "point", "points");
        comment.fold(&format!("{points} the same or open"), |comment| comment.table(&others));
    }
    comment.text
}

/// A point of a metric, of one pair.
struct TableRow<'a> {
    /// The compared side, where there are several.
    name: Option<&'a str>,
    metric: String,
    row: &'a Row,
}

impl TableRow<'_> {
    fn line(&self) -> String {
        let Row { point, base, other, ratio, interval, verdict, .. } = self.row;
        let mut place = code(&self.metric);
        if !point.is_empty() {
            let _ = write!(place, " at {}", code(&point_words(point)));
        }
        if let Some(name) = self.name {
            let _ = write!(place, " of {}", code(name));
        }
        let ratio = match interval {
            Some((low, high)) => {
                let [low, high] = [*low, *high].map(ratio_words);
                format!("{} [{low}, {high}]", ratio_words(*ratio))
            }
            None => ratio_words(*ratio),
        };
        let words = verdict.to_string();
        let verdict = if *verdict == Verdict::Worse { format!("**{words}**") } else { words };
        format!("| {place} | {} | {} | {ratio} | {verdict} |\n", prose(base), prose(other))
    }
}

/// All rows of all pairs: worse, better, open, the same; of each the worst first.
fn rows<'a>(compared: &'a Compared<'_>) -> Vec<TableRow<'a>> {
    let is_one = compared.len() == 1;
    let mut rows = Vec::new();
    for (pair, found) in compared {
        for group in &found.groups {
            let metric = format!("{} {}", group.experiment, metric_words(group));
            let name = (!is_one).then_some(pair.name.as_str());
            let gain = |row: &Row| group.gain(row);
            rows.extend(group.rows.iter().map(|row| {
                (row.verdict.rank(), gain(row), TableRow { name, metric: metric.clone(), row })
            }));
        }
    }
    rows.sort_by(|(a, a_gain, _), (b, b_gain, _)| a.cmp(b).then(a_gain.total_cmp(b_gain)));
    rows.into_iter().map(|(_, _, row)| row).collect()
}

/// The headline, for a list of pull requests.
fn headline(page: &Page, compared: &Compared<'_>) -> &'static str {
    let is_regression =
        |(pair, found): &(Pair<'_>, Comparison)| page.regression(pair, found).is_some();
    match compared.iter().any(is_regression) {
        true => "regression",
        false => "no regression",
    }
}

/// How many points have which verdict.
fn summary(page: &Page, pair: &Pair<'_>, found: &Comparison) -> String {
    let count = |is: fn(&Verdict) -> bool| found.count(is);
    format!(
        "{} against {}: **{} worse**, {} better, {} same within {}, {} open",
        code(&pair.name),
        code(&pair.base_name),
        count(|verdict| *verdict == Verdict::Worse),
        count(|verdict| *verdict == Verdict::Better),
        count(|verdict| *verdict == Verdict::Same),
        page.percent(),
        count(|verdict| matches!(verdict, Verdict::Undecided(_))),
    )
}

/// Capabilities that the device has lost since the baseline.
fn lost(page: &Page, compared: &Compared<'_>, comment: &mut Comment) {
    let all: Vec<String> = compared
        .iter()
        .flat_map(|(pair, found)| {
            let lost = found.lost(&pair.base.side, &pair.other.side);
            lost.into_iter().map(|missing| page.missing_words(pair, missing))
        })
        .collect();
    if !all.is_empty() {
        comment.add("\n**Can no longer be measured:**\n\n");
        comment.list(&all);
    }
}

/// How the runs were made, in what that differs, and what was not compared; folded.
fn conditions(page: &Page, compared: &Compared<'_>, comment: &mut Comment) {
    let mut lines: Vec<String> = Vec::new();
    let mut add = |line: String| {
        if !lines.contains(&line) {
            lines.push(line);
        }
    };
    for (pair, found) in compared {
        for (word, name, made) in
            [("before", &pair.base_name, &pair.base), ("after", &pair.name, &pair.other)]
        {
            let (device, program) = (made.side.device, &made.side.run.program);
            let since = started(made.side.samples).unwrap_or_default();
            add(format!("{word}: {name}, {device}, {program}, {since}"));
        }
        for difference in conditions::differences(&pair.base, &pair.other) {
            add(format!("differs: {difference}"));
        }
        let lost = found.lost(&pair.base.side, &pair.other.side);
        for missing in found.missing.iter().filter(|missing| !lost.contains(missing)) {
            add(format!("not compared: {}", page.missing_words(pair, missing)));
        }
    }
    page.alone.iter().for_each(|text| add(format!("not compared: {text}")));
    comment.fold("How the runs were made, and what was not compared", |comment| {
        comment.list(&lines);
    });
}

/// The text so far, which never grows beyond what GitHub takes.
#[derive(Default)]
struct Comment {
    text: String,
}

impl Comment {
    /// Adds a block, or nothing where it would be too long; whether it was added.
    fn add(&mut self, block: &str) -> bool {
        let fits = self.text.len() + block.len() + END_LEN <= LEN_MAX;
        if fits {
            self.text.push_str(block);
        }
        fits
    }

    /// Adds as many lines as fit, and how many more there are.
    fn lines(
        &mut self,
        lines: impl ExactSizeIterator<Item = String>,
        more: impl Fn(usize) -> String,
    ) {
        let count = lines.len();
        for (at, line) in lines.enumerate() {
            if !self.add(&line) {
                self.text.push_str(&more(count - at));
                return;
            }
        }
    }

    fn table(&mut self, rows: &[&TableRow<'_>]) {
        if self.add(HEAD) {
            let more = |count| format!("| … and {count} more | | | | |\n");
            self.lines(rows.iter().map(|row| row.line()), more);
        }
    }

    fn list(&mut self, lines: &[String]) {
        let line = |text: &String| format!("- {}\n", prose(text));
        self.lines(lines.iter().map(line), |count| format!("- … and {count} more\n"));
    }

    /// Adds what a reader opens.
    fn fold(&mut self, title: &str, inside: impl FnOnce(&mut Comment)) {
        if self.add(&format!("\n<details><summary>{title}</summary>\n\n")) {
            inside(self);
            self.text.push_str("\n</details>\n");
        }
    }
}

/// Words in which nothing is markup: a word that could be stands in code, where GitHub looks for
/// neither markup nor mentions.
fn prose(text: &str) -> String {
    let text = one_line(text);
    let words = text.split(' ').map(|word| {
        // The punctuation of the sentence is not part of the word.
        let bare = word.trim_end_matches([',', ';', ':', '.']);
        match is_plain(word) || bare.is_empty() {
            true => word.to_owned(),
            false => code(bare) + &word[bare.len()..],
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Whether a word is shown as it is: letters and numbers with the usual signs.
fn is_plain(word: &str) -> bool {
    let is_sign = |c: char| ".,;:()%'/+-…µ·×".contains(c);
    let begins_link = word.to_ascii_lowercase().starts_with("www.") || word.contains("://");
    // At the beginning of a line they make lists and rulers.
    let is_line = !word.contains(char::is_alphanumeric) && word.contains(['+', '-']);
    word.chars().all(|c| c.is_alphanumeric() || is_sign(c)) && !begins_link && !is_line
}

/// A text in code, for a cell of a table or a line.
///
/// What would end the code or the cell is written as its number. That takes HTML's element: in
/// Markdown's code a number would be shown as such.
fn code(text: &str) -> String {
    let text = one_line(text);
    let is_safe = |c: char| !matches!(c, '`' | '|' | '\\' | '<' | '>' | '&');
    if text.chars().all(is_safe) && !text.trim().is_empty() {
        return format!("`{text}`");
    }
    let mut shown = String::from("<code>");
    for c in text.chars() {
        match c.is_ascii_punctuation() {
            true => {
                let _ = write!(shown, "&#{};", u32::from(c));
            }
            false => shown.push(c),
        }
    }
    shown + "</code>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_names_is_escaped() {
        assert_eq!(code("soft"), "`soft`");
        assert_eq!(code("dpdk:--vdev=net_ring0,x=@me #1"), "`dpdk:--vdev=net_ring0,x=@me #1`");
        assert_eq!(code("a|b`c"), "<code>a&#124;b&#96;c</code>");
        assert_eq!(
            code("</code><img src=x>"),
            "<code>&#60;&#47;code&#62;&#60;img src&#61;x&#62;</code>"
        );
        assert_eq!(code("a\\"), "<code>a&#92;</code>");
        assert_eq!(code("a\nb"), "<code>a&#92;u000ab</code>");
        assert_eq!(code(""), "<code></code>");
    }

    #[test]
    fn prose_mentions_nobody_and_links_nothing() {
        assert_eq!(prose("10.5 Mpps (3 repeats), 5 %"), "10.5 Mpps (3 repeats), 5 %");
        assert_eq!(prose("kernel: 6.1 against 6.2"), "kernel: 6.1 against 6.2");
        assert_eq!(prose("ask @octocat in #12"), "ask `@octocat` in `#12`");
        assert_eq!(prose("- --- + 5 %"), "`-` `---` `+` 5 %");
        assert_eq!(
            prose("saturate a_b, 2 points: rules=0; rules=1."),
            "saturate `a_b`, 2 points: `rules=0`; `rules=1`."
        );
        assert_eq!(
            prose("see https://example.org or WWW.example.org"),
            "see `https://example.org` or `WWW.example.org`"
        );
        assert_eq!(
            prose("*bold* _x_ <b> a|b"),
            "`*bold*` `_x_` <code>&#60;b&#62;</code> <code>a&#124;b</code>"
        );
    }

    #[test]
    fn omitted_rows_are_counted_and_every_fold_is_closed() {
        let mut comment = Comment::default();
        let lines: Vec<String> = (0..10_000).map(|at| format!("line {at}")).collect();
        comment.fold("first", |comment| comment.list(&lines));
        comment.fold("second", |comment| comment.list(&lines));
        let text = comment.text;
        assert!(text.len() <= LEN_MAX && text.len() > LEN_MAX - 2 * END_LEN, "{}", text.len());
        assert!(text.contains(" more\n"), "{text}");
        assert_eq!(text.matches("<details>").count(), text.matches("</details>").count());
        assert!(text.ends_with("</details>\n"));
    }
}
