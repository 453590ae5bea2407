//! Options of a rule, and the state that they read and write.

/// An option: `content:"GET"` or `nocase`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyword {
    /// Its name.
    pub name: String,
    /// The text behind its colon, without blanks around it.
    pub value: Option<String>,
}

/// State that rules share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlowState {
    /// A bit or a number of one flow, by name: `flowbits`, `flowint`.
    Flow(String),
    /// State of more than one flow: of a host, of a pair of hosts, or of all traffic. The keyword.
    Wider(String),
}

/// Keywords that niclab has looked through, of Suricata 7.0.10, with their older names.
const KNOWN: &str = include_str!("keywords.txt");

/// Whether the language of Suricata 7.0 has this keyword.
pub(super) fn is_known(name: &str) -> bool {
    let same = |a: &str, b: &str| a.replace('_', ".") == b.replace('_', ".");
    KNOWN.lines().any(|known| same(known, name))
}

/// What a keyword of `flowbits` and its like does before it names its bits.
const COMMANDS: [&str; 6] = ["set", "unset", "toggle", "isset", "isnotset", "noalert"];

impl Keyword {
    /// The state that a rule shares with others by this keyword.
    ///
    /// A keyword that is not known may have any state, so it counts as state of more than one flow.
    pub fn states(&self) -> Vec<FlowState> {
        let value = self.value.as_deref().unwrap_or_default();
        let wider = || vec![FlowState::Wider(self.name.clone())];
        match self.name.as_str() {
            "flowbits" => flow_bits(value),
            "flowint" => {
                let name = value.split(',').next().unwrap_or_default().trim();
                vec![FlowState::Flow(format!("flowint {name}"))]
            }
            // `by_flow` counts what one flow does.
            "threshold" | "detection_filter" if value.contains("by_flow") => vec![],
            "threshold" | "detection_filter" | "xbits" | "hostbits" | "dataset" | "datarep" => {
                wider()
            }
            "lua" | "luajit" | "luaxform" => wider(),
            name if is_known(name) => vec![],
            _ => wider(),
        }
    }
}

/// The names in `set,a`, `isset,a|b`. Anything else has no name.
fn flow_bits(value: &str) -> Vec<FlowState> {
    let Some((command, names)) = value.split_once(',') else { return vec![] };
    if !COMMANDS.contains(&command.trim()) {
        return vec![FlowState::Wider(format!("flowbits:{command}"))];
    }
    let names = names.split(['|', '&', ',']).map(str::trim).filter(|name| !name.is_empty());
    names.map(|name| FlowState::Flow(format!("flowbits {name}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(name: &str, value: &str) -> Vec<FlowState> {
        let value = (!value.is_empty()).then(|| value.to_owned());
        Keyword { name: name.to_owned(), value }.states()
    }

    #[test]
    fn keywords_share_state_of_a_flow_or_of_more() {
        let flow = |name: &str| FlowState::Flow(name.to_owned());
        let wider = |name: &str| vec![FlowState::Wider(name.to_owned())];
        assert_eq!(states("flowbits", "set, ET.a"), [flow("flowbits ET.a")]);
        let both = [flow("flowbits a"), flow("flowbits b")];
        assert_eq!(states("flowbits", "isset,a|b"), both);
        assert_eq!(states("flowbits", "noalert"), []);
        assert_eq!(states("flowint", "n, +, 1"), [flow("flowint n")]);
        assert_eq!(
            states("threshold", "type limit, track by_src, count 1, seconds 60"),
            wider("threshold")
        );
        assert_eq!(states("threshold", "type limit, track by_flow, count 1, seconds 60"), []);
        assert_eq!(states("xbits", "set,a,track ip_src"), wider("xbits"));
        assert_eq!(states("content", "\"threshold\""), []);
        assert_eq!(states("dns_query", ""), [], "an older name of dns.query");
        assert_eq!(states("next.year", ""), wider("next.year"));
    }
}
