//! The page of a fleet in a real browser: one host, thirty, and ten thousand.
//!
//! Needs `chromium`; if it is missing the test says SKIP.

use std::process::{Command, Stdio};

use niclab_report::fleet_html;
use niclab_result::fleet::{
    FleetCard, FleetDifference, FleetDocument, FleetFigure, FleetGroup, Outlier, RatioHistogram,
};

/// What a script behind the page writes down: rows of the list, the first host, the cards that are
/// found, and pixels by which the page is wider than its window.
const PROBE: &str = "<script>
const root = document.documentElement, seen = [];
const look = () => seen.push(body.rows.length, body.rows[0]?.cells[0].textContent ?? '', \
document.getElementById('count').textContent);
look();
find.value = 'dut-00017';
find.dispatchEvent(new Event('input'));
look();
root.dataset.seen = [...seen, root.scrollWidth - root.clientWidth].join('|');
</script></body>";

/// A fleet whose card 17, if there is one, is an outlier.
fn fleet(count: usize) -> FleetDocument {
    let difference = |ratio: f64| FleetDifference {
        figure: 0,
        ratio,
        interval: (ratio - 0.01, ratio + 0.01),
        z_score: (ratio - 1.0) * 90.0,
        z_score_interval: ((ratio - 1.01) * 90.0, (ratio - 0.99) * 90.0),
    };
    let ratio = |at: usize| if at == 17 { 0.8 } else { 1.0 + (at % 40) as f64 / 1_000.0 - 0.02 };
    let card = |at: usize| FleetCard {
        host: format!("dut-{at:05}"),
        device: "linux:eth0,eth1".into(),
        group: 0,
        firmware: "16.35.2000 (MT_0000000012)".into(),
        figures: 12,
        farthest: (count > 4).then(|| difference(ratio(at))),
        is_outlier: at == 17,
    };
    let is_outlier = count > 17;
    let mut counts = vec![0; 48];
    (0..count).for_each(|at| counts[((ratio(at) - 0.8) / 0.22 * 47.0) as usize] += 1);
    let figure = FleetFigure {
        experiment: "occupancy".into(),
        trial: "saturate".into(),
        point: "flows=10000 frame=64 groups=0 match_percent=0 rules=1000".into(),
        metric: "throughput_pps".into(),
        unit: "pps".into(),
        cards: count,
        median: 2.1e7,
        spread: 0.011,
        outliers: usize::from(is_outlier),
        histogram: is_outlier.then_some(RatioHistogram { low: 0.8, high: 1.02, counts }),
        ..FleetFigure::default()
    };
    let outlier = Outlier {
        card: 17,
        group: 0,
        firmware: "16.31 (most others: 16.35)".into(),
        differences: vec![difference(0.8)],
    };
    let group = FleetGroup {
        name: "linux, mlx5_core".into(),
        cards: count,
        unjudged: (count < 5).then(|| "1 card has nothing to be compared with".into()),
        figures: vec![figure],
    };
    FleetDocument {
        program: "niclab 0.1.0".into(),
        false_alarm_rate: 0.05,
        difference_min: 0.02,
        comparisons: count as u64 * 12,
        groups: vec![group],
        outliers: if is_outlier { vec![outlier] } else { Vec::new() },
        hosts: count,
        cards: (0..count).map(card).collect(),
        ..FleetDocument::default()
    }
}

/// What the probe wrote down in a window of so many pixels across.
fn seen(page: &str, width: u32) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    std::fs::write(&path, page.replace("</body>", PROBE)).unwrap();
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("--window-size={width},900"))
        .arg(format!("file://{}", path.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout);
    let (_, rest) = dom.split_once("data-seen=\"").expect("the page wrote nothing down");
    rest.split_once('"').unwrap().0.to_owned()
}

#[test]
fn one_and_ten_thousand_hosts_are_listed_and_found() {
    let version = Command::new("chromium").arg("--version").stdout(Stdio::null()).status();
    if !version.is_ok_and(|status| status.success()) {
        println!("SKIP one_and_ten_thousand_hosts_are_listed_and_found: chromium not found");
        return;
    }
    for (count, expected) in [
        (1, "1|dut-00000|1 of 1 card|0||0 of 0 cards|0"),
        (30, "30|dut-00017|30 of 30 cards|1|dut-00017|1 of 1 card|0"),
        (10_000, "100|dut-00017|100 of 10000 cards|1|dut-00017|1 of 1 card|0"),
    ] {
        let page = fleet_html(&fleet(count)).unwrap();
        if let Some(place) = std::env::var_os("NICLAB_FLEET_PAGES") {
            let path = std::path::Path::new(&place).join(format!("fleet-{count}.html"));
            std::fs::write(path, &page).unwrap();
        }
        assert_eq!(seen(&page, 1300), expected, "{count} hosts");
        assert_eq!(seen(&page, 500), expected, "{count} hosts in a narrow window");
        assert!(page.len() < 200_000 + 220 * count, "{} bytes", page.len());
    }
}
