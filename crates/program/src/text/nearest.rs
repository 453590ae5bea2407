//! What is said where a name is not known: the one that was meant, or those there are.

/// As many names as are told one by one.
const FEW: usize = 10;
/// Characters of a name that is compared with others.
const COMPARED_MAX: usize = 128;
/// Characters of a word whose rest was left out, at least.
const BEGUN_MIN: usize = 3;

/// What was expected in place of `word`: the name nearest to it, else all where there are few.
/// `prefix` stands before each as it is written.
pub(super) fn expected<'n>(
    what: &str,
    word: &str,
    prefix: &str,
    names: impl Iterator<Item = &'n str>,
) -> String {
    let mut names: Vec<&str> = names.collect();
    if let Some(near) = nearest(word, &names) {
        return format!("{what}, perhaps `{prefix}{near}`");
    }
    names.sort_unstable();
    match names.len() {
        0 => format!("{what}, and there is none"),
        1..=FEW => format!("{what}: {}", names.join(", ")),
        _ => what.to_owned(),
    }
}

/// The name that a word was meant to be: one that differs in a third of its characters at most, or
/// one of which is the beginning of the other.
fn nearest<'n>(word: &str, names: &[&'n str]) -> Option<&'n str> {
    let chars = |text: &str| text.chars().take(COMPARED_MAX + 1).collect::<Vec<char>>();
    let of = chars(word);
    if of.len() > COMPARED_MAX {
        return None;
    }
    let near = |name: &&'n str| {
        let name_chars = chars(name);
        let (short, long) =
            if of.len() < name_chars.len() { (&of, &name_chars) } else { (&name_chars, &of) };
        let is_begun = short.len() >= BEGUN_MIN && long.starts_with(short);
        let far = distance(&of, &name_chars);
        (is_begun || 3 * far <= long.len()).then_some((far, *name))
    };
    names.iter().filter_map(near).min().map(|(_, name)| name)
}

/// Characters that are put in, left out, written in place of another or exchanged with the next
/// one, to get from one word to the other.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut next = vec![i];
        for j in 1..=b.len() {
            let other = row[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = other.min(row[j] + 1).min(next[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_near_and_another_word_is_not() {
        let names = ["dst", "src", "length", "mov", "drop", "rx", "checksum"];
        let cases = [
            ("dest", Some("dst")),
            ("len", Some("length")),
            ("mvo", Some("mov")),
            ("drpo", Some("drop")),
            ("Drop", Some("drop")),
            ("check", Some("checksum")),
            ("tx", None),
            ("r", None),
            ("", None),
            ("protocol", None),
        ];
        for (word, near) in cases {
            assert_eq!(nearest(word, &names), near, "{word}");
        }
        let long = "x".repeat(1 << 20);
        assert_eq!(nearest(&long, &[long.as_str()]), None, "as long as a text may be");
        assert_eq!(nearest("ab1", &["ab3", "ab2"]), Some("ab2"), "the same each time");
    }

    #[test]
    fn names_are_told_where_they_are_few() {
        let said = |names: &[&str]| expected("a table", "x", "", names.iter().copied());
        assert_eq!(said(&[]), "a table, and there is none");
        assert_eq!(said(&["routes", "acl"]), "a table: acl, routes");
        let many: Vec<String> = (0..=FEW).map(|number| format!("table{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(said(&many), "a table");
        assert_eq!(said(&many[1..]).matches("table").count(), 1 + FEW);
        let near = expected("a header", "ipv5", "h.", ["ipv4", "eth"].into_iter());
        assert_eq!(near, "a header, perhaps `h.ipv4`");
    }
}
