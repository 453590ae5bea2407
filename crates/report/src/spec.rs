//! A figure as a Vega-Lite spec: plain JSON that any Vega-Lite renderer draws.
//!
//! One data set, one row per point; layers pick their rows by the columns `shape` and `glyph`.
//! Nothing is computed here but where things stand on the paper.

use niclab_result::{Figure, Knee, Mark, Mean, Origin, Scale, Series, SeriesShape};
use serde_json::{Map, Value, json};

use crate::axis::{self, Direction};
use crate::baseline;
use crate::form::{self, Form};
use crate::theme::{self, INK, PAPER, Style, Theme};
use crate::words;

/// Curves with more points than this are drawn without a symbol at each.
const SYMBOLS_COUNT_MAX: usize = 60;
/// Pixels from one series to the next where they stand side by side over categories, at most.
const SLOT_PX_MAX: usize = 44;
/// The same over numbers, where a box that stands far from its place would lie.
const SLOT_PX_MAX_NUMBERS: usize = 9;
/// Height of a line of knee labels above the plot.
const KNEE_LINE_PX: f64 = 16.0;
/// Height of the plotting area.
const HEIGHT_PX: u32 = 320;
/// Width of an exported figure; a page fits it to the window.
const WIDTH_PX: u32 = 720;

/// The Vega-Lite (version 6) spec of a figure, in the colours of the light theme.
///
/// It is complete: title, legend and description are in it, so that it can be exported and drawn
/// by itself. Values that JSON cannot hold (NaN, infinities) become `null` and are not drawn.
#[must_use]
pub fn vega_lite(figure: &Figure) -> Value {
    let figure = &*form::arranged(figure);
    let names = series_names(figure);
    let styles = theme::styles(&looks(figure));
    let encoding = encoding(figure, &names, &styles);
    let mut layers = Vec::new();
    if figure.x.scale != Scale::Ordinal && !figure.knees.is_empty() {
        layers.extend(knee_layers(figure, &encoding["x"]));
    }
    if has(figure, Form::Reference) {
        layers.extend(reference_layers(figure));
    }
    if has(figure, Form::Bars) {
        layers.push(bar_layer(&encoding["color"]));
    }
    layers.extend(line_layers(figure));
    if has(figure, Form::Boxes) {
        layers.extend(box_layers(&encoding["color"]));
    }
    layers.extend(glyph_layers(figure, &names, &styles));
    baseline::mute(figure, &mut layers);
    layers.push(touch_layer(figure));
    json!({
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "description": format!("{}. {}", figure.title, figure.caption),
        "title": {"text": figure.title, "anchor": "start", "offset": 18},
        "width": WIDTH_PX,
        "height": HEIGHT_PX,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "padding": 6,
        "params": [{"name": "slot", "expr": slot_width(figure)}],
        "data": {"name": "points", "values": rows(figure, &names)},
        "encoding": encoding,
        "layer": layers,
        "config": theme::config(Theme::Light),
    })
}

/// Names as the legend shows them: published ones say so, and no two are the same.
pub(crate) fn series_names(figure: &Figure) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for series in &figure.series {
        let mut name = series.name.clone();
        if series.origin == Origin::Published && !name.to_lowercase().contains("published") {
            name.push_str(" (published)");
        }
        if names.contains(&name) {
            name = format!("{name}, {}", series.device);
        }
        let stem = name.clone();
        let mut copy = 2;
        while names.contains(&name) {
            name = format!("{stem} ({copy})");
            copy += 1;
        }
        names.push(name);
    }
    names
}

/// What the looks of a figure's series hang on, in their order.
pub(crate) fn looks(figure: &Figure) -> Vec<(Origin, Option<u32>)> {
    figure.series.iter().map(|series| (series.origin, series.hue)).collect()
}

/// A knee in words: whose, what, where.
pub(crate) fn knee_words(figure: &Figure, knee: &Knee) -> String {
    let unit = &figure.x.unit;
    let place = format!("{} ± {} {unit}", words::number(knee.x), words::number(knee.width));
    format!("{}, {} at {}", knee.device, knee.label, place.trim_end())
}

/// The ends of a point's error bar in words, with what they are.
pub(crate) fn range_words(series: &Series, point: &Mean) -> String {
    let (ends, what) = match (series.shape, point.quartiles) {
        (SeriesShape::Box, Some([p1, p25, p75, p99])) => {
            let inner = format!("{} to {}", words::number(p25), words::number(p75));
            return format!(
                "{inner} (p25 to p75), {} to {} (p1 to p99)",
                words::number(p1),
                words::number(p99)
            );
        }
        _ if series.origin == Origin::Published => ((point.low, point.high), "p1 to p99"),
        _ if is_range(point) => ((point.low, point.high), "smallest to largest"),
        _ => ((point.low, point.high), "95 % interval"),
    };
    match ends {
        (Some(low), Some(high)) => {
            format!("{} to {} ({what})", words::number(low), words::number(high))
        }
        _ => "\u{2013}".to_owned(),
    }
}

