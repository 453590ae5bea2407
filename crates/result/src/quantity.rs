//! A quantity in words. A sentence and the interval beside it use the same unit and digits.

use crate::Quantity;
use crate::digits::{decimals, grouped, significant};

/// Units of things that are counted: a whole number of them has all of its digits.
const COUNTED: [&str; 4] = ["B", "frames", "packets", "rules"];

impl Quantity {
    /// `true` for a number of times, a share, or a change in percent.
    pub fn is_ratio(&self) -> bool {
        self.unit == "1" || self.unit.starts_with('%')
    }

    /// `true` for a change in percent, such as `% more`.
    pub fn is_change(&self) -> bool {
        self.unit.starts_with("% ")
    }

    /// Number and unit, apart: `1.97` and `us`. A number of times, a share, or a number of cores
    /// has no more digits than its interval supports.
    pub fn words(&self, interval: Option<(f64, f64)>) -> (String, String) {
        let (divisor, unit) = self.scale();
        (self.number(self.value, interval, divisor), unit)
    }

    /// The interval in the unit and with the digits of [`Quantity::words`]: `1.92 to 2.09 us`.
    /// `2.51 times` if both ends have the same digits.
    pub fn interval_words(&self, interval: (f64, f64)) -> String {
        let (divisor, unit) = self.scale();
        let [low, high] =
            [interval.0, interval.1].map(|end| self.number(end, Some(interval), divisor));
        if low == high { format!("{low} {unit}") } else { format!("{low} to {high} {unit}") }
    }

    fn number(&self, one: f64, interval: Option<(f64, f64)>, divisor: f64) -> String {
        if COUNTED.contains(&self.unit.as_str()) && one.fract() == 0.0 && self.value.fract() == 0.0
        {
            return grouped(&format!("{one:.0}"));
        }
        match interval {
            Some(ends) if self.is_ratio() || self.unit == "cores" => {
                grouped(&format!("{one:.*}", decimals(self.value, ends)))
            }
            _ => significant(one / divisor),
        }
    }

    /// A divisor, and the unit of the number divided by it. Times and rates have the largest unit
    /// that leaves the number at 1 or above.
    fn scale(&self) -> (f64, String) {
        let size = self.value.abs();
        let largest = |units: &[(f64, &str)]| {
            let found = units.iter().find(|(divisor, _)| size >= *divisor);
            let (divisor, unit) = found.or(units.last()).copied().unwrap_or((1.0, ""));
            (divisor, unit.to_owned())
        };
        match self.unit.as_str() {
            "1" => (1.0, "times".to_owned()),
            "ns" => largest(&[(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")]),
            "pps" => largest(&[(1e9, "Gpps"), (1e6, "Mpps"), (1e3, "kpps"), (1.0, "pps")]),
            "bit/s" => largest(&[(1e9, "Gbps"), (1e6, "Mbps"), (1e3, "kbps"), (1.0, "bit/s")]),
            unit => (1.0, unit.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantity(value: f64, unit: &str) -> Quantity {
        Quantity { value, unit: unit.to_owned() }
    }

    fn check(value: f64, unit: &str, expected: &str) {
        let (number, unit) = quantity(value, unit).words(None);
        assert_eq!(format!("{number} {unit}"), expected);
    }

    #[test]
    fn a_quantity_has_the_unit_that_fits_its_size() {
        check(12_400_000.0, "pps", "12.4 Mpps");
        check(8_300.0, "pps", "8.30 kpps");
        check(850.0, "pps", "850 pps");
        check(230_512.0, "rules/s", "231,000 rules/s");
        check(32_200.0, "ns", "32.2 us");
        check(2.5e9, "ns", "2.50 s");
        check(0.4, "ns", "0.400 ns");
        check(15.2e9, "bit/s", "15.2 Gbps");
        check(91.0, "%", "91.0 %");
        check(38.2, "% less", "38.2 % less");
        check(2.51, "1", "2.51 times");
        check(65_536.0, "rules", "65,536 rules");
        check(1_472.0, "B", "1,472 B");
        check(139.25, "B", "139 B");
    }

    #[test]
    fn an_interval_has_the_unit_of_its_value_also_where_its_ends_would_have_others() {
        let words = |value, unit, interval| quantity(value, unit).interval_words(interval);
        assert_eq!(words(1.5e6, "pps", (900_000.0, 2e6)), "0.900 to 2.00 Mpps");
        assert_eq!(words(2_964.0, "ns", (720.0, 5_007.0)), "0.720 to 5.01 us");
        assert_eq!(words(967.0, "ns", (317.3, 2_459.8)), "317 to 2,460 ns");
        assert_eq!(words(0.95, "1", (0.9, 1.2)), "0.90 to 1.20 times");
        assert_eq!(words(99.8, "%", (99.5, 100.1)), "99.5 to 100.1 %");
        assert_eq!(words(2.5101, "1", (2.5099, 2.5102)), "2.51 times", "not 2.51 to 2.51");
    }

    #[test]
    fn a_ratio_has_the_digits_that_its_interval_supports() {
        let of = quantity(87.25, "%");
        let interval = (86.12, 89.31);
        assert_eq!(of.words(Some(interval)).0, "87");
        assert_eq!(of.interval_words(interval), "86 to 89 %");
        assert_eq!(of.words(None).0, "87.2", "three digits without an interval");
        assert_eq!(quantity(3.415, "cores").words(Some((3.2, 4.3))).0, "3.4");
        assert_eq!(quantity(1_967.0, "ns").words(Some((1_900.0, 2_100.0))).0, "1.97");
        assert_eq!(quantity(65_536.0, "rules").words(Some((65_500.0, 65_600.0))).0, "65,536");
    }

    #[test]
    fn a_unit_says_whether_its_number_is_a_ratio() {
        let is_ratio = |unit: &&str| quantity(0.5, unit).is_ratio();
        let ratios: Vec<&str> =
            ["1", "%", "% more", "", "10", "ns", "pps"].into_iter().filter(is_ratio).collect();
        assert_eq!(ratios, ["1", "%", "% more"]);
        assert!(quantity(0.5, "% more").is_change() && !quantity(0.5, "%").is_change());
    }
}
