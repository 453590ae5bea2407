//! Texts with commands for several ports.

use super::words::Words;

/// The port that a line is for, which every `flow` command names behind its own word; `None` where
/// it is for all, or no command.
pub fn port_of(line: &str) -> Option<u16> {
    let mut words = Words::new(1, line);
    (words.next() == "flow").then(|| words.next())?;
    words.number_u16("port").ok()
}

/// The lines of a text that are for one port, each in its place; those for all as well.
pub fn of_port(text: &str, port: u16) -> String {
    let own = |line| if port_of(line).is_none_or(|named| named == port) { line } else { "" };
    text.lines().map(own).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_go_to_the_port_they_name_and_keep_their_lines() {
        let text = "flow flush 1\n# words\nflow create 0 ingress pattern eth / end actions drop / \
                    end\nflow isolate 0x1 1\n";
        assert_eq!(of_port(text, 1), "flow flush 1\n# words\n\nflow isolate 0x1 1");
        assert!(of_port(text, 0).starts_with("\n# words\nflow create 0"));
        assert_eq!(port_of("set vxlan"), None);
    }
}
