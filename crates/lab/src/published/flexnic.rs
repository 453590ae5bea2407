//! Numbers that the FlexNIC study states: facts with their source, never mixed with measurements.
//!
//! Source: Kaufmann et al., ASPLOS 2016 (`reference/flexnic/README.md` says which). The card was
//! emulated in software; no curve is published as numbers.

use niclab_result::{Mean, Origin, Series, SeriesShape};

const STATED: &str = include_str!("../../../../reference/flexnic/stated_numbers.csv");

/// Its name in a legend.
pub const STUDY: &str = "FlexNIC, 6 cores (published)";
/// The same, of the least and the most that it states.
pub const STUDY_ENDS: [&str; 2] =
    ["FlexNIC, 6 cores, least (published)", "FlexNIC, 6 cores, most (published)"];

/// A stated number by its name; `None` where there is none.
pub fn stated(quantity: &str) -> Option<f64> {
    let row = STATED.lines().find(|line| line.split(',').next() == Some(quantity))?;
    row.split(',').nth(1)?.parse().ok()
}

/// Time of a request with a kind of help, nanoseconds.
pub fn request_ns(mode: &str) -> Option<f64> {
    stated(match mode {
        "rss" => "kvs_processing_time_baseline",
        "steer" => "kvs_processing_time_key_steering",
        "dma" => "kvs_processing_time_steering_and_custom_dma",
        _ => return None,
    })
}

/// How many times the throughput key steering brings: least and most.
pub fn steering_gain() -> Option<(f64, f64)> {
    let gain = |end: &str| stated(&format!("kvs_throughput_gain_key_steering_{end}"));
    Some((1.0 + gain("min")? / 100.0, 1.0 + gain("max")? / 100.0))
}

/// The host's ports: how many, and the rate of each, Gbps.
pub fn ports() -> Option<(f64, f64)> {
    Some((stated("host_link_count")?, stated("host_link_rate")?))
}

/// The curve of this name of the study's numbers at places that are words.
pub fn curve(name: &str, points: &[(&str, f64)]) -> Series {
    let point = |(word, y): &(&str, f64)| {
        let x_word = (*word).to_owned();
        Mean { y: *y, x_word, repeats: 1, ..Mean::default() }
    };
    Series {
        name: name.to_owned(),
        device: STUDY.to_owned(),
        origin: Origin::Published,
        shape: SeriesShape::Line,
        hue: None,
        points: points.iter().map(point).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_slides() {
        let times = ["rss", "steer", "dma", "kernel"].map(request_ns);
        assert_eq!(times, [Some(510.0), Some(310.0), Some(200.0), None]);
        let (least, most) = steering_gain().unwrap();
        assert!((least - 1.3).abs() < 1e-9 && (most - 1.45).abs() < 1e-9);
        assert_eq!(stated("kvs_pcie_bottleneck_cores"), Some(4.0));
        assert_eq!(ports(), Some((2.0, 10.0)));
        assert_eq!(stated("no_such_number"), None);
    }
}
