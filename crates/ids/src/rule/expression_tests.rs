//! Addresses and ports mean what Suricata means by them.

use super::*;

fn variables() -> Variables {
    let mut variables = Variables::default();
    variables.define_addresses("HOME_NET", "[192.168.0.0/16,10.0.0.0/8]");
    variables.define_addresses("EXTERNAL_NET", "!$HOME_NET");
    variables.define_addresses("LOOP", "[$LOOP]");
    variables.define_addresses("WRONG", "[10.0.0.0/8,house]");
    variables.define_ports("HTTP_PORTS", "[80,8000:8100]");
    variables
}

fn addresses(text: &str) -> AddressSet {
    evaluate(text, &variables()).unwrap().0
}

fn ports(text: &str) -> Vec<(u128, u128)> {
    evaluate::<RangeSet>(text, &variables()).unwrap().0.ranges().to_vec()
}

#[test]
fn ports_are_numbers_ranges_lists_and_variables() {
    assert_eq!(ports("80"), [(80, 80)]);
    assert_eq!(ports("1024:"), [(1024, 65535)]);
    assert_eq!(ports(":1023"), [(0, 1023)]);
    assert_eq!(ports("any"), [(0, 65535)]);
    assert_eq!(ports("!80"), [(0, 79), (81, 65535)]);
    assert_eq!(ports("[80, 81,8080:8090,!8085]"), [(80, 81), (8080, 8084), (8086, 8090)]);
    assert_eq!(ports("[$HTTP_PORTS,443]"), [(80, 80), (443, 443), (8000, 8100)]);
    assert_eq!(ports("![1:65535,!80]"), [(0, 0), (80, 80)]);
}

#[test]
fn addresses_are_prefixes_ranges_lists_and_variables() {
    let set = addresses("[10.0.0.0/255.255.0.0,!10.0.1.0/24]");
    assert!(set.contains("10.0.2.1".parse().unwrap()));
    assert!(!set.contains("10.0.1.1".parse().unwrap()) && set.v6.is_empty());
    assert_eq!(addresses("10.0.0.1 - 10.0.0.3").v4.count(), 3);
    assert!(addresses("2001:db8::/32").contains("2001:db8::1".parse().unwrap()));
    // A version with negated parts alone has all its other addresses.
    let mixed = addresses("[10.0.0.0/8,!2001:db8::/32]");
    assert!(mixed.contains("2001:db9::1".parse().unwrap()) && mixed.v4.count() == 1 << 24);
    assert!(!mixed.contains("2001:db8::1".parse().unwrap()));
    // Everything but IPv4 addresses of one's own has no IPv6.
    let outside = addresses("$EXTERNAL_NET");
    assert!(outside.contains("1.1.1.1".parse().unwrap()) && outside.v6.is_empty());
    assert_eq!(outside, addresses("[!192.168.0.0/16,!10.0.0.0/8]"));
    assert!(!outside.contains("10.1.1.1".parse().unwrap()));
}

#[test]
fn errors_name_the_place_and_the_remedy() {
    let refused = |text: &str, place: Range<usize>, message: &str| {
        let error = evaluate::<AddressSet>(text, &variables()).unwrap_err();
        assert_eq!((error.place, error.problem.to_string().as_str()), (place, message), "{text}");
    };
    let expected = "expected an address, such as 10.0.0.1, 10.0.0.0/8 or $HOME_NET";
    refused("[10.0.0.1,house]", 10..15, expected);
    refused("", 0..0, expected);
    refused("[10.0.0.1 10.0.0.2]", 1..18, expected);
    refused("[10.0.0.1", 9..9, "expected `,` or `]`");
    refused("10.0.0.1]", 8..9, "expected the end of the list");
    refused("10.0.0.0/33", 0..11, "expected a prefix of at most 32 bits, or 128 for IPv6");
    refused("$DMZ", 0..4, "the variable DMZ is not defined; define it in `vars` of suricata.yaml");
    refused("$WRONG", 0..6, &format!("the value of WRONG is wrong: {expected}"));
    let depth =
        "more than 32 lists or variables within each other; does a variable contain itself?";
    refused("$LOOP", 0..5, depth);
    refused(&"[".repeat(40), 32..40, depth);
    refused("!any", 0..4, "this has no addresses, so the rule can never match");
    let empty = evaluate::<RangeSet>("", &variables()).unwrap_err();
    assert_eq!(empty.problem.to_string(), "expected a port up to 65535, or a range such as 80:90");
    let ports = evaluate::<RangeSet>("90:80", &variables()).unwrap_err();
    assert_eq!(ports.problem.to_string(), "expected a range of ports with the smaller first");
}
