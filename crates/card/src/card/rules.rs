//! Texts of rules, each command for the port that it names.

use niclab_nic::rule::session::Record;
use niclab_nic::rule::text::ReadError;

use super::Card;

impl Card {
    /// Carries out a text of `flow` commands, each for the port that it names. What is for one port
    /// is applied whole or not at all, port by port.
    ///
    /// # Errors
    /// What cannot be read or is refused, with its line; what was for ports before that one stays.
    pub fn apply(&mut self, text: &str) -> Result<Vec<(u16, Record)>, ReadError> {
        // A port that is not there is refused by the first.
        let is_unknown = |port: u16| usize::from(port) >= self.ports.len();
        let unknown = text.lines().filter_map(port_of).any(is_unknown);
        let now_ns = self.begun.elapsed().as_nanos() as u64;
        let mut records = Vec::new();
        for (number, port) in (0..).zip(&mut self.ports) {
            port.nic.set_time_ns(now_ns);
            let own = if unknown { text.to_owned() } else { of_port(text, number) };
            let done = port.session.apply(&mut port.nic, own.as_bytes())?;
            records.extend(done.into_iter().map(|record| (number, record)));
        }
        self.wake();
        Ok(records)
    }
}

/// The port that a line is for, which every `flow` command names behind its own word; `None` where
/// it is for all, or no command.
fn port_of(line: &str) -> Option<u16> {
    let mut words = line.split_whitespace();
    match (words.next(), words.nth(1)) {
        (Some("flow"), Some(port)) => port.parse().ok(),
        _ => None,
    }
}

/// The lines of a text that are for one port, each in its place; those for all as well.
fn of_port(text: &str, port: u16) -> String {
    let own = |line| if port_of(line).is_none_or(|named| named == port) { line } else { "" };
    text.lines().map(own).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_go_to_the_port_they_name_and_keep_their_lines() {
        let text = "flow flush 1\n# words\nflow create 0 ingress pattern eth / end actions drop / \
                    end\nflow isolate 1 1\n";
        assert_eq!(of_port(text, 1), "flow flush 1\n# words\n\nflow isolate 1 1");
        assert!(of_port(text, 0).starts_with("\n# words\nflow create 0"));
    }
}
