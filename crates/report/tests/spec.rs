//! Specs as snapshots: a change of a figure's look shows in review.

#[allow(dead_code)]
mod sample;

use niclab_report::{Theme, config, dark_colours, vega_lite};
use niclab_result::{Figure, Mark, Origin, Scale, SeriesShape};
use serde_json::Value;

fn figure(id: &str) -> Figure {
    let figures = sample::summary().experiments.into_iter().flat_map(|of| of.figures);
    figures.into_iter().find(|figure| figure.id == id).unwrap()
}

/// A spec with only the first rows of each series, and without the theme, which has its own test.
fn brief(id: &str) -> Value {
    let mut figure = figure(id);
    for series in &mut figure.series {
        series.points.truncate(2);
    }
    let mut spec = vega_lite(&figure);
    spec.as_object_mut().unwrap().remove("config");
    spec
}

#[test]
fn line_with_marks_and_knee() {
    insta::assert_json_snapshot!(brief("occupancy-throughput-group0"));
}

#[test]
fn boxes() {
    insta::assert_json_snapshot!(brief("occupancy-latency-group0"));
}

#[test]
fn cdf() {
    insta::assert_json_snapshot!(brief("latency-cdf"));
}

#[test]
fn words_and_boxes() {
    insta::assert_json_snapshot!(brief("latency-application-boxes"));
}

#[test]
fn themes() {
    insta::assert_json_snapshot!([config(Theme::Light), config(Theme::Dark), dark_colours()]);
}

fn values(spec: &Value) -> &Vec<Value> {
    spec["data"]["values"].as_array().unwrap()
}

#[test]
fn each_point_is_one_row_with_its_glyph() {
    let spec = vega_lite(&figure("occupancy-throughput-group0"));
    let of = |series: &str| -> Vec<_> {
        let rows = values(&spec).iter().filter(|row| row["series"] == series);
        rows.map(|row| row["glyph"].as_str().unwrap()).collect()
    };
    assert_eq!(of("soft, inline"), ["filled"; 12]);
    assert_eq!(of("ConnectX-5 (published)"), ["hollow"; 9]);
    let ring = of("ring");
    let marked: Vec<_> = (0..ring.len()).filter(|at| ring[*at] == "triangle").collect();
    assert_eq!(marked, [1, 4, 8]);
}

#[test]
fn what_was_computed_is_drawn_apart_from_what_was_measured() {
    let mut figure = figure("occupancy-throughput-group0");
    figure.series[0].origin = Origin::Computed;
    let spec = vega_lite(&figure);
    let rows = spec["data"]["values"].as_array().unwrap();
    let computed = rows.iter().filter(|row| row["series"] == figure.series[0].name.as_str());
    assert!(computed.clone().count() > 0);
    assert!(
        computed.into_iter().all(|row| row["origin"] == "computed" && row["glyph"] != "filled")
    );
    let lines = spec["layer"].as_array().unwrap().iter();
    let dash = lines.map(|layer| &layer["encoding"]["strokeDash"]["scale"]).find(|d| d.is_object());
    let dash = dash.unwrap();
    assert_eq!(dash["domain"][1], "computed");
    assert!(dash["range"][1] != dash["range"][0] && dash["range"][1] != dash["range"][2]);
}

#[test]
fn words_are_joined_by_no_line_and_quantities_are() {
    let lines = |scale| {
        let mut figure = figure("occupancy-throughput-group0");
        figure.x.scale = scale;
        let spec = vega_lite(&figure);
        spec["layer"].as_array().unwrap().iter().filter(|of| of["mark"]["type"] == "line").count()
    };
    assert_eq!(lines(Scale::Log), 1);
    assert_eq!(lines(Scale::Ordinal), 0);
}

#[test]
fn series_of_one_hue_look_alike_and_stand_side_by_side_only_where_they_meet() {
    let mut figure = figure("occupancy-throughput-group0");
    figure.x.scale = Scale::Ordinal;
    figure.series.truncate(3);
    for (at, series) in figure.series.iter_mut().enumerate() {
        series.hue = Some(if at == 1 { 1 } else { 0 });
        series.origin = Origin::Measured;
        series.points.truncate(1);
        series.points[0].x_word = if at == 2 { "there" } else { "here" }.to_owned();
    }
    let spec = vega_lite(&figure);
    assert_eq!(offsets(&spec), [-0.5, 0.5, 0.0]);
    let hues = spec["encoding"]["color"]["scale"]["range"].as_array().unwrap();
    assert!(hues[0] == hues[2] && hues[0] != hues[1], "{hues:?}");
    for series in &mut figure.series {
        series.points[0].x_word = "here".to_owned();
    }
    assert_eq!(offsets(&vega_lite(&figure)), [-1.0, 0.0, 1.0]);
}

fn offsets(spec: &Value) -> Vec<f64> {
    values(spec).iter().map(|row| row["offset"].as_f64().unwrap()).collect()
}

/// The kinds of marks of a spec, but for the unseen ones that carry tooltips.
fn kinds(spec: &Value) -> Vec<&str> {
    let layers = spec["layer"].as_array().unwrap().iter();
    let seen = layers.filter(|layer| layer["mark"]["opacity"] != 0);
    seen.map(|layer| layer["mark"]["type"].as_str().unwrap()).collect()
}

fn column<'a>(spec: &'a Value, name: &str) -> Vec<&'a str> {
    values(spec).iter().map(|row| row[name].as_str().unwrap()).collect()
}

