//! Tests of flow sets: distinct, stable, of the shape that was asked for.

use std::collections::HashSet;

use expect_test::expect;
use proptest::prelude::*;

use super::*;

fn spec(text: &str) -> FlowSpec {
    toml::from_str(text).unwrap()
}

fn set(text: &str) -> FlowSet {
    FlowSet::new(&spec(text)).unwrap()
}

/// A hash set of a packed form: a million tuples of 24 bytes.
fn distinct(set: &FlowSet) -> usize {
    set.tuples().collect::<HashSet<_>>().len()
}

#[test]
fn a_million_tuples_are_distinct() {
    for version in ["v4", "v6"] {
        let set = set(&format!("count = 1000000\nversion = \"{version}\"\nseed = 3"));
        assert_eq!(distinct(&set), 1_000_000);
    }
}

#[test]
fn a_full_space_is_used_up() {
    let set = set("count = 1048576\nsrc = \"10.0.0.0/24\"\ndst = \"10.1.0.0-10.1.0.63\"\n\
         sport = \"1000-1063\"\ndport = 80");
    assert_eq!(distinct(&set), 1 << 20);
}

#[test]
fn tuples_stay_when_the_count_grows() {
    let (few, many) = (set("count = 100\nseed = 9"), set("count = 16777216\nseed = 9"));
    assert!(few.tuples().eq(many.tuples().take(100)));
    let other = set("count = 100\nseed = 10");
    assert!(few.tuples().zip(other.tuples()).all(|(a, b)| a != b));
}

