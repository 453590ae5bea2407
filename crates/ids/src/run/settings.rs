//! The configuration of one engine: what it is given beside that of the user.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::error::{EngineError, RunError};

/// Name of the configuration in the directory of an engine.
pub(super) const CONFIG: &str = "engine.yaml";
/// Name of its rules.
pub(super) const RULES: &str = "loaded.rules";
/// Name of its log.
pub(super) const LOG: &str = "suricata.log";
/// Name of the socket that takes commands.
pub(super) const SOCKET: &str = "command.sock";

/// How deep a configuration may include others.
const INCLUDES_MAX: usize = 8;

/// The way in which an engine gets its packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// By the TAP interface of this name.
    Tap(String),
    /// As a trace on standard input.
    Pipe,
}

/// What an engine is given beside the configuration of the user: the settings that niclab needs in
/// its place. `eve` is the output of events.
pub(super) fn config(eve: Map<String, Value>, directory: &Path, input: &Input) -> String {
    let text = |path: &Path| Value::from(path.to_string_lossy().into_owned()).to_string();
    let interface = match input {
        Input::Tap(name) => format!(
            "af-packet:\n  - {{interface: {name}, threads: 1, cluster-id: 99, cluster-type: \
             cluster_flow, defrag: yes, use-mmap: yes, tpacket-v3: yes, ring-size: 16384}}\n"
        ),
        Input::Pipe => String::new(),
    };
    let outputs = json!([{ "eve-log": eve }]);
    format!(
        "%YAML 1.1\n---\ndefault-rule-path: {}\nrule-files: [{RULES}]\nlogging:\n  \
         default-log-level: notice\n  outputs:\n    - console: {{enabled: no}}\n    - file: \
         {{enabled: yes, level: notice, filename: {LOG}}}\nstats: {{enabled: yes, interval: \
         1}}\noutputs: {outputs}\nunix-command: {{enabled: yes, filename: {}}}\n{interface}",
        text(directory),
        text(&directory.join(SOCKET)),
    )
}

/// The output of events that a configuration has, or one that it includes, in the form that niclab
/// reads: with all its settings but the file, and without the statistics of the engine. Alerts
/// alone, if it has none.
///
/// # Errors
/// [`RunError::File`]; [`RunError::Engine`] with [`EngineError::Config`].
pub(super) fn eve(config: &Path) -> Result<Map<String, Value>, RunError> {
    let mut eve = eve_of(config, 0)?.unwrap_or_default();
    // None of these fits a pipe to niclab.
    for key in ["prefix", "rotate-interval", "redis", "threaded", "append", "filemode"] {
        eve.remove(key);
    }
    let name = |kind: &Value| match kind {
        Value::Object(of) => of.keys().next().cloned(),
        kind => kind.as_str().map(str::to_owned),
    };
    let types = eve.get("types").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut types: Vec<Value> =
        types.into_iter().filter(|kind| name(kind).as_deref() != Some("stats")).collect();
    if !types.iter().any(|kind| name(kind).as_deref() == Some("alert")) {
        types.push("alert".into());
    }
    eve.insert("types".to_owned(), types.into());
    for (key, value) in [("enabled", "yes"), ("filetype", "regular"), ("filename", "/dev/stdout")] {
        eve.insert(key.to_owned(), value.into());
    }
    Ok(eve)
}

/// The first output of events of a configuration, or else of those that it includes.
fn eve_of(path: &Path, depth: usize) -> Result<Option<Map<String, Value>>, RunError> {
    let bad = |reason: String| {
        let reason = format!("{}: {reason}", path.display());
        RunError::Engine { engine: 0, error: EngineError::Config(reason) }
    };
    let text = fs::read_to_string(path)
        .map_err(|source| RunError::File { path: path.to_owned(), source })?;
    let read: Value = serde_saphyr::from_str(&text).map_err(|error| bad(error.to_string()))?;
    if read.get("run-as").is_some_and(|user| !user.is_null()) {
        return Err(bad(
            "not supported: `run-as`: niclab could not end the engines; leave it out \
                        and start niclab as that user"
                .to_owned(),
        ));
    }
    let outputs = read.get("outputs").and_then(Value::as_array);
    let mut found = outputs.into_iter().flatten().filter_map(|output| output.get("eve-log"));
    if let Some(eve) = found.find_map(Value::as_object) {
        return Ok(Some(eve.clone()));
    }
    let included: Vec<&str> = match read.get("include") {
        Some(Value::String(path)) => vec![path],
        Some(Value::Array(paths)) => paths.iter().filter_map(Value::as_str).collect(),
        _ => vec![],
    };
    if depth >= INCLUDES_MAX && !included.is_empty() {
        return Err(bad("it includes others too deeply".to_owned()));
    }
    // Suricata looks for them beside the configuration.
    let directory = path.parent().unwrap_or(Path::new("."));
    for name in included {
        if let Some(eve) = eve_of(&directory.join(name), depth + 1)? {
            return Ok(Some(eve));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_events_keeps_its_settings_and_goes_to_niclab() {
        let place = tempfile::tempdir().unwrap();
        let [main, included] = ["main.yaml", "in.yaml"].map(|name| place.path().join(name));
        fs::write(&main, "include: in.yaml\n").unwrap();
        let config = "outputs:\n  - fast: {enabled: yes}\n  - eve-log:\n      enabled: no\n      \
                      filename: eve.json\n      community-id: true\n      types:\n        - alert: \
                      {payload: yes}\n        - stats: {totals: yes}\n        - flow\n";
        fs::write(&included, config).unwrap();
        let eve = eve(&main).unwrap();
        assert_eq!(eve["types"], json!([{"alert": {"payload": true}}, "flow"]));
        assert_eq!(eve["filename"], "/dev/stdout");
        assert_eq!(eve["enabled"], "yes");
        assert_eq!(eve["community-id"], true);
    }

    #[test]
    fn without_an_output_of_events_there_are_alerts() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.yaml");
        let of = |text: &str| {
            fs::write(&path, text).unwrap();
            eve(&path)
        };
        assert_eq!(of("outputs: []").unwrap()["types"], json!(["alert"]));
        for (text, reason) in [
            ("outputs: [1", "a.yaml: "),
            ("run-as: {user: suri}", "not supported: `run-as`"),
            ("include: a.yaml", "too deeply"),
            ("include: b.yaml", "b.yaml"),
        ] {
            let error = of(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
