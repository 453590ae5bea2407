//! Options of a rule, and the state that they read and write.

use std::collections::HashSet;
use std::sync::LazyLock;

/// An option: `content:"GET"` or `nocase`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyword {
    /// Its name, in lower case: Suricata ignores the case.
    pub name: String,
    /// The text behind its colon, without blanks around it.
    pub value: Option<String>,
}

/// State that rules share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SharedState {
    /// Of one flow: `flowbits`, `flowint`, `flowvar`.
    Flow {
        /// Which.
        name: String,
        /// Whether the rule depends on it.
        reads: bool,
        /// Whether the rule changes it.
        writes: bool,
    },
    /// Of more than one flow: of a host, of a pair of hosts, or of all traffic.
    Wide {
        /// The state that rules share. A rule that counts for itself has none.
        name: Option<String>,
    },
}

/// Keywords that niclab has looked through, of Suricata 7.0.10, with their older names.
const KNOWN: &str = include_str!("keywords.txt");

/// Whether the language of Suricata 7.0 has this keyword.
pub(crate) fn is_known(name: &str) -> bool {
    // Older names have `_` where newer ones have a dot.
    static NAMES: LazyLock<HashSet<String>> =
        LazyLock::new(|| KNOWN.lines().map(|name| name.replace('_', ".")).collect());
    NAMES.contains(&name.replace('_', "."))
}

impl Keyword {
    /// The state that a rule shares with others by this keyword.
    ///
    /// A keyword that is not known may have any state, so it shares wide state with all others that
    /// are not known.
    pub fn states(&self) -> Vec<SharedState> {
        let value = self.value.as_deref().unwrap_or_default();
        let wide = |name: Option<String>| vec![SharedState::Wide { name }];
        let part = |at: usize| value.split(',').nth(at).unwrap_or_default().trim().to_owned();
        match self.name.as_str() {
            "flowbits" => flow_bits(value),
            "flowint" => flow_int(value),
            "flowvar" => vec![both("flowvar".to_owned())],
            "pktvar" => vec![both("flowvar".to_owned())],
            "pcre" if CAPTURES.iter().any(|capture| value.contains(capture)) => {
                vec![both("flowvar".to_owned())]
            }
            // `by_flow` counts what one flow does.
            "threshold" | "detection_filter" if value.contains("by_flow") => vec![],
            "threshold" | "detection_filter" => wide(None),
            "xbits" | "hostbits" => wide(Some(format!("bits {}", part(1)))),
            "dataset" => wide(Some(format!("dataset {}", part(1)))),
            "datarep" => wide(Some(format!("dataset {}", part(0)))),
            "lua" | "luajit" | "luaxform" => wide(Some("lua".to_owned())),
            name if is_known(name) => vec![],
            _ => wide(Some("unknown keywords".to_owned())),
        }
    }
}

/// How regular expressions write variables of a flow or a packet.
const CAPTURES: [&str; 6] = ["(?P<flow_", "(?P<pkt_", "(?<flow_", "(?<pkt_", "flow:", "pkt:"];

/// State of a flow that a rule both reads and changes.
fn both(name: String) -> SharedState {
    SharedState::Flow { name, reads: true, writes: true }
}

/// The bits in `set,a`, `isset,a|b`. Anything else, such as `noalert`, has none.
fn flow_bits(value: &str) -> Vec<SharedState> {
    let Some((command, names)) = value.split_once(',') else { return vec![] };
    let (reads, writes) = match command.trim().to_ascii_lowercase().as_str() {
        "set" | "unset" => (false, true),
        "isset" | "isnotset" => (true, false),
        _ => (true, true),
    };
    let names = names.split(['|', '&', ',']).map(str::trim).filter(|name| !name.is_empty());
    let bit = |name| SharedState::Flow { name: format!("flowbits {name}"), reads, writes };
    names.map(bit).collect()
}

/// The variables in `a,+,1`, `a,=,b`.
fn flow_int(value: &str) -> Vec<SharedState> {
    let words = value.split(',').map(str::trim);
    let names = words.enumerate().filter(|&(at, word)| {
        at == 0 || at == 2 && word.starts_with(|c: char| !c.is_ascii_digit())
    });
    names.map(|(_, name)| both(format!("flowint {name}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(name: &str, value: &str) -> Vec<SharedState> {
        let value = (!value.is_empty()).then(|| value.to_owned());
        Keyword { name: name.to_owned(), value }.states()
    }

    fn flow(name: &str, reads: bool, writes: bool) -> SharedState {
        SharedState::Flow { name: name.to_owned(), reads, writes }
    }

    fn wide(name: &str) -> Vec<SharedState> {
        vec![SharedState::Wide { name: (!name.is_empty()).then(|| name.to_owned()) }]
    }

    #[test]
    fn keywords_share_state_of_a_flow() {
        assert_eq!(states("flowbits", "set, ET.a"), [flow("flowbits ET.a", false, true)]);
        let two = [flow("flowbits a", true, false), flow("flowbits b", true, false)];
        assert_eq!(states("flowbits", "isset,a|b"), two);
        assert_eq!(states("flowbits", "noalert"), []);
        assert_eq!(states("flowint", "n, +, 1"), [flow("flowint n", true, true)]);
        let two = [flow("flowint n", true, true), flow("flowint m", true, true)];
        assert_eq!(states("flowint", "n,=,m"), two);
        assert_eq!(states("pcre", r#""/a(?P<flow_x>\d)/""#), [flow("flowvar", true, true)]);
        assert_eq!(states("flowvar", "x,1"), [flow("flowvar", true, true)]);
    }

    #[test]
    fn keywords_share_wider_state() {
        let limit = "type limit, track by_src, count 1, seconds 60";
        assert_eq!(states("threshold", limit), wide(""));
        assert_eq!(states("threshold", &limit.replace("src", "flow")), []);
        assert_eq!(states("xbits", "set,a,track ip_src"), wide("bits a"));
        assert_eq!(states("hostbits", "isset, a, src"), wide("bits a"));
        assert_eq!(states("dataset", "set,seen,type string"), wide("dataset seen"));
        assert_eq!(states("datarep", "seen,>,200"), wide("dataset seen"));
        assert_eq!(states("content", "\"threshold\""), []);
        assert_eq!(states("dns_query", ""), [], "an older name of dns.query");
        assert_eq!(states("next.year", ""), wide("unknown keywords"));
    }
}
