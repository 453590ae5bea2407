//! Expressions match as in PCRE2, and others are refused by name.

use super::*;

fn pcre(value: &str, has_place: bool) -> Pcre {
    let mut pcre = Pcre::read(&format!("\"{value}\"")).unwrap_or_else(|_| panic!("{value}"));
    pcre.has_place = has_place;
    pcre.finish().unwrap_or_else(|lack| panic!("{value}: {lack}"));
    pcre
}

/// The first match with a table, if a table is possible, and without.
fn find(pcre: Pcre, payload: &[u8]) -> [Option<(usize, usize)>; 2] {
    find_from(pcre, payload, 0)
}

fn find_from(pcre: Pcre, payload: &[u8], start: usize) -> [Option<(usize, usize)>; 2] {
    [TABLES_LEN_MAX, 0].map(|left| {
        let (mut pcre, mut lists) = (pcre.clone(), ThreadLists::default());
        pcre.prepare(&mut { left });
        pcre.grow(&mut lists);
        pcre.find(payload, start, &mut lists, &mut Budget::new())
    })
}

/// The first match, with its place.
#[track_caller]
fn place(value: &str, payload: &[u8]) -> Option<(usize, usize)> {
    let [by_table, by_threads] = find(pcre(value, true), payload);
    assert_eq!(by_table, by_threads);
    by_table
}

#[track_caller]
fn has(value: &str, payload: &[u8]) -> bool {
    let [by_table, by_threads] = find(pcre(value, false), payload);
    assert_eq!(by_table.is_some(), by_threads.is_some());
    by_table.is_some()
}

fn has_no_table(mut pcre: Pcre) -> bool {
    pcre.prepare(&mut { TABLES_LEN_MAX });
    matches!(pcre.matcher, PcreMatcher::Threads)
}

#[test]
fn tables_have_a_bound_and_change_no_match() {
    let (mut first, mut second) = (pcre("/ab+c/", false), pcre("/ab+c/", false));
    let mut left = TABLES_LEN_MAX;
    first.prepare(&mut left);
    let bytes = TABLES_LEN_MAX - left;
    assert!(bytes > 0 && first.memory_bytes() == bytes, "a table, and no states");
    left = 2 * TABLE_LEN_MAX - 1;
    second.prepare(&mut left);
    assert!(left == 2 * TABLE_LEN_MAX - 1 && matches!(second.matcher, PcreMatcher::Threads));
    assert!(second.memory_bytes() >= second.states_len() && second.states_len() > 0);
}

#[test]
fn the_memory_of_threads_has_a_bound() {
    for value in ["/a.{8000}x/s", "/(?:ab|cd){3000}/", "/(?:a?b){4000}/", "/(?:a|bc|def|gh){1200}/"]
    {
        let mut pcre = pcre(value, true);
        let mut lists = ThreadLists::default();
        pcre.prepare(&mut 0);
        pcre.grow(&mut lists);
        let bytes = lists.memory_bytes();
        assert!((100_000..=2 * STATES_LEN_MAX).contains(&bytes), "{value}: {bytes}");
    }
}

#[test]
fn the_first_branch_and_the_longest_repetition_win() {
    assert_eq!(place("/a|ab/", b"xab"), Some((1, 2)));
    assert_eq!(place("/ab|a/", b"xab"), Some((1, 3)));
    assert_eq!(place("/a+/", b"xaab"), Some((1, 3)));
    assert_eq!(place("/a+?/", b"xaab"), Some((1, 2)));
    assert_eq!(place("/a+/G", b"xaab"), Some((1, 2)));
    assert_eq!(place("/(?U)a+?/", b"xaab"), Some((1, 3)));
    assert_eq!(place("/a{2}/", b"xaaa"), Some((1, 3)));
    assert_eq!(place("/a{,2}/", b"a{,2}"), Some((0, 5)), "text in PCRE2 10.42");
}

#[test]
fn flags_change_the_syntax() {
    assert!(has("/aBc/i", b"AbC") && !has("/aBc/", b"AbC"));
    assert!(has("/a.b/s", b"a\nb") && !has("/a.b/", b"a\nb"));
    assert!(has("/^b/m", b"a\nb") && !has("/^b/", b"a\nb"));
    assert!(has("/a b # c\\d/x", b"ab") && !has("/a b/", b"ab"));
    assert!(has("/b/A", b"b") && !has("/b/A", b"ab"));
    assert!(has("/a(?i)b|c/", b"C") && !has("/a(?i:b)|c/", b"C"));
    assert!(has("/a$/", b"a\n") && !has("/a$/E", b"a\n") && has("/a$/m", b"a\nb"));
    assert!(has("/a\\Z/m", b"a\n") && !has("/a\\z/", b"a\n"));
}