/// `true` where a point has too few repeats for an interval: its bar is the range of all of them.
pub(crate) fn is_range(point: &Mean) -> bool {
    point.marks.contains(&Mark::FewSamples)
}

/// Marks in words, a dash where there are none.
pub(crate) fn marks_words(marks: &[Mark]) -> String {
    match marks.is_empty() {
        true => "\u{2013}".to_owned(),
        false => marks.iter().map(|mark| words::mark_name(*mark)).collect::<Vec<_>>().join(", "),
    }
}

/// Every point of a figure with its series.
fn all_points(figure: &Figure) -> impl Iterator<Item = (&Series, &Mean)> {
    let series = figure.series.iter();
    series.flat_map(|series| series.points.iter().map(move |point| (series, point)))
}

/// `true` where something is drawn in this form.
pub(crate) fn has(figure: &Figure, form: Form) -> bool {
    let mut drawn = figure.series.iter().filter(|series| !series.points.is_empty());
    drawn.any(|series| Form::of(figure, series) == form)
}

/// `true` where a point is drawn as a box.
fn boxed(series: &Series, point: &Mean) -> bool {
    series.shape == SeriesShape::Box && point.quartiles.is_some()
}

/// `true` where a point is drawn with an error bar.
fn barred(series: &Series, point: &Mean) -> bool {
    series.shape != SeriesShape::Box && point.low.is_some() && point.high.is_some()
}

/// Every value a figure draws on its vertical axis.
fn heights(figure: &Figure) -> Vec<f64> {
    let points = figure.series.iter().flat_map(|series| &series.points);
    points
        .flat_map(|point| {
            let ends = [Some(point.y), point.low, point.high].into_iter().flatten();
            ends.chain(point.quartiles.into_iter().flatten())
        })
        .collect()
}

/// Every value a figure draws on its horizontal axis, where that has numbers.
fn places(figure: &Figure) -> Vec<f64> {
    let points = figure.series.iter().flat_map(|series| series.points.iter().map(|point| point.x));
    points.chain(figure.knees.iter().map(|knee| knee.x)).collect()
}

/// The distance between series that stand side by side, as an expression of the plot's width.
fn slot_width(figure: &Figure) -> String {
    let widest = form::offsets(figure).into_iter().flatten().fold(0.0, f64::max);
    let beside = (2.0 * widest + 1.0).round() as usize;
    let places = (form::places_count(figure).max(1) + 1) * beside;
    let most = match figure.x.scale {
        Scale::Ordinal => SLOT_PX_MAX,
        _ => SLOT_PX_MAX_NUMBERS,
    };
    format!("clamp(width / {places}, 2.5, {most})")
}

/// One row per point.
fn rows(figure: &Figure, names: &[String]) -> Vec<Value> {
    let mut rows = Vec::new();
    for ((series, name), offsets) in figure.series.iter().zip(names).zip(form::offsets(figure)) {
        for (at, (point, offset)) in series.points.iter().zip(offsets).enumerate() {
            let mut row = row(figure, series, point);
            row.insert("series".to_owned(), json!(name));
            row.insert("at".to_owned(), json!(at));
            row.insert("offset".to_owned(), json!(offset));
            rows.push(Value::Object(row));
        }
    }
    rows
}

/// A point's own columns.
fn row(figure: &Figure, series: &Series, point: &Mean) -> Map<String, Value> {
    let mut row = Map::new();
    let mut put = |name: &str, value: Value| row.insert(name.to_owned(), value);
    match figure.x.scale {
        Scale::Ordinal => put("x", json!(point.x_word)),
        _ => put("x", json!(point.x)),
    };
    put("y", json!(point.y));
    let (low, high) = match point.quartiles {
        Some([p1, p25, p75, p99]) if series.shape == SeriesShape::Box => {
            put("p25", json!(p25));
            put("p75", json!(p75));
            (Some(p1), Some(p99))
        }
        _ => (point.low, point.high),
    };
    if let (Some(low), Some(high)) = (low, high) {
        put("low", json!(low));
        put("high", json!(high));
    }
    put("range", json!(range_words(series, point)));
    put("repeats", json!(point.repeats));
    put("marks", json!(marks_words(&point.marks)));
    put("device", json!(series.device));
    put("shape", json!(Form::of(figure, series).name()));
    put("origin", json!(series.origin));
    put("glyph", json!(glyph(figure, series, point)));
    row
}

