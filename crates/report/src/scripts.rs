//! The drawing scripts of Vega, brought by `build.rs`, and the licences they come under.

/// Vega, the drawing engine.
pub(crate) const VEGA: &str = include_str!(concat!(env!("OUT_DIR"), "/vega.min.js"));
/// Vega-Lite, which turns specs into Vega's language.
pub(crate) const VEGA_LITE: &str = include_str!(concat!(env!("OUT_DIR"), "/vega-lite.min.js"));
/// Vega-Embed, which puts figures into the page.
pub(crate) const VEGA_EMBED: &str = include_str!(concat!(env!("OUT_DIR"), "/vega-embed.min.js"));
/// Licences of the three and of what is bundled in them.
pub(crate) const NOTICE: &str = include_str!("../scripts/NOTICE.txt");
/// The page's own style.
pub(crate) const STYLE: &str = include_str!("../templates/style.css");
/// Listens for errors before anything else runs.
pub(crate) const RECORDER: &str = include_str!("../templates/recorder.js");
/// Draws the figures.
pub(crate) const DRAW: &str = include_str!("../templates/draw.js");

#[cfg(test)]
mod tests {
    use super::*;

    /// Packages of the lock that only Vega's command line and type checkers use.
    const NOT_BUNDLED: [&str; 20] = [
        "ansi-regex",
        "ansi-styles",
        "cliui",
        "commander",
        "emoji-regex",
        "escalade",
        "get-caller-file",
        "get-east-asian-width",
        "iconv-lite",
        "rw",
        "safer-buffer",
        "string-width",
        "strip-ansi",
        "vega-typings",
        "wrap-ansi",
        "y18n",
        "yargs",
        "yargs-parser",
        "@types/estree",
        "@types/geojson",
    ];

    #[test]
    fn every_bundled_package_has_its_licence_in_the_notice() {
        let lock: serde_json::Value =
            serde_json::from_str(include_str!("../scripts/package-lock.json")).unwrap();
        let named: Vec<_> = NOTICE.split_whitespace().collect();
        let packages = lock["packages"].as_object().unwrap();
        assert!(packages.len() > 50, "the lock lists the packages");
        for path in packages.keys().filter(|path| !path.is_empty()) {
            let (_, name) = path.rsplit_once("node_modules/").unwrap();
            let known = named.contains(&name) || NOT_BUNDLED.contains(&name);
            assert!(known, "{name}: put its licence into scripts/NOTICE.txt");
        }
    }

    #[test]
    fn the_lock_names_no_registry() {
        let lock = include_str!("../scripts/package-lock.json");
        assert!(!lock.contains("\"resolved\""), "run npm with scripts/.npmrc in force");
    }

    #[test]
    fn scripts_do_not_end_their_own_element() {
        for script in [VEGA, VEGA_LITE, VEGA_EMBED, RECORDER, DRAW] {
            assert!(script.len() > 500);
            let script = script.to_lowercase();
            assert!(!script.contains("</script") && !script.contains("<!--"));
            assert!(!script.contains("sourcemappingurl"));
        }
        assert!(!STYLE.to_lowercase().contains("</style"));
    }
}