#[test]
fn escapes_and_classes_are_bytes() {
    assert!(has("/\\x41\\x{42}\\x4/", b"AB\x04") && has("/\\0\\012\\e/", b"\0\n\x1b"));
    assert!(has("/\\h\\v/", b"\xa0\x0b") && has("/\\//", b"/") && has("/\\;\\\"/", b";\""));
    assert!(has("/[]a]/", b"]") && has("/[^]a]/", b"b") && !has("/[^]a]/", b"]"));
    assert!(has("/[a\\-c]/", b"-") && has("/[a-]/", b"-") && !has("/[a\\-c]/", b"b"));
    assert!(has("/[[:alpha:]_]/", b"_") && has("/[[:^digit:]]/", b"x") && has("/[[a]/", b"["));
    assert!(has("/[^a]/i", b"b") && !has("/[^a]/i", b"A") && has("/[\\x80-\\xff]/", b"\xfe"));
    assert!(has("/\\bab\\B/", b" abc") && has("/a&&b--c~~/", b"a&&b--c~~"));
    assert!(has("/[\\b]/", b"\x08") && has("/\\N\\S\\D\\W/", b"aaa-"));
}

#[test]
fn a_large_expression_is_matched_without_a_table() {
    let value = "/(a|b).{0,400}c(d|e).{0,400}f/";
    assert!(has_no_table(pcre(value, true)));
    let payload = [&b"xxb"[..], &[b'-'; 300], b"ce", &[b'-'; 400], b"f."].concat();
    assert_eq!(place(value, &payload), Some((2, payload.len() - 1)));
}

#[test]
fn the_search_can_begin_within_the_payload() {
    for (value, expected) in [
        ("/a/", Some((2, 3))),
        ("/^a/", None),
        ("/a/A", None),
        ("/\\Ba/", Some((2, 3))),
        ("/b*/", Some((1, 2))),
    ] {
        assert_eq!(find_from(pcre(value, true), b"aba", 1), [expected; 2], "{value}");
    }
}

#[track_caller]
fn lacks(value: &str, what: &str) {
    match Pcre::read(&format!("\"{value}\"")) {
        Err(Unfit::Lack(lack)) => assert_eq!(lack.to_string(), format!("pcre: {what}"), "{value}"),
        other => panic!("{value}: {other:?}"),
    }
}

#[test]
fn syntax_of_pcre_alone_is_named() {
    for value in ["/(?=a)/", "/(?!a)/", "/(?<=a)b/", "/(?<!a)b/"] {
        lacks(value, "look-around");
    }
    for value in ["/(a)\\1/", "/(?P<n>a)\\k<n>/", "/(?P<n>a)(?P=n)/", "/(a)\\g1/"] {
        lacks(value, "back references");
    }
    for value in ["/a(?R)?/", "/(a)(?1)/", "/(?<n>a)(?&n)/", "/(a)(?-1)/"] {
        lacks(value, "recursion");
    }
    lacks("/(?>a)/", "atomic groups");
    lacks("/a++/", "possessive repetitions");
    lacks("/(?(1)a)/", "conditions");
    lacks("/(*UTF8)a/", "verbs `(*…)`");
    lacks("/a$b/", "`$` before something else");
    lacks("/(a$)*/", "a repeated assertion");
    lacks("/\\Qa\\E/", "`\\Q`");
    lacks("/(?P<flow_x>a)/", "captures into variables");
    lacks("/(a)/, flow:x", "captures into variables");
    lacks("/a/U", "/U, a buffer of HTTP");
    lacks("/ä/", "characters other than ASCII");
}

#[test]
fn the_place_of_a_match_is_exact_or_refused() {
    for value in ["/a$/", "/(a*)*b/", "/(a|b?)+c/"] {
        let mut pcre = Pcre::read(&format!("\"{value}\"")).unwrap();
        pcre.has_place = true;
        assert!(pcre.finish().is_err(), "{value}");
    }
}

#[test]
fn wrong_expressions_are_refused() {
    for value in ["abc", "/a", "/(a/", "/a)/", "/[a/", "/*a/", "/a{3,2}/", "/[b-a]/", "/a/q", "/\\"]
    {
        let read = Pcre::read(&format!("\"{value}\""));
        assert!(matches!(read, Err(Unfit::Expected(_))), "{value}: {read:?}");
    }
}