/// `true` where a curve is drawn without symbols.
pub(crate) fn crowded(figure: &Figure, series: &Series) -> bool {
    Form::of(figure, series) == Form::Cdf || series.points.len() > SYMBOLS_COUNT_MAX
}

/// What stands at a point.
fn glyph(figure: &Figure, series: &Series, point: &Mean) -> &'static str {
    match () {
        () if !point.marks.is_empty() => "triangle",
        () if boxed(series, point) => "none",
        () if matches!(Form::of(figure, series), Form::Bars | Form::Reference) => "none",
        () if crowded(figure, series) => "none",
        () if series.origin == Origin::Measured => "filled",
        () => "hollow",
    }
}

/// What all layers share: places, colours, symbols, tooltips.
fn encoding(figure: &Figure, names: &[String], styles: &[Style]) -> Value {
    let points = || figure.series.iter().flat_map(|series| &series.points);
    let mut x = match figure.x.scale {
        Scale::Ordinal => {
            let seen = axis::words(points().map(|point| point.x_word.as_str()));
            axis::ordinal(&figure.x, Direction::X, &seen)
        }
        _ => axis::numbers(&figure.x, Direction::X, &places(figure)),
    };
    x["field"] = json!("x");
    if x["type"] == "quantitative" && has(figure, Form::Boxes) {
        let widest = form::offsets(figure).into_iter().flatten().fold(0.0, f64::max);
        x["scale"]["padding"] = json!(14.0 + SLOT_PX_MAX_NUMBERS as f64 * widest);
    }
    let mut y = axis::numbers(&figure.y, Direction::Y, &heights(figure));
    y["field"] = json!("y");
    if has(figure, Form::Bars) {
        y["scale"]["zero"] = json!(true);
    }
    if x["type"] == "quantitative" {
        let lines = figure.knees.len() as f64;
        y["axis"]["titleY"] = json!(-12.0 - KNEE_LINE_PX * lines);
    }
    let hues: Vec<_> = styles.iter().map(|style| style.light).collect();
    json!({
        "x": x,
        "y": y,
        "color": {
            "field": "series", "type": "nominal", "legend": legend(figure),
            "scale": {"domain": names, "range": hues},
        },
    })
}

/// What a reader sees who points at a point; lines that no point would fill are left out.
fn tooltip(figure: &Figure) -> Value {
    let whole = places(figure).iter().all(|place| place.fract() == 0.0);
    let digits = if whole { ",.10~r" } else { ",.5~r" };
    let (x, y) = (axis::title(&figure.x), axis::title(&figure.y));
    let mut lines = vec![json!({"field": "series", "type": "nominal", "title": "series"})];
    lines.push(match figure.x.scale {
        Scale::Ordinal => json!({"field": "x", "type": "nominal", "title": x}),
        _ => json!({"field": "x", "type": "quantitative", "title": x, "format": digits}),
    });
    lines.push(json!({"field": "y", "type": "quantitative", "title": y, "format": ",.5~r"}));
    let boxes = all_points(figure).any(|(series, point)| boxed(series, point));
    if boxes || all_points(figure).any(|(series, point)| barred(series, point)) {
        let few = all_points(figure).any(|(series, p)| barred(series, p) && is_range(p));
        let title = if boxes || few { "spread" } else { "interval" };
        lines.push(json!({"field": "range", "type": "nominal", "title": title}));
    }
    lines.push(json!({"field": "repeats", "type": "quantitative", "title": "repeats"}));
    if all_points(figure).any(|(_, point)| !point.marks.is_empty()) {
        lines.push(json!({"field": "marks", "type": "nominal", "title": "marks"}));
    }
    json!(lines)
}

/// Pixels by which a row stands beside its place.
fn aside() -> Value {
    json!({"expr": "datum.offset * slot"})
}

/// Rows for which `test` (an expression) holds.
fn only(test: &str) -> Value {
    json!([{"filter": test}])
}

