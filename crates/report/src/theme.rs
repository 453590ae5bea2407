//! Colours and calm: the palette and the look of figures in light and dark.
//!
//! Specs are written in the colours of the light theme; [`dark_colours`] says what each becomes in
//! the dark one. Hues are those of Okabe and Ito (2008), which colour-blind readers tell apart;
//! a series also differs by its symbol, so no figure needs colour to be read.

use niclab_result::Origin;
use serde_json::{Value, json};

/// The two looks of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// Dark ink on white: the theme of print and of exported specs.
    Light,
    /// Light ink on near black.
    Dark,
}

/// Hues of measured and computed series, light and dark, in the order of their use.
const MEASURED: [(&str, &str); 7] = [
    ("#0072B2", "#56B4E9"),
    ("#D55E00", "#E8743B"),
    ("#009E73", "#1DB58A"),
    ("#CC79A7", "#D98DB8"),
    ("#E69F00", "#E6AB2E"),
    ("#56B4E9", "#F0E442"),
    ("#000000", "#E8E8E8"),
];

/// Greyish hues of published series, light and dark.
const PUBLISHED: [(&str, &str); 4] = [
    ("#767676", "#A6A6A6"),
    ("#8C7B66", "#BBA78F"),
    ("#66788C", "#8FA5BB"),
    ("#80708C", "#AD9ABB"),
];

/// Symbols of series, as Vega names them; the triangle is kept for marked points.
const SYMBOLS: [&str; 4] = ["circle", "square", "diamond", "cross"];

/// Paper, behind everything.
pub(crate) const PAPER: (&str, &str) = ("#FFFFFF", "#16191D");
/// Lines and words that belong to no series, such as knees.
pub(crate) const INK: (&str, &str) = ("#4A5260", "#B4BCC8");

/// The looks that tell one series from the others of its figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    /// Hue in the light theme.
    pub light: &'static str,
    /// Hue in the dark theme.
    pub dark: &'static str,
    /// Symbol, as Vega names it.
    pub symbol: &'static str,
}

/// Styles of a figure's series in their order, given where they come from and their numbers of a
/// hue ([`niclab_result::Series::hue`]): what has one comes out the same in every figure.
pub(crate) fn styles(series: &[(Origin, Option<u32>)]) -> Vec<Style> {
    let numbered = |is_published: bool| {
        let alike = series.iter().filter(move |(of, _)| (*of == Origin::Published) == is_published);
        alike.filter_map(|(_, hue)| hue.map(|hue| hue as usize)).collect::<Vec<_>>()
    };
    let taken = [numbered(false), numbered(true)];
    let mut next = [0_usize; 2];
    let mut place = |is_published: bool, hue: Option<u32>| {
        if let Some(hue) = hue {
            return hue as usize;
        }
        let (taken, next) =
            (&taken[usize::from(is_published)], &mut next[usize::from(is_published)]);
        while taken.contains(next) {
            *next += 1;
        }
        *next += 1;
        *next - 1
    };
    let style = |(origin, hue): &(Origin, Option<u32>)| {
        let is_published = *origin == Origin::Published;
        let place = place(is_published, *hue);
        let hues: &[_] = if is_published { &PUBLISHED } else { &MEASURED };
        let (light, dark) = hues[place % hues.len()];
        // Each round of hues begins one symbol further, so that a hue comes with every symbol
        // before the two repeat.
        let symbol = SYMBOLS[(place % hues.len() + place / hues.len()) % SYMBOLS.len()];
        Style { light, dark, symbol }
    };
    series.iter().map(style).collect()
}

/// What each colour of a spec becomes in the dark theme.
#[must_use]
pub fn dark_colours() -> Value {
    let pairs = MEASURED.iter().chain(&PUBLISHED).chain([&PAPER, &INK]);
    Value::Object(pairs.map(|(light, dark)| ((*light).to_owned(), json!(dark))).collect())
}

/// The Vega-Lite `config` of a theme: type, grid, axes and background.
#[must_use]
pub fn config(theme: Theme) -> Value {
    let (paper, ink, faint, grid) = match theme {
        Theme::Light => (PAPER.0, "#2B313A", "#5A6371", "#E7E9ED"),
        Theme::Dark => (PAPER.1, "#DDE2E9", "#9AA4B2", "#2A2F37"),
    };
    let font = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif";
    json!({
        "background": paper,
        "font": font,
        "mark": {"aria": false},
        "view": {"stroke": null},
        "axis": {
            "domainColor": faint, "tickColor": faint, "gridColor": grid,
            "labelColor": faint, "titleColor": ink,
            "labelFontSize": 12, "titleFontSize": 12.5, "titleFontWeight": 500,
            "labelPadding": 6, "tickSize": 4, "labelOverlap": "greedy", "labelSeparation": 6,
        },
        "axisX": {"grid": false, "titlePadding": 10},
        "axisY": {"domain": false, "ticks": false, "grid": true},
        "legend": {
            "labelColor": ink, "titleColor": ink, "labelFontSize": 12, "labelLimit": 0,
            "symbolSize": 70, "symbolStrokeWidth": 1.8, "rowPadding": 5, "columnPadding": 18,
        },
        "title": {"color": ink, "subtitleColor": faint},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_of_many_series_look_alike() {
        for (origins, most) in
            [(&[Origin::Measured, Origin::Computed][..], 28), (&[Origin::Published], 16)]
        {
            let series: Vec<_> =
                origins.iter().map(|origin| (*origin, None)).cycle().take(most).collect();
            let all = styles(&series);
            let mut looks: Vec<_> = all.iter().map(|style| (style.light, style.symbol)).collect();
            looks.sort_unstable();
            looks.dedup();
            assert_eq!(looks.len(), most, "{origins:?}");
        }
    }

    #[test]
    fn a_number_has_one_look_whatever_stands_beside_it() {
        use Origin::{Computed, Measured, Published};
        let all = styles(&[
            (Measured, Some(1)),
            (Computed, None),
            (Computed, Some(1)),
            (Computed, None),
            (Published, Some(1)),
            (Measured, Some(0)),
        ]);
        assert_eq!(all[0], all[2], "measured, and computed of it");
        let alone = styles(&[(Measured, Some(1))]);
        assert_eq!(alone[0], all[0], "in a figure of its own");
        let mut looks: Vec<_> = [0, 1, 3, 5].iter().map(|at| all[*at].light).collect();
        looks.sort_unstable();
        looks.dedup();
        assert_eq!(looks.len(), 4, "what has no number takes a hue that no number has: {all:?}");
        assert!(all[4].light != all[0].light && all[4].symbol == all[0].symbol);
    }
}
