//! The configuration of one engine: the user's, with what niclab needs for itself.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::error::EngineError;

/// Name of the configuration in the directory of an engine.
pub(super) const CONFIG: &str = "engine.yaml";
/// Name of its rules.
pub(super) const RULES: &str = "loaded.rules";
/// Name of its log.
pub(super) const LOG: &str = "suricata.log";
/// Name of the socket that takes commands.
pub(super) const SOCKET: &str = "command.sock";

/// The way in which an engine gets its packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// By the TAP interface of this name.
    Tap(String),
    /// As a trace on standard input.
    Pipe,
}

/// The configuration of an engine whose working directory is `directory`. It includes that of the
/// user, whose path is `user`, and whose output of events is `eve`.
pub(super) fn config(
    user: &Path,
    eve: Map<String, Value>,
    directory: &Path,
    input: &Input,
) -> String {
    let text = |path: &Path| Value::from(path.to_string_lossy().into_owned()).to_string();
    let interface = match input {
        Input::Tap(name) => format!(
            "af-packet:\n  - {{interface: {name}, threads: 1, cluster-id: 99, cluster-type: \
             cluster_flow, defrag: yes, use-mmap: yes, tpacket-v3: yes, ring-size: 16384}}\n"
        ),
        Input::Pipe => String::new(),
    };
    let outputs = json!([{ "eve-log": eve }]);
    // A key that comes again replaces the one of the included file. The socket has a short path:
    // the address of a socket has 108 bytes at most.
    format!(
        "%YAML 1.1\n---\ninclude: {}\ndefault-rule-path: {}\nrule-files: [{RULES}]\nlogging:\n  \
         default-log-level: notice\n  outputs:\n    - console: {{enabled: no}}\n    - file: \
         {{enabled: yes, level: notice, filename: {LOG}}}\nstats: {{enabled: yes, interval: \
         1}}\noutputs: {outputs}\nunix-command: {{enabled: yes, filename: \
         /proc/self/cwd/{SOCKET}}}\n{interface}",
        text(user),
        text(directory),
    )
}

/// The output of events that a configuration has, in the form that niclab reads: with all its
/// settings but the file, and without the statistics of the engine. Alerts alone, if it has none.
///
/// # Errors
/// [`EngineError::Config`].
pub(super) fn eve(config: &str) -> Result<Map<String, Value>, EngineError> {
    let read: Value =
        serde_saphyr::from_str(config).map_err(|error| EngineError::Config(error.to_string()))?;
    let outputs = read.get("outputs").and_then(Value::as_array);
    let of = outputs.into_iter().flatten().filter_map(|output| output.get("eve-log"));
    let mut eve = of.filter_map(Value::as_object).next().cloned().unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_events_keeps_its_settings_and_goes_to_niclab() {
        let config = "outputs:\n  - fast: {enabled: yes}\n  - eve-log:\n      enabled: no\n      \
                      filename: eve.json\n      community-id: true\n      types:\n        - alert: \
                      {payload: yes}\n        - stats: {totals: yes}\n        - flow\n";
        let eve = eve(config).unwrap();
        assert_eq!(eve["types"], json!([{"alert": {"payload": true}}, "flow"]));
        assert_eq!(eve["filename"], "/dev/stdout");
        assert_eq!(eve["enabled"], "yes");
        assert_eq!(eve["community-id"], true);
    }

    #[test]
    fn without_an_output_of_events_there_are_alerts() {
        assert_eq!(eve("outputs: []").unwrap()["types"], json!(["alert"]));
        assert!(matches!(eve("outputs: [1"), Err(EngineError::Config(_))));
    }
}