/// A band, a line and a label for every knee, behind the curves.
fn knee_layers(figure: &Figure, x: &Value) -> Vec<Value> {
    let least = places(figure).into_iter().fold(f64::INFINITY, f64::min);
    let values: Vec<_> = figure
        .knees
        .iter()
        .enumerate()
        .map(|(index, knee)| {
            let from = if figure.x.scale == Scale::Linear {
                knee.x - knee.width
            } else {
                // A logarithmic axis has no place for a band that reaches zero.
                (knee.x - knee.width).max(least)
            };
            json!({
                "device": knee.device, "knee": knee.x, "from": from, "to": knee.x + knee.width,
                "label": knee_words(figure, knee), "level": -5.0 - KNEE_LINE_PX * index as f64,
            })
        })
        .collect();
    let place = |field: &str| {
        let mut place = x.clone();
        place["field"] = json!(field);
        place
    };
    let layer = |mark: Value, encoding: Value| {
        let data = json!({"name": "knees", "values": values});
        let name = format!("knee_{}", mark["type"].as_str().unwrap_or_default());
        json!({"name": name, "data": data, "mark": mark, "encoding": encoding})
    };
    let top = json!({"value": 0});
    let bottom = json!({"value": "height"});
    let tip = json!({"field": "label", "type": "nominal", "title": "knee"});
    let ink = json!({"value": INK.0});
    // Labels stand above the plot, one to a line, on the side of their knee that has more room.
    let text = json!({
        "type": "text", "baseline": "bottom", "fontSize": 11.5,
        "align": {"expr": "scale('x', datum.knee) > width / 2 ? 'right' : 'left'"},
        "limit": {"expr": "max(scale('x', datum.knee), width - scale('x', datum.knee))"},
    });
    vec![
        layer(
            json!({"type": "rect", "opacity": 0.16}),
            json!({"x": place("from"), "x2": {"field": "to"}, "y": top, "y2": bottom,
                   "color": ink, "tooltip": tip}),
        ),
        layer(
            json!({"type": "rule", "strokeWidth": 1.2, "strokeDash": [2, 3]}),
            json!({"x": place("knee"), "y": top, "y2": bottom, "color": ink, "tooltip": tip}),
        ),
        layer(text, {
            let y = json!({"field": "level", "type": "quantitative", "scale": null});
            json!({"x": place("knee"), "y": y, "text": {"field": "label"}, "color": ink})
        }),
    ]
}

/// Dashes by where a series comes from.
const DASHES: [(Origin, [u32; 2]); 3] =
    [(Origin::Measured, [1, 0]), (Origin::Computed, [2, 3]), (Origin::Published, [6, 4])];

/// Error bars and curves.
fn line_layers(figure: &Figure) -> Vec<Value> {
    let dash = json!({
        "field": "origin", "type": "nominal", "legend": null,
        "scale": {
            "domain": DASHES.map(|(origin, _)| origin), "range": DASHES.map(|(_, dash)| dash),
        },
    });
    let mut layers = Vec::new();
    let is_barred = |(series, point): (&Series, &Mean)| {
        barred(series, point) && Form::of(figure, series) != Form::Reference
    };
    if all_points(figure).any(is_barred) {
        let mut encoding = json!({"y": {"field": "low"}, "y2": {"field": "high"}});
        // Its own hue would not show before a bar.
        if has(figure, Form::Bars) {
            encoding["color"] = json!({"value": INK.0});
        }
        let test = "datum.shape != 'box' && datum.shape != 'reference' && isValid(datum.low)";
        layers.push(json!({
            "transform": only(test),
            "mark": {"type": "rule", "strokeWidth": 1.4, "opacity": 0.75, "xOffset": aside()},
            "encoding": encoding,
        }));
    }
    // Words have no order between them that a line could follow.
    if has(figure, Form::Curve) || has(figure, Form::Cdf) {
        layers.push(json!({
            "transform": only("datum.shape == 'line' || datum.shape == 'cdf'"),
            "mark": {"type": "line", "strokeWidth": 1.8, "strokeJoin": "round"},
            "encoding": {"order": {"field": "at"}, "strokeDash": dash},
        }));
    }
    layers
}

/// Bars from zero: filled where measured, else hollow.
fn bar_layer(hue: &Value) -> Value {
    let [(_, measured), (_, computed), (_, published)] = DASHES;
    let dash = format!(
        "datum.origin == 'computed' ? {computed:?} : \
         datum.origin == 'published' ? {published:?} : {measured:?}"
    );
    json!({
        "transform": only("datum.shape == 'bar'"),
        "mark": {"type": "bar", "size": {"expr": "slot * 0.82"}, "xOffset": aside(),
                 "fillOpacity": {"expr": "datum.origin == 'measured' ? 0.75 : 0"},
                 "strokeWidth": 1.3, "strokeDash": {"expr": dash}},
        "encoding": {"y": {"field": "y", "stack": null}, "stroke": hue},
    })
}

