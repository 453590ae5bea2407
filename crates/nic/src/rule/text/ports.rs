//! Texts with commands for several ports.

use std::collections::BTreeMap;

use super::words::Words;

/// The port that a line is for: every `flow` command names it after its second word. `None` if the
/// line is for all ports or is not a command.
pub fn port_of(line: &str) -> Option<u16> {
    let mut words = Words::new(1, line);
    (words.next() == "flow").then(|| words.next())?;
    words.number_u16("port").ok()
}

/// For each of these ports, the lines of a text that are for it or for all ports; each line keeps
/// its number.
pub fn by_port(text: &str, ports: impl IntoIterator<Item = u16>) -> BTreeMap<u16, String> {
    let mut texts: BTreeMap<u16, (usize, String)> =
        ports.into_iter().map(|port| (port, (0, String::new()))).collect();
    for (number, line) in text.lines().enumerate() {
        let add = |(lines, text): &mut (usize, String)| {
            text.extend(std::iter::repeat_n('\n', number - *lines));
            text.push_str(line);
            *lines = number;
        };
        match port_of(line) {
            Some(port) => texts.get_mut(&port).into_iter().for_each(add),
            None => texts.values_mut().for_each(add),
        }
    }
    texts.into_iter().map(|(port, (_, text))| (port, text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_go_to_the_port_they_name_and_keep_their_lines() {
        let text = "flow flush 1\n# words\nflow create 0 ingress pattern eth / end actions drop / \
                    end\nflow isolate 0x1 1\n";
        let texts = by_port(text, [0, 1, 2]);
        assert_eq!(texts[&1], "flow flush 1\n# words\n\nflow isolate 0x1 1");
        assert!(texts[&0].starts_with("\n# words\nflow create 0"));
        assert_eq!(texts[&2], "\n# words");
        assert_eq!(port_of("set vxlan"), None);
        assert!(by_port("", []).is_empty());
    }
}
