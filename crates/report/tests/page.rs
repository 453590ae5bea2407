//! What the page says and in which order, and that texts from outside cannot break it.

#[allow(dead_code)]
mod sample;

use niclab_report::{ReportError, ReportOptions, html};
use niclab_result::{Environment, ExperimentVerdict, Figure, Mark, Origin, SCHEMA, Summary};

const HOSTILE: &str = "</script><img src=x onerror=alert(1)> \"quoted\" & 'single'";

fn page(summary: &Summary) -> String {
    html(summary, &sample::environment(), sample::RUN_TOML, &ReportOptions::default()).unwrap()
}

/// The page without the scripts at its end, which hold markup of their own.
fn markup(page: &str) -> &str {
    page.split_once("id=\"drawings\"").unwrap().0
}

fn figure_mut(summary: &mut Summary) -> &mut Figure {
    &mut summary.experiments[0].figures[0]
}

#[test]
fn sections_stand_in_reading_order() {
    let page = page(&sample::summary());
    let expected = [
        "<a href=\"#exp-occupancy\">",
        "<h1>niclab report</h1>",
        "Partial run.",
        "How far to trust it: ",
        "<h2 id=\"findings\">",
        "95 % interval 8.53 to 8.84 Mpps",
        "<h2 id=\"exp-occupancy\">",
        "class=\"answer\"",
        "id=\"fig-occupancy-throughput-group0\"",
        "class=\"folded\"",
        "Capacity by group",
        "class=\"testbed\"",
        "<h2 id=\"exp-update\">",
        "<h2 id=\"devices\">",
        "rule update in place, meter",
        "<h2 id=\"environment\">",
        "<h2 id=\"honesty\">",
        "generator-limited",
        "<h2 id=\"reproduce\">",
        "niclab run run.toml",
        "University of Washington",
    ];
    let mut rest = page.as_str();
    for text in expected {
        let place = rest.find(text).unwrap_or_else(|| panic!("{text} is missing or too early"));
        rest = &rest[place + text.len()..];
    }
}

#[test]
fn intervals_stand_below_their_medians_and_long_numbers_fold() {
    let mut summary = sample::summary();
    let cells = ["12.3 Mpps (11.9 Mpps to 12.6 Mpps)", "0.87 of the time with rss", "7 ns"];
    let table = &mut summary.experiments[0].tables[0];
    table.columns = cells.map(|_| "a column".to_owned()).to_vec();
    table.rows = vec![cells.map(str::to_owned).to_vec()];
    let page = page(&summary);
    for cell in [
        "<td class=\"number\">12.3 Mpps <span class=\"ends\">(11.9 to 12.6)</span></td>",
        "<td class=\"number long\">0.87 of the time with rss</td>",
        "<td class=\"number\">7 ns</td>",
    ] {
        assert!(page.contains(cell), "{cell}");
    }
}

#[test]
fn what_is_the_same_in_every_row_stands_above_the_table_and_has_no_column() {
    let mut summary = sample::summary();
    let table = &mut summary.experiments[0].tables[0];
    let words = |row: &[&str]| row.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    table.inputs = 0;
    table.columns = words(&["device", "frame", "rules", "none"]);
    table.rows = vec![words(&["soft", "64 B", "0", ""]), words(&["soft", "64 B", "1", ""])];
    let page = page(&summary);
    assert!(page.contains("In every row: device soft, frame 64 B."));
    assert!(page.contains("<th scope=\"col\" class=\"number\">rules</th></tr>"));
    assert!(!page.contains(">none</th>"));
}

#[test]
fn a_table_has_what_labels_a_row_then_the_results_then_the_other_inputs() {
    let mut summary = sample::summary();
    let table = &mut summary.experiments[0].tables[0];
    let words = |row: &[&str]| row.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    table.columns = words(&["device", "rules", "frame", "throughput", "marks"]);
    table.inputs = 3;
    table.rows = vec![
        words(&["soft", "0", "64 B", "22 Mpps", ""]),
        words(&["ring", "1", "1500 B", "13 Mpps", "disturbed"]),
    ];
    let heads = |page: &str| {
        let start = page.find(">throughput</th>").unwrap();
        let (before, after) =
            (page[..start].rfind("<thead>").unwrap(), page[start..].find("</tr>"));
        let head = &page[before..start + after.unwrap()];
        head.split("</th>").filter_map(|cell| cell.rsplit('>').next()).map(str::to_owned).collect()
    };
    let all: Vec<String> = heads(&page(&summary));
    assert_eq!(all, ["device", "throughput", "marks", "rules", "frame", ""]);
    let row = "<tr data-device=\"ring\" data-marks=\"disturbed\"><td>ring</td>";
    assert!(page(&summary).contains(row), "a row says what it is filtered by");
    // Of one device the next input labels the row.
    summary.experiments[0].tables[0].rows[1][0] = "soft".to_owned();
    let all: Vec<String> = heads(&page(&summary));
    assert_eq!(all, ["rules", "throughput", "marks", "frame", ""]);
}