#[test]
fn categories_have_bars_from_zero_and_dots_where_the_axis_has_no_zero() {
    let mut figure = figure("occupancy-throughput-group0");
    figure.x.scale = Scale::Ordinal;
    figure.knees.clear();
    figure.series.truncate(1);
    for (at, point) in figure.series[0].points.iter_mut().enumerate() {
        point.x_word = format!("program {at}");
    }
    let spec = vega_lite(&figure);
    assert_eq!(kinds(&spec), ["bar", "rule"], "bars with error bars before them");
    assert_eq!(column(&spec, "glyph"), ["none"; 12]);
    assert_eq!(spec["encoding"]["y"]["scale"]["zero"], true);
    figure.series[0].points[3].marks = vec![Mark::Bimodal];
    assert_eq!(kinds(&vega_lite(&figure)), ["bar", "rule", "point"], "a mark is seen on its bar");
    figure.y.scale = Scale::Log;
    assert_eq!(kinds(&vega_lite(&figure)), ["rule", "point", "point"]);
}

#[test]
fn a_series_of_one_point_is_a_line_across_the_plot_in_a_band() {
    let mut figure = figure("occupancy-throughput-group0");
    figure.knees.clear();
    figure.series.truncate(2);
    figure.series[1].points.truncate(1);
    let spec = vega_lite(&figure);
    let across = spec["layer"].as_array().unwrap().iter();
    let across = across.filter(|layer| layer["encoding"]["x2"]["value"] == "width");
    assert_eq!(across.count(), 2);
    let rows = values(&spec).iter().filter(|row| row["series"] == figure.series[1].name.as_str());
    let rows: Vec<&Value> = rows.collect();
    assert_eq!([&rows[0]["shape"], &rows[0]["glyph"]], ["reference", "none"]);
    figure.series[1].points[0].marks = vec![Mark::Disturbed];
    assert!(column(&vega_lite(&figure), "glyph").contains(&"triangle"), "marks stay in sight");
}

#[test]
fn a_figure_of_single_points_has_a_bar_for_each_name_in_the_colour_of_its_device() {
    let mut figure = figure("occupancy-throughput-group0");
    figure.knees.clear();
    figure.series.truncate(3);
    for (series, name) in figure.series.iter_mut().zip(["a, group 1", "b, group 1", "a, group 4"]) {
        series.name = name.to_owned();
        series.device = name[..1].to_owned();
        series.origin = Origin::Measured;
        series.points.truncate(1);
        series.points[0].x = 16_000.0;
    }
    let spec = vega_lite(&figure);
    assert_eq!(column(&spec, "shape"), ["bar"; 3]);
    assert_eq!(column(&spec, "series"), ["a", "a", "b"]);
    assert_eq!(column(&spec, "x"), ["group 1", "group 4", "group 1"]);
    assert_eq!(offsets(&spec), [-0.5, 0.0, 0.5]);
    assert_eq!(spec["encoding"]["x"]["axis"]["title"], "rules in group 0 = 16,000");
    // Of different places each bar says its own.
    figure.series[2].points[0].x = 1_000.0;
    let spec = vega_lite(&figure);
    assert_eq!(column(&spec, "x"), ["group 1, 16,000", "group 4, 1,000", "group 1, 16,000"]);
}

#[test]
fn boxes_stand_at_their_x_and_side_by_side_only_where_they_meet() {
    let mut figure = figure("occupancy-latency-group0");
    figure.series.truncate(2);
    figure.series.iter_mut().for_each(|series| series.points.truncate(2));
    let places = [[0.0, 16_000.0], [0.0, 48_000.0]];
    for (series, places) in figure.series.iter_mut().zip(places) {
        series.points.iter_mut().zip(places).for_each(|(point, x)| point.x = x);
    }
    let spec = vega_lite(&figure);
    assert_eq!(column(&spec, "shape"), ["box"; 4]);
    assert_eq!(offsets(&spec), [-0.5, 0.0, 0.5, 0.0]);
}

#[test]
fn series_of_one_name_stay_apart() {
    let mut figure = figure("occupancy-throughput-group0");
    for series in &mut figure.series {
        series.name = "same".to_owned();
        series.device = "soft".to_owned();
        series.origin = Origin::Measured;
    }
    let spec = vega_lite(&figure);
    let domain = spec["encoding"]["color"]["scale"]["domain"].as_array().unwrap();
    assert_eq!(domain, &["same", "same, soft", "same, soft (2)", "same, soft (3)"]);
}

#[test]
fn a_colour_of_every_spec_has_a_dark_twin() {
    let dark = dark_colours();
    for experiment in sample::summary().experiments {
        for figure in &experiment.figures {
            let spec = vega_lite(figure);
            let range = spec["encoding"]["color"]["scale"]["range"].as_array().unwrap();
            for hue in range {
                assert!(dark[hue.as_str().unwrap()].is_string(), "{hue}");
            }
        }
    }
}

#[test]
fn any_shape_on_any_scale_is_a_spec() {
    for shape in [SeriesShape::Line, SeriesShape::Box, SeriesShape::Cdf] {
        for scale in [Scale::Linear, Scale::Log, Scale::Symlog, Scale::Ordinal] {
            let mut figure = figure("occupancy-latency-group0");
            figure.x.scale = scale;
            figure.series.iter_mut().for_each(|series| series.shape = shape);
            let points: usize = figure.series.iter().map(|series| series.points.len()).sum();
            assert_eq!(values(&vega_lite(&figure)).len(), points);
        }
    }
}
