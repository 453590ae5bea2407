//! Variables of addresses and ports: `vars` of suricata.yaml.

use std::collections::BTreeMap;

use serde::Deserialize;

/// What rules mean by `$HOME_NET` and `$HTTP_PORTS`. Addresses and ports have names of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables {
    addresses: BTreeMap<String, String>,
    ports: BTreeMap<String, String>,
}

/// Why a configuration of Suricata cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("not YAML with `vars` as in suricata.yaml: {0}")]
pub struct ConfigError(#[source] Box<serde_saphyr::Error>);

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    vars: Vars,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Vars {
    #[serde(default)]
    address_groups: BTreeMap<String, VariableValue>,
    #[serde(default)]
    port_groups: BTreeMap<String, VariableValue>,
}

/// `80` is a number for YAML.
#[derive(Deserialize)]
#[serde(untagged)]
enum VariableValue {
    Number(u64),
    Text(String),
}

impl From<VariableValue> for String {
    fn from(value: VariableValue) -> String {
        match value {
            VariableValue::Number(number) => number.to_string(),
            VariableValue::Text(text) => text,
        }
    }
}

impl Variables {
    /// Reads `vars` of a configuration of Suricata; all else in it is left alone.
    ///
    /// # Errors
    /// The text is not YAML, or `vars` has another form than Suricata reads.
    pub fn from_config(text: &str) -> Result<Variables, ConfigError> {
        // Suricata's own files begin with a directive that names the version of YAML.
        let text = text.strip_prefix("%YAML 1.1").unwrap_or(text);
        let config: Config =
            serde_saphyr::from_str(text).map_err(|error| ConfigError(Box::new(error)))?;
        let texts = |group: BTreeMap<String, VariableValue>| {
            group.into_iter().map(|(name, value)| (name, value.into())).collect()
        };
        let Vars { address_groups, port_groups } = config.vars;
        Ok(Variables { addresses: texts(address_groups), ports: texts(port_groups) })
    }

    /// Defines a variable of addresses, or replaces its value.
    pub fn define_addresses(&mut self, name: &str, value: &str) {
        self.addresses.insert(name.to_owned(), value.to_owned());
    }

    /// Defines a variable of ports, or replaces its value.
    pub fn define_ports(&mut self, name: &str, value: &str) {
        self.ports.insert(name.to_owned(), value.to_owned());
    }

    /// The value of a variable of addresses, by its name without `$`.
    pub fn addresses(&self, name: &str) -> Option<&str> {
        self.addresses.get(name).map(String::as_str)
    }

    /// The value of a variable of ports, by its name without `$`.
    pub fn ports(&self, name: &str) -> Option<&str> {
        self.ports.get(name).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_suricatas_own_form_are_read() {
        let text = "%YAML 1.1\n---\nsuricata-version: \"7.0\"\nvars:\n  address-groups:\n    \
                    HOME_NET: \"[192.168.0.0/16,10.0.0.0/8]\"\n    EXTERNAL_NET: \"!$HOME_NET\"\n\
                    \n  port-groups:\n    HTTP_PORTS: \"80\"\n    SSH_PORTS: 22\noutputs:\n  - \
                    fast:\n      enabled: yes\n";
        let variables = Variables::from_config(text).unwrap();
        assert_eq!(variables.addresses("EXTERNAL_NET"), Some("!$HOME_NET"));
        assert_eq!(variables.ports("HTTP_PORTS"), Some("80"));
        assert_eq!(variables.ports("SSH_PORTS"), Some("22"));
        assert_eq!(variables.ports("HOME_NET"), None);
    }

    #[test]
    fn a_file_of_another_form_is_refused() {
        let error = Variables::from_config("vars: [1, 2]").unwrap_err().to_string();
        assert!(error.starts_with("not YAML with `vars` as in suricata.yaml: "), "{error}");
        assert_eq!(Variables::from_config("outputs: []").unwrap(), Variables::default());
    }
}