#[test]
fn tuples_are_the_same_for_ever() {
    let show = |text| {
        set(text)
            .tuples()
            .map(|t| format!("{:?} {}:{} > {}:{}\n", t.proto, t.src, t.sport, t.dst, t.dport))
            .collect::<String>()
    };
    expect![[r#"
        Udp 10.42.75.42:2718 > 198.19.19.1:27956
        Udp 10.43.249.179:14244 > 198.19.156.70:22867
        Udp 10.133.54.118:45319 > 198.18.2.210:58574
        Udp 10.27.108.196:30903 > 198.19.41.149:34589
    "#]]
    .assert_eq(&show("count = 4"));
    expect![[r#"
        Tcp fdec:b20e:8c7b:9d3f:734e:fcc4:8e1d:5092:45097 > 2001:2:0:ea3f:e81c:99f2:c91d:2ffd:25605
        Tcp fd20:d739:72eb:557c:856d:aa7a:d516:bb7c:18198 > 2001:2:0:ce9e:5a42:2f27:9c9f:5ff1:50944
        Tcp fd9b:fce8:ba14:21c3:f02:2ea6:5491:73de:29367 > 2001:2:0:8542:fc75:b533:45e2:1941:63317
        Tcp fd26:becb:5724:ff24:d167:59a5:1ccc:f0fb:38540 > 2001:2:0:4590:e21c:a2e1:74f4:10be:7407
    "#]]
    .assert_eq(&show("count = 4\nversion = \"v6\"\nproto = \"tcp\"\nseed = 1"));
}

#[test]
fn every_byte_of_the_tuples_varies() {
    let set = set("count = 10000\nversion = \"v6\"");
    let mut bits = [0u128; 2];
    let first = set.tuple(0);
    for tuple in set.tuples() {
        let pairs = [(tuple.src, first.src), (tuple.dst, first.dst)];
        for (seen, (a, b)) in bits.iter_mut().zip(pairs) {
            let (IpAddr::V6(a), IpAddr::V6(b)) = (a, b) else { panic!("not IPv6") };
            *seen |= a.to_bits() ^ b.to_bits();
        }
    }
    assert_eq!(bits[0], u128::MAX >> 8);
    assert_eq!(bits[1], u128::MAX >> 48);
}

#[test]
fn errors_name_the_field_and_the_remedy() {
    let check = |text: &str, expected: &str| {
        assert_eq!(FlowSet::new(&spec(text)).unwrap_err().to_string(), expected);
    };
    check("count = 0", "count = 0: must be 1 to 16777216");
    check("count = 16777217", "count = 16777217: must be 1 to 16777216");
    check(
        "count = 5\nsrc = \"10.0.0.1\"\ndst = \"10.0.0.2\"\nsport = \"1-2\"\ndport = \"1-2\"",
        "count = 5: src, dst, sport and dport together hold only 4 tuples; \
         widen one of them or ask for fewer flows",
    );
    check("src = \"fd00::/8\"", "src = \"fd00::/8\": not IPv4; change it or `version`");
    check(
        "version = \"v6\"\ndst = \"10.0.0.1\"",
        "dst = \"10.0.0.1\": not IPv6; change it or `version`",
    );
    for (exponent, shown) in [("0.0", "0"), ("nan", "NaN"), ("10.5", "10.5")] {
        check(
            &format!("popularity = {{ zipf = {{ exponent = {exponent} }} }}"),
            &format!(
                "popularity.zipf.exponent = {shown}: must be above 0 and at most 10; \
                 for 0 write popularity = \"uniform\""
            ),
        );
    }
}

#[test]
fn unknown_and_wrong_fields_are_refused() {
    for text in [
        "counts = 1",
        "proto = \"sctp\"",
        "src = \"10.0.0.1/8\"",
        "popularity = { zipf = { exponent = 1.0, skew = 2 } }",
    ] {
        assert!(toml::from_str::<FlowSpec>(text).is_err(), "{text}");
    }
}

#[test]
fn specification_round_trips() {
    let all = spec(
        "count = 7\nversion = \"v6\"\nproto = \"tcp\"\nsrc = \"fd00::/16\"\ndst = \"fd01::1\"\n\
         sport = 5\ndport = \"6-7\"\npopularity = { zipf = { exponent = 0.9 } }\nseed = 8",
    );
    assert_eq!(spec(&toml::to_string(&all).unwrap()), all);
    assert_eq!(spec(""), FlowSpec::default());
}

#[test]
fn uniform_picks_are_uniform() {
    let mut picker = set("count = 1000").picker(4);
    let mut seen = [0u32; 1000];
    for _ in 0..1_000_000 {
        seen[picker.next() as usize] += 1;
    }
    let statistic: f64 = seen.iter().map(|n| (f64::from(*n) - 1000.0).powi(2) / 1000.0).sum();
    assert!((800.0..1200.0).contains(&statistic), "{statistic}"); // 999 ± 45
}

#[test]
fn fill_is_next_repeated() {
    for popularity in ["\"uniform\"", "{ zipf = { exponent = 1.0 } }"] {
        let set = set(&format!("count = 100000\npopularity = {popularity}"));
        let mut flows = [0; 500];
        set.picker(2).fill(&mut flows);
        let mut picker = set.picker(2);
        assert!(flows.iter().all(|flow| *flow == picker.next()));
    }
}

#[test]
fn shares_add_up() {
    for popularity in ["\"uniform\"", "{ zipf = { exponent = 1.3 } }"] {
        let set = set(&format!("count = 100000\npopularity = {popularity}"));
        let total: f64 = (0..100_000).map(|index| set.share(index)).sum();
        assert!((total - 1.0).abs() < 1e-9, "{total}");
    }
}

proptest! {
    #[test]
    fn any_ranges_give_distinct_tuples_within_them(
        src in any::<(u32, u8)>(), dst in any::<(u32, u8)>(),
        sport in any::<(u16, u8)>(), dport in any::<(u16, u8)>(), seed: u64,
    ) {
        let addresses = |(first, more): (u32, u8)| {
            let last = first.saturating_add(more.into());
            AddressRange::new(IpAddr::V4(first.into()), IpAddr::V4(last.into())).unwrap()
        };
        let ports = |(first, more): (u16, u8)| {
            PortRange::new(first, first.saturating_add(more.into())).unwrap()
        };
        let (src, dst, sport, dport) = (addresses(src), addresses(dst), ports(sport), ports(dport));
        let space = src.slots() * dst.slots() * sport.count() * dport.count();
        let spec = FlowSpec {
            count: space.min(2000) as u32, src: Some(src), dst: Some(dst), sport, dport, seed,
            ..FlowSpec::default()
        };
        let set = FlowSet::new(&spec).unwrap();
        prop_assert_eq!(distinct(&set), set.count() as usize);
        for t in set.tuples() {
            prop_assert!(src.first() <= t.src && t.src <= src.last());
            prop_assert!(dst.first() <= t.dst && t.dst <= dst.last());
            prop_assert!(sport.first() <= t.sport && t.sport <= sport.last());
            prop_assert!(dport.first() <= t.dport && t.dport <= dport.last());
        }
    }
}
