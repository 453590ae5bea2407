//! The look of an earlier run in a figure: the colours of the device, muted.

use niclab_result::{Figure, Origin};
use serde_json::{Value, json};

/// How much of its ink a mark of the baseline has.
const INK_SHARE: f64 = 0.45;

/// Mutes what these layers draw of the baseline, in a figure that has one. Its lines are whole.
pub(crate) fn mute(figure: &Figure, layers: &mut [Value]) {
    if figure.series.iter().all(|series| series.origin != Origin::Baseline) {
        return;
    }
    let is_of_points = |layer: &&mut Value| layer.get("data").is_none();
    for layer in layers.iter_mut().filter(is_of_points) {
        let whole = layer["mark"]["opacity"].as_f64().unwrap_or(1.0);
        let muted = whole * INK_SHARE;
        let test = format!("datum.origin == 'baseline' ? {muted} : {whole}");
        layer["mark"]["opacity"] = json!({ "expr": test });
        let scale = layer.pointer_mut("/encoding/strokeDash/scale");
        if let Some(scale) = scale {
            let entries = [("domain", json!(Origin::Baseline)), ("range", json!([1, 0]))];
            for (name, entry) in entries {
                if let Some(list) = scale[name].as_array_mut() {
                    list.push(entry);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use niclab_result::{Axis, Mean, Scale, Series, SeriesShape};

    use super::*;
    use crate::vega_lite;

    fn figure(origins: &[Origin]) -> Figure {
        let axis = || Axis { label: "rules".into(), unit: String::new(), scale: Scale::Linear };
        let point = |x: f64| Mean { x, y: 2.0 * x, repeats: 6, ..Mean::default() };
        let series = origins.iter().enumerate().map(|(at, origin)| Series {
            name: format!("soft {at}"),
            device: "soft".into(),
            origin: *origin,
            shape: SeriesShape::Line,
            hue: Some(0),
            points: vec![point(1.0), point(2.0)],
        });
        Figure {
            id: "a".into(),
            title: "A".into(),
            caption: String::new(),
            x: axis(),
            y: axis(),
            series: series.collect(),
            knees: Vec::new(),
        }
    }

    fn layer<'a>(spec: &'a Value, mark: &str) -> &'a Value {
        let layers = spec["layer"].as_array().unwrap();
        layers.iter().find(|layer| layer["mark"]["type"] == mark).unwrap()
    }

    #[test]
    fn an_earlier_run_is_faint_whole_and_of_the_same_colour() {
        let spec = vega_lite(&figure(&[Origin::Measured, Origin::Baseline]));
        let line = layer(&spec, "line");
        let opacity = "datum.origin == 'baseline' ? 0.45 : 1";
        assert_eq!(line["mark"]["opacity"]["expr"], opacity);
        let dashes = &line["encoding"]["strokeDash"]["scale"];
        let place = dashes["domain"].as_array().unwrap().iter().position(|of| of == "baseline");
        assert_eq!(dashes["range"][place.unwrap()], json!([1, 0]));
        let hues = &spec["encoding"]["color"]["scale"]["range"];
        assert_eq!(hues[0], hues[1]);
        let glyphs: Vec<&Value> =
            spec["data"]["values"].as_array().unwrap().iter().map(|row| &row["glyph"]).collect();
        assert_eq!(glyphs, ["filled", "filled", "hollow", "hollow"]);
        // The discs that carry the tooltips stay unseen.
        let touch = spec["layer"].as_array().unwrap().last().unwrap();
        assert_eq!(touch["mark"]["opacity"], 0);
    }

    #[test]
    fn a_figure_without_an_earlier_run_stays_as_it_is() {
        let spec = vega_lite(&figure(&[Origin::Measured, Origin::Computed]));
        assert!(layer(&spec, "line")["mark"].get("opacity").is_none());
        assert!(!spec.to_string().contains("baseline"));
    }
}
