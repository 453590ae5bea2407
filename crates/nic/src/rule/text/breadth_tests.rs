//! The tables of testpmd's words in `docs/rules.md` against the reader.

use std::collections::BTreeMap;

use super::{ATTRIBUTES, COMMANDS, action, headers, known};
use crate::rule::item::Item;

const PAGE: &str = include_str!("../../../../../docs/rules.md");

/// All items of testpmd 26.11.
const ITEMS: &str = "\
    aggr_affinity ah any arp_eth_ipv4 compare conntrack e_tag ecpri end end_set esp eth flex \
    fuzzy geneve geneve-opt gre gre_key gre_option gtp gtp_psc gtpc gtpu higig2 ib_bth icmp \
    icmp6 icmp6_echo_reply icmp6_echo_request icmp6_nd_na icmp6_nd_ns icmp6_nd_opt \
    icmp6_nd_opt_sla_eth icmp6_nd_opt_tla_eth integrity invert ipv4 ipv6 ipv6_ext \
    ipv6_frag_ext ipv6_routing_ext l2tpv2 l2tpv3oip mark meta meter mpls nsh nvgre pfcp \
    port_id port_representor ppp pppoe_proto_id pppoed pppoes ptype quota random raw \
    represented_port sctp tag tcp tx_queue udp vlan void vxlan vxlan-gpe";

/// All actions of testpmd 26.11.
const ACTIONS: &str = "\
    age age_update color conntrack conntrack_update count dec_tcp_ack dec_tcp_seq dec_ttl drop \
    end flag inc_tcp_ack inc_tcp_seq indirect indirect_list ipv6_ext_push ipv6_ext_remove jump \
    jump_to_table_index l2_decap l2_encap mac_swap mark meter meter_mark meter_mark_conf \
    modify_field mplsogre_decap mplsogre_encap mplsoudp_decap mplsoudp_encap nat64 nvgre_decap \
    nvgre_encap of_dec_nw_ttl of_pop_mpls of_pop_vlan of_push_mpls of_push_vlan \
    of_set_vlan_pcp of_set_vlan_vid passthru pf port_id port_representor queue quota_create \
    quota_update raw_decap raw_encap represented_port rss sample send_to_kernel set_ipv4_dscp \
    set_ipv4_dst set_ipv4_src set_ipv6_dscp set_ipv6_dst set_ipv6_src set_mac_dst set_mac_src \
    set_meta set_tag set_tp_dst set_tp_src set_ttl shared_indirect skip_cman vf void \
    vxlan_decap vxlan_encap";

/// Words that stand where items and actions do, and that `rte_flow` does not have.
const OF_TESTPMD: [&str; 6] = [
    "age_update",
    "conntrack_update",
    "end_set",
    "meter_mark_conf",
    "quota_update",
    "shared_indirect",
];

/// The rows of the table whose first heading is this: word, what niclab does, and the reason.
fn rows(heading: &str) -> BTreeMap<String, (String, String)> {
    let begin = format!("| {heading} | niclab | reason |\n|---|---|---|\n");
    let (_, table) = PAGE.split_once(&begin).unwrap();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, word, what, reason, _] = cells[..] else { panic!("{line}") };
        (word.trim_matches('`').to_owned(), (what.to_owned(), reason.to_owned()))
    };
    table.lines().take_while(|line| line.starts_with('|')).map(row).collect()
}

/// Checks a table against the words that are carried out and those that are refused.
fn check(
    heading: &str,
    carried_out: impl Fn(&str) -> bool,
    refused: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let rows = rows(heading);
    for (word, (what, reason)) in &rows {
        let refusal = refused(word).and_then(|text| Some(text.split_once(": ")?.1.to_owned()));
        let expected = match what.as_str() {
            "carried out" => (true, None),
            _ if word == "end_set" => (false, None),
            "refused" | "not rte_flow's" => (false, Some(reason.clone())),
            other => panic!("{word}: {other}"),
        };
        assert_eq!((carried_out(word), refusal), expected, "{word}");
        let is_foreign = OF_TESTPMD.contains(&word.as_str());
        assert_eq!(what == "not rte_flow's", is_foreign, "{word}");
    }
    rows.into_keys().collect()
}

fn words(text: &str) -> Vec<&str> {
    text.split_ascii_whitespace().collect()
}

#[test]
fn the_page_says_what_is_done_with_every_item_and_action_of_testpmd() {
    let is_item = |word: &str| Item::from_name(word).is_some() || ["end", "void"].contains(&word);
    let listed = check("item", is_item, |word| known::refusal(known::ITEMS, word));
    assert_eq!(listed, words(ITEMS));
    let is_action = |word: &str| action::NAMES.contains(&word);
    let listed = check("action", is_action, |word| known::refusal(known::ACTIONS, word));
    assert_eq!(listed, words(ACTIONS));
}

#[test]
fn the_page_says_what_is_done_with_every_command_and_attribute() {
    let is_attribute = |word: &str| word != "pattern" && ATTRIBUTES.contains(&word);
    let listed =
        check("attribute of a rule", is_attribute, |word| known::refusal(known::ATTRIBUTES, word));
    assert_eq!(listed.len(), ATTRIBUTES.len() - 1 + known::ATTRIBUTES.len());
    let is_command = |line: &str| match line.split_once(' ') {
        Some(("flow", word)) => COMMANDS.contains(&word),
        Some((_, word)) => headers::NAMES.contains(&word),
        None => false,
    };
    let listed = check("command", is_command, |line| match line.split_once(' ')? {
        ("flow", word) => known::refusal(known::COMMANDS, word),
        (_, word) => known::refusal(known::SETS, word),
    });
    let refused = known::COMMANDS.len() + known::SETS.len();
    assert_eq!(listed.len(), COMMANDS.len() + headers::NAMES.len() + refused);
}

#[test]
fn no_word_is_both_carried_out_and_refused() {
    let items = Item::ALL.map(Item::name);
    assert!(known::ITEMS.iter().all(|(name, _)| !items.contains(name)));
    assert!(known::ACTIONS.iter().all(|(name, _)| !action::NAMES.contains(name)));
}