/// Series of one point among curves: a line across the plot, in a band of its interval.
fn reference_layers(figure: &Figure) -> Vec<Value> {
    let (left, right) = (json!({"value": 0}), json!({"value": "width"}));
    let mut layers = Vec::new();
    let is_banded = |(series, point): (&Series, &Mean)| {
        barred(series, point) && Form::of(figure, series) == Form::Reference
    };
    if all_points(figure).any(is_banded) {
        layers.push(json!({
            "transform": only("datum.shape == 'reference' && isValid(datum.low)"),
            "mark": {"type": "rect", "opacity": 0.16},
            "encoding": {"x": left, "x2": right, "y": {"field": "low"}, "y2": {"field": "high"}},
        }));
    }
    layers.push(json!({
        "transform": only("datum.shape == 'reference'"),
        "mark": {"type": "rule", "strokeWidth": 1.5, "strokeDash": [12, 3]},
        "encoding": {"x": left, "x2": right, "y": {"field": "y"}},
    }));
    layers
}

/// Whiskers, boxes and the stroke of the median.
fn box_layers(hue: &Value) -> Vec<Value> {
    let whole = "datum.shape == 'box' && isValid(datum.p25)";
    let width = json!({"expr": "slot * 0.72"});
    let layer = |test: String, mark: Value, encoding: Value| {
        let mut mark = mark;
        mark["xOffset"] = aside();
        json!({"transform": only(&test), "mark": mark, "encoding": encoding})
    };
    vec![
        layer(
            whole.to_owned(),
            json!({"type": "rule", "strokeWidth": 1.2,
                   "strokeDash": {"expr": "datum.origin == 'published' ? [3, 2] : [1, 0]"}}),
            json!({"y": {"field": "low"}, "y2": {"field": "high"}}),
        ),
        // Paper under the box hides the whisker; the fill over it is faint, so the median shows.
        layer(
            whole.to_owned(),
            json!({"type": "bar", "size": width}),
            json!({"y": {"field": "p25"}, "y2": {"field": "p75"}, "color": {"value": PAPER.0}}),
        ),
        layer(
            whole.to_owned(),
            json!({"type": "bar", "size": width,
                   "fillOpacity": {"expr": "datum.origin == 'published' ? 0 : 0.3"},
                   "strokeWidth": 1.2}),
            json!({"y": {"field": "p25"}, "y2": {"field": "p75"}, "stroke": hue}),
        ),
        layer(
            whole.to_owned(),
            json!({"type": "tick", "orient": "horizontal", "thickness": 2.4, "size": width}),
            json!({}),
        ),
    ]
}

/// Symbols: filled where measured, else hollow; a hollow triangle where marked.
fn glyph_layers(figure: &Figure, names: &[String], styles: &[Style]) -> Vec<Value> {
    let symbols: Vec<_> = styles.iter().map(|style| style.symbol).collect();
    let shape = json!({
        "field": "series", "type": "nominal", "legend": legend(figure),
        "scale": {"domain": names, "range": symbols},
    });
    let filled = json!({"filled": true, "size": 52});
    let hollow = json!({"filled": false, "fill": PAPER.0, "size": 48, "strokeWidth": 1.5});
    let triangle = json!({
        "filled": false, "fill": PAPER.0, "size": 90, "strokeWidth": 1.8, "shape": "triangle-up",
    });
    let of_series = json!({"shape": shape});
    let glyphs = [
        ("filled", filled, &of_series),
        ("hollow", hollow, &of_series),
        ("triangle", triangle, &json!({})),
    ];
    let mut layers = Vec::new();
    for (name, mut mark, encoding) in glyphs {
        // A layer without rows would leave a scale without an extent.
        if all_points(figure).any(|(series, point)| glyph(figure, series, point) == name) {
            mark["type"] = json!("point");
            mark["opacity"] = json!(1);
            mark["xOffset"] = aside();
            let rows = only(&format!("datum.glyph == '{name}'"));
            layers.push(json!({"transform": rows, "mark": mark, "encoding": encoding}));
        }
    }
    layers
}

/// The legend of an exported figure: above the title of the vertical axis and the knees.
fn legend(figure: &Figure) -> Value {
    json!({
        "title": null, "orient": "top", "direction": "vertical", "columns": 2,
        "symbolOpacity": 1, "offset": 30.0 + KNEE_LINE_PX * figure.knees.len() as f64,
    })
}

/// Unseen discs large enough for a finger, which carry the tooltips.
fn touch_layer(figure: &Figure) -> Value {
    json!({
        "mark": {"type": "point", "filled": true, "opacity": 0, "size": 260, "xOffset": aside()},
        "encoding": {"color": {"value": "transparent"}, "tooltip": tooltip(figure)},
    })
}
