//! Numbers that the queue study states: facts with their source, never mixed with measurements.
//!
//! Source: Manesh et al., PRESTO 2010 (`reference/presto10/README.md` says which). The curves of
//! its figures are not published as numbers: there are single points alone.

use niclab_result::{Mean, Origin, Series, SeriesShape};

const STATED: &str = include_str!("../../../../reference/presto10/stated_numbers.csv");

/// The card's name in a legend.
pub const CARD: &str = "82599 (published)";

/// A stated number by its name; `None` where there is none.
pub fn stated(quantity: &str) -> Option<f64> {
    let row = STATED.lines().find(|line| line.split(',').next() == Some(quantity))?;
    row.split(',').nth(1)?.parse().ok()
}

fn curve(name: &str, points: &[(f64, Option<f64>)]) -> Series {
    let point =
        |(x, y): &(f64, Option<f64>)| Some(Mean { x: *x, y: (*y)?, repeats: 1, ..Mean::default() });
    Series {
        name: name.to_owned(),
        device: CARD.to_owned(),
        origin: Origin::Published,
        shape: SeriesShape::Line,
        hue: None,
        points: points.iter().filter_map(point).collect(),
    }
}

/// The most frames of one port, millions a second over their length in bytes: from the shortest to
/// those that fill it.
pub fn saturating() -> Series {
    let most = stated("max_forwarding_rate_one_port");
    let lengths = ["packet_size_workload", "saturating_average_packet_size"];
    let points = lengths.map(|length| (stated(length).unwrap_or(0.0), most));
    curve(CARD, &points)
}

/// What cores forward of 64 B frames, millions a second over their number, one queue a core: all
/// together where `power` is 1, each where it is 0.
pub fn scaling(power: f64) -> Vec<Series> {
    let at = |cores: f64, quantity: &str| {
        (cores, stated(quantity).map(|mpps| mpps * cores.powf(power - 1.0)))
    };
    let two = [
        at(2.0, "forwarding_rate_two_ports_2_cores"),
        at(8.0, "forwarding_rate_two_ports_8_cores"),
    ];
    let one = [at(4.0, "max_forwarding_rate_one_port")];
    vec![curve(CARD, &one), curve("82599, 2 ports (published)", &two)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_text() {
        assert_eq!(stated("max_forwarding_rate_one_port"), Some(11.7));
        assert_eq!(stated("saturating_average_packet_size"), Some(86.0));
        assert_eq!(stated("no_such_number"), None);
        let points: Vec<(f64, f64)> = saturating().points.iter().map(|p| (p.x, p.y)).collect();
        assert_eq!(points, [(64.0, 11.7), (86.0, 11.7)]);
        let points = |power: f64| -> Vec<(f64, f64)> {
            scaling(power)[1].points.iter().map(|point| (point.x, point.y)).collect()
        };
        assert_eq!(points(1.0), [(2.0, 6.3), (8.0, 23.2)]);
        assert_eq!(points(0.0), [(2.0, 3.15), (8.0, 2.9)]);
    }
}
