//! Rules are read as Suricata reads them, and errors have a place and a remedy.

use super::*;
use crate::rule::Transport;

fn variables() -> Variables {
    let mut variables = Variables::default();
    variables.define_addresses("HOME_NET", "192.168.0.0/16");
    variables
}

fn rules(text: &str) -> Vec<Rule> {
    read(text, &variables()).unwrap_or_else(|errors| panic!("{}", errors[0]))
}

#[track_caller]
fn refused(text: &str, message: &str) {
    let errors = read(text, &variables()).unwrap_err();
    assert_eq!(errors[0].to_string(), message);
}

#[test]
fn a_rule_is_header_and_options() {
    let text = "alert http $HOME_NET any -> [10.0.0.0/8, !10.1.0.0/16] 80 (msg:\"a\\;b: c\"; \
                flow:to_server; content:\"GET|3b|\"; http.method; sid:7; rev:2;)";
    let [rule] = &rules(text)[..] else { panic!() };
    assert_eq!((rule.sid, rule.gid, rule.line, rule.action), (7, 1, 1, Action::Alert));
    assert!(rule.protocol.transports.contains(Transport::Tcp));
    assert_eq!(rule.value("msg"), Some(r#""a\;b: c""#));
    assert_eq!(rule.keywords[3], Keyword { name: "http.method".to_owned(), value: None });
    assert!(rule.source.has_address_variables && !rule.destination.has_address_variables);
    assert_eq!(rule.destination.ports.count(), 1);
    assert_eq!(rule.text, text);
}

#[test]
fn comments_and_joined_lines_are_read_as_suricata_does() {
    let text = "# alert tcp any any -> any any (sid:1;)\n\n alert tcp (\n; a comment\n\
                alert tcp any any \
                \\\n-> any 80 \\ \n(sid:2;)\nalert udp any any <> any 53 (sid:3; gid:4;)\r\n";
    let rules = rules(text);
    assert_eq!(
        rules.iter().map(|rule| (rule.sid, rule.line)).collect::<Vec<_>>(),
        [(2, 5), (3, 8)]
    );
    assert!(rules[1].is_bidirectional && rules[1].gid == 4);
}

#[test]
fn errors_have_line_column_and_remedy() {
    refused(
        "alert tpc any any -> any any (sid:1;)",
        "line 1, column 7: expected a protocol, such as tcp, udp, icmp, ip, http or dns\n\
         alert tpc any any -> any any (sid:1;)\n      ^^^",
    );
    refused(
        "alert tcp any any \\\n-> $DMZ 80 (sid:2;)",
        "line 2, column 4: the variable DMZ is not defined; define it in `vars` of suricata.yaml\n\
         -> $DMZ 80 (sid:2;)\n   ^^^^",
    );
    let problem = |text: &str| {
        let error = &read(text, &variables()).unwrap_err()[0];
        let message = error.to_string();
        message.lines().next().unwrap_or_default().to_owned()
    };
    let at = |column, what| format!("line 1, column {column}: {what}");
    assert_eq!(
        problem("allow ip any any -> any any (sid:1;)"),
        at(1, "expected an action: alert, pass, drop, reject or config")
    );
    assert_eq!(problem("alert ip any any - any any (sid:1;)"), at(18, "expected `->` or `<>`"));
    assert_eq!(problem("alert ip any any -> any any"), at(28, "expected `(` and the options"));
    assert_eq!(problem("alert ip any any -> any any ("), at(30, "expected `)`"));
    assert_eq!(
        problem("alert ip any any -> any any (sid:1)"),
        at(35, "expected `;` after the option")
    );
    assert_eq!(
        problem("alert ip any any -> any any (;sid:1;)"),
        at(30, "expected the name of an option")
    );
    assert_eq!(
        problem("alert ip any any -> any any (msg:\"x\";)"),
        at(39, "expected a sid: `sid:NUMBER;`")
    );
    assert_eq!(
        problem("alert ip any any -> any any (sid:x;)"),
        at(30, "expected a sid of 1 to 4294967295")
    );
    assert_eq!(
        problem("alert ip any any -> any 80:70 (sid:1;)"),
        at(25, "expected a range of ports with the smaller first")
    );
    assert_eq!(
        problem("alert ip any any -> any any (sid:1; sid:2;)"),
        at(37, "expected one sid; leave the others out")
    );
    assert_eq!(
        problem("alert tcp any any -> any (sid:1;)"),
        at(26, "expected a port up to 65535, or a range such as 80:90")
    );
    let long = format!("alert ip any any -> any any (msg:\"{}\"; sid:1;)", "x".repeat(LINE_MAX));
    assert_eq!(problem(&long), at(8193, "a rule has at most 8192 bytes in Suricata; shorten it"));
}

#[test]
fn nothing_is_read_of_a_file_with_an_error() {
    let good = |sid: u32| format!("alert ip any any -> any any (sid:{sid};)\n");
    let text = good(1) + &good(1) + "alert\n" + &good(2);
    let errors = read(&text, &variables()).unwrap_err();
    assert_eq!(errors.iter().map(RuleError::line).collect::<Vec<_>>(), [2, 3]);
    let first = errors[0].to_string();
    assert!(
        first.starts_with("line 2, column 30: the rule of line 1 has the same sid and gid"),
        "{first}"
    );
    assert_eq!(read(&"alert\n".repeat(100), &variables()).unwrap_err().len(), 20);
}