#[test]
fn a_section_says_where_it_differs_from_what_is_published() {
    let mut summary = sample::summary();
    let difference = "model has 0.02 Gbps, published 0.03 Gbps.".to_owned();
    summary.experiments[0].verdict = ExperimentVerdict::DiffersFromPublished { difference };
    let page = page(&summary);
    let (contents, rest) = page.split_once("</nav>").unwrap();
    assert!(contents.contains("title=\"differs from published\">differs</span>"));
    assert!(rest.contains("<span class=\"verdict differs\">differs from published</span>"));
    assert!(rest.contains("<p class=\"quiet\">model has 0.02 Gbps, published 0.03 Gbps.</p>"));
}

#[test]
fn what_all_entries_of_a_legend_share_stands_once_before_them() {
    let mut summary = sample::summary();
    let figure = figure_mut(&mut summary);
    for (series, name) in figure.series.iter_mut().zip(["soft, 64 rules, same", "soft, 64 rules"]) {
        series.name = name.to_owned();
        series.origin = Origin::Measured;
    }
    figure.series[1].name.push_str(", other");
    figure.series.truncate(2);
    figure.series[1].points.truncate(1);
    let page = page(&summary);
    assert!(page.contains("<li class=\"heading\">All: soft, 64 rules</li>"));
    assert!(page.contains("<span>same</span>"));
    assert!(page.contains("<span>other (only at 1)</span>"), "one point says where it is");
}

#[test]
fn a_filter_offers_the_devices_and_the_marks_of_the_run() {
    let mut summary = sample::summary();
    let options = |page: &str| -> Vec<String> {
        let parts = page.split("<option>").skip(1);
        parts.map(|part| part.split('<').next().unwrap().to_owned()).collect()
    };
    let found = options(&page(&summary));
    let (devices, marks) = found.split_at(summary.devices.len());
    assert_eq!(
        devices[..2],
        summary.devices[..2].iter().map(|of| of.device.as_str()).collect::<Vec<_>>()
    );
    let all = ["bimodal", "disturbed", "drift", "few-samples", "generator-limited", "unbalanced"];
    assert_eq!(marks, all);
    summary.devices.truncate(1);
    for experiment in &mut summary.experiments {
        for series in experiment.figures.iter_mut().flat_map(|figure| &mut figure.series) {
            series.points.iter_mut().for_each(|point| point.marks.clear());
        }
    }
    assert!(!page(&summary).contains("class=\"filter\""), "nothing to choose, no filter");
}

#[test]
fn findings_link_to_figures_that_are_there() {
    let page = page(&sample::summary());
    let page = markup(&page);
    let links = page.match_indices("href=\"#").map(|(at, found)| {
        let target = &page[at + found.len()..];
        &target[..target.find('"').unwrap()]
    });
    let links: Vec<_> = links.collect();
    assert!(links.contains(&"fig-update-rate"));
    for link in links {
        assert!(page.contains(&format!("id=\"{link}\"")), "#{link} leads nowhere");
    }
}

#[test]
fn every_figure_has_its_data_behind_it() {
    let summary = sample::summary();
    let page = page(&summary);
    let page = markup(&page);
    let figures: Vec<_> = summary.experiments.iter().flat_map(|of| &of.figures).collect();
    let drawn = figures.iter().filter(|of| of.series.iter().any(|one| !one.points.is_empty()));
    // One of them stands on top, too.
    assert_eq!(page.matches("class=\"plot\"").count(), drawn.count() + 1);
    assert_eq!(page.matches("class=\"nothing\"").count(), 1);
    let points: usize =
        figures.iter().flat_map(|of| &of.series).map(|series| series.points.len()).sum();
    let cells: usize =
        summary.experiments.iter().flat_map(|of| &of.tables).map(|table| table.rows.len()).sum();
    let heads = page.matches("<thead>").count();
    assert_eq!(page.matches("<tr").count() - heads, points + cells);
}

#[test]
fn a_whole_run_has_no_banner_and_a_clean_one_says_so() {
    let mut summary = sample::summary();
    summary.partial = false;
    summary.warnings.clear();
    for experiment in &mut summary.experiments {
        for series in experiment.figures.iter_mut().flat_map(|figure| &mut figure.series) {
            series.points.iter_mut().for_each(|point| point.marks.clear());
        }
    }
    let page = page(&summary);
    assert!(!page.contains("Partial run."));
    assert!(page.contains("measured points carries a mark, and there is no warning."));
    assert!(page.contains("measured points carries a mark."));
}

