//! The testbed, drawn: one small SVG per box and per arrow, which wrap like words on a phone.

use niclab_result::{TestbedBox, TestbedSummary};

/// Letters of a label's line, at most.
const LINE_LETTERS_MAX: usize = 18;
/// Lines of a label, at most.
const LINES_MAX: usize = 3;
/// Colours of cores repeat after this many (`style.css` has one class for each).
const CORE_COLOURS: u32 = 6;

/// A testbed as the template draws it.
pub(crate) struct Drawing {
    /// Device and way in one sentence, for readers who do not see the drawing.
    pub spoken: String,
    /// The device.
    pub device: String,
    /// Boxes from left to right.
    pub tiles: Vec<Tile>,
}

/// A box as the template draws it.
pub(crate) struct Tile {
    /// What it is.
    pub role: String,
    /// What stands in it, in lines with their heights in the drawing.
    pub lines: Vec<(u32, String)>,
    /// The core's name and the number of its colour.
    pub core: Option<(String, u32)>,
    /// `wire`, `device` or empty: how its outline is drawn.
    pub class: &'static str,
    /// The whole label, for a tooltip where it was cut.
    pub label: String,
}

/// Lays a testbed out.
pub(crate) fn drawing(testbed: &TestbedSummary) -> Drawing {
    let way: Vec<_> = testbed.boxes.iter().map(spoken).collect();
    Drawing {
        spoken: format!("Testbed of {}: {}.", testbed.device, way.join(", then ")),
        device: testbed.device.clone(),
        tiles: testbed.boxes.iter().map(tile).collect(),
    }
}

fn spoken(of: &TestbedBox) -> String {
    let place = of.core.map_or_else(String::new, |core| format!(" on core {core}"));
    format!("{} ({}){place}", of.role, of.label)
}

fn tile(of: &TestbedBox) -> Tile {
    let lines = wrap(&of.label);
    // Centred between the role above and the core below.
    let first = 62 - 8 * (lines.len() as u32).saturating_sub(1);
    Tile {
        role: of.role.clone(),
        lines: lines.into_iter().zip(0..).map(|(line, at)| (first + 16 * at, line)).collect(),
        core: of.core.map(|core| (format!("core {core}"), core % CORE_COLOURS)),
        class: match of.role.as_str() {
            "wire" => "wire",
            "device" => "device",
            _ => "",
        },
        label: of.label.clone(),
    }
}

/// A label in lines (a no-break space does not break one); what does not fit ends in an ellipsis.
fn wrap(label: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in label.split(' ').filter(|word| !word.is_empty()) {
        let room = lines
            .last()
            .map_or(0, |line| LINE_LETTERS_MAX.saturating_sub(line.chars().count() + 1));
        match lines.last_mut() {
            Some(line) if word.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    let cut = lines.len() > LINES_MAX;
    lines.truncate(LINES_MAX);
    let last = lines.len().saturating_sub(1);
    for (at, line) in lines.iter_mut().enumerate() {
        if line.chars().count() > LINE_LETTERS_MAX || (cut && at == last) {
            *line = line.chars().take(LINE_LETTERS_MAX - 1).collect();
            line.push('…');
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_wrap_and_are_cut_late() {
        assert_eq!(wrap("generator"), ["generator"]);
        assert_eq!(wrap("memory wire, 4096 frames deep"), ["memory wire, 4096", "frames deep"]);
        assert!(wrap("").is_empty());
        let long = wrap(
            "one-word-that-is-longer-than-any-line-here two three four five six seven \
                         eight nine ten eleven twelve thirteen fourteen",
        );
        assert_eq!(long.len(), LINES_MAX);
        assert!(long.iter().all(|line| line.chars().count() <= LINE_LETTERS_MAX));
        assert!(long[2].ends_with('…'));
    }

    #[test]
    fn the_way_is_spoken() {
        let boxes = vec![
            TestbedBox { role: "generator".into(), label: "64 B".into(), core: Some(1) },
            TestbedBox { role: "wire".into(), label: "memory".into(), core: None },
        ];
        let testbed = TestbedSummary { device: "soft".into(), boxes };
        let spoken = drawing(&testbed).spoken;
        assert_eq!(spoken, "Testbed of soft: generator (64 B) on core 1, then wire (memory).");
    }
}