#[test]
fn bars_are_called_what_they_are() {
    let captions = |is_few: fn(usize) -> bool| {
        let mut summary = sample::summary();
        let ours = |series: &&mut niclab_result::Series| series.origin != Origin::Published;
        for series in figure_mut(&mut summary).series.iter_mut().filter(ours) {
            for (at, point) in series.points.iter_mut().enumerate() {
                point.marks = if is_few(at) { vec![Mark::FewSamples] } else { Vec::new() };
            }
        }
        let page = page(&summary);
        let start = page.find("id=\"fig-occupancy-throughput-group0\"").unwrap();
        let figure = &page[start..start + page[start..].find("</figure>").unwrap()];
        let (_, caption) = figure.split_once("class=\"bars\">").unwrap();
        let caption = caption.split_once('<').unwrap().0.to_owned();
        let words = ["(95 % interval)", "(smallest to largest)"];
        (caption, words.map(|words| figure.contains(words)))
    };
    let (interval, seen) = captions(|_| false);
    assert!(interval.starts_with("Error bars are 95 % intervals of the median."), "{interval}");
    assert_eq!(seen, [true, false]);
    let (range, seen) = captions(|_| true);
    assert!(range.starts_with("Error bars are the smallest and the largest value: "), "{range}");
    assert_eq!(seen, [false, true]);
    let (both, seen) = captions(|at| at == 0);
    let expected = "intervals of the median; of points with too few repeats for one, the smallest";
    assert!(both.contains(expected), "{both}");
    assert_eq!(seen, [true, true]);
}

#[test]
fn an_empty_summary_is_a_page() {
    let page = html(&Summary::default(), &Environment::default(), "", &ReportOptions::default());
    assert!(page.unwrap().contains("support no finding"));
}

#[test]
fn texts_from_outside_cannot_break_the_page() {
    let mut summary = sample::summary();
    let plain = page(&summary);
    let hostile = HOSTILE.to_owned();
    summary.program.clone_from(&hostile);
    summary.warnings = vec![hostile.clone()];
    summary.findings[0].sentence.clone_from(&hostile);
    summary.experiments[0].name.clone_from(&hostile);
    summary.experiments[0].testbeds[0].boxes[0].label.clone_from(&hostile);
    let figure = figure_mut(&mut summary);
    figure.title.clone_from(&hostile);
    figure.series[0].name.clone_from(&hostile);
    figure.knees[0].label.clone_from(&hostile);
    figure.x.label.clone_from(&hostile);
    let environment =
        Environment { facts: vec![(hostile.clone(), hostile.clone())], ..sample::environment() };
    let options = ReportOptions { title: hostile.clone(), command: hostile.clone() };
    let page = html(&summary, &environment, &hostile, &options).unwrap();
    assert!(!markup(&page).contains("<img"));
    assert!(!markup(&page).contains("onerror=\""));
    for element in ["<script", "</script", "<!--"] {
        let count = |text: &str| text.matches(element).count();
        assert_eq!(count(&page), count(&plain), "{element}");
    }
    assert!(page.contains("&#60;/script&#62;"), "the text itself is still shown");
}

#[test]
fn nothing_is_asked_from_elsewhere() {
    let page = page(&sample::summary());
    for attribute in ["src=\"", "@import", "url("] {
        let style_and_markup = page
            .split("<script>")
            .map(|part| part.split_once("</script>").map_or(part, |(_, markup)| markup));
        let markup: String = style_and_markup.collect();
        assert!(!markup.contains(attribute), "{attribute}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn contradictions_are_refused() {
    let refuse = |change: &dyn Fn(&mut Summary)| {
        let mut summary = sample::summary();
        change(&mut summary);
        html(&summary, &sample::environment(), "", &ReportOptions::default()).unwrap_err()
    };
    let error = refuse(&|of| of.schema = SCHEMA + 1);
    assert!(matches!(error, ReportError::NewerSchema { found } if found == SCHEMA + 1));
    let error = refuse(&|of| of.experiments[1].figures[0].id = "latency-cdf".to_owned());
    assert!(matches!(error, ReportError::DuplicateFigure { id } if id == "latency-cdf"));
    let error = refuse(&|of| figure_mut(of).series[0].points[0].high = Some(f64::NAN));
    assert!(error.to_string().starts_with("figure `occupancy-throughput-group0` holds"));
    let error = refuse(&|of| of.findings[0].interval = Some((0.0, f64::INFINITY)));
    assert!(error.to_string().starts_with("finding `soft-full-root` holds"));
    let error = refuse(&|of| of.experiments[0].tables[0].rows[1].truncate(2));
    assert!(matches!(error, ReportError::RaggedTable { row: 1, cells: 2, columns: 5, .. }));
}

#[test]
fn a_vague_finding_is_folded_however_few_there_are() {
    let mut summary = sample::summary();
    let sentence = summary.findings[0].sentence.clone();
    let open = page(&summary);
    assert!(open.contains("class=\"answer\"") && open.contains(&sentence));
    summary.findings.truncate(1);
    summary.findings[0].interval = Some((1e6, 11e6));
    let page = page(&summary);
    let (before, folded) = page.split_once("class=\"folded\"").unwrap();
    assert!(!before.contains(&sentence), "neither on top nor open");
    assert!(folded.contains(&sentence) && folded.contains("1 more finding"));
}

#[test]
fn a_section_says_how_its_device_stands_to_publications_and_what_words_mean() {
    let mut summary = sample::summary();
    let (beside, terms) = ("soft agrees with its figures.", "Group 0 comes first.");
    summary.experiments[0].beside_published = beside.to_owned();
    summary.experiments[0].terms = terms.to_owned();
    let page = page(&summary);
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}"));
    assert!(place(beside) < place("class=\"answer\"") && place("class=\"answer\"") < place(terms));
    assert!(place(terms) < place("class=\"folded\""));
}
