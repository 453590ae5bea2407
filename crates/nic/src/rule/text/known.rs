//! What testpmd of DPDK 22.11 knows and this NIC does not support, so that the error can name it.

/// Commands of `flow`.
pub(super) const COMMANDS: &[&str] = &[
    "actions_template",
    "configure",
    "dump",
    "flex_item",
    "indirect_action",
    "info",
    "pattern_template",
    "pull",
    "push",
    "queue",
    "template_table",
    "tunnel",
];

/// Attributes of a rule.
pub(super) const ATTRIBUTES: &[&str] = &["egress", "transfer", "tunnel_match", "tunnel_set"];

/// Items of a pattern.
pub(super) const ITEMS: &[&str] = &[
    "ah",
    "any",
    "arp_eth_ipv4",
    "conntrack",
    "e_tag",
    "ecpri",
    "esp",
    "flex",
    "fuzzy",
    "geneve-opt",
    "gre_option",
    "gtp",
    "gtp_psc",
    "gtpc",
    "gtpu",
    "higig2",
    "icmp6_nd_na",
    "icmp6_nd_ns",
    "icmp6_nd_opt",
    "icmp6_nd_opt_sla_eth",
    "icmp6_nd_opt_tla_eth",
    "integrity",
    "invert",
    "ipv6_ext",
    "ipv6_frag_ext",
    "l2tpv2",
    "l2tpv3oip",
    "mark",
    "meter",
    "nvgre",
    "pfcp",
    "port_id",
    "port_representor",
    "ppp",
    "pppoe_proto_id",
    "pppoed",
    "pppoes",
    "represented_port",
    "sctp",
    "vxlan-gpe",
];

/// Actions.
pub(super) const ACTIONS: &[&str] = &[
    "age_update",
    "color",
    "conntrack",
    "conntrack_update",
    "dec_tcp_ack",
    "dec_tcp_seq",
    "inc_tcp_ack",
    "inc_tcp_seq",
    "indirect",
    "l2_decap",
    "l2_encap",
    "mac_swap",
    "meter_mark",
    "modify_field",
    "mplsogre_decap",
    "mplsogre_encap",
    "mplsoudp_decap",
    "mplsoudp_encap",
    "of_dec_nw_ttl",
    "of_pop_mpls",
    "of_push_mpls",
    "passthru",
    "pf",
    "port_representor",
    "sample",
    "send_to_kernel",
    "set_meta",
    "set_tag",
    "vf",
];

/// Hash types of the action `rss`.
pub(super) const HASH_TYPES: &[&str] = &[
    "ah",
    "all",
    "c-vlan",
    "ecpri",
    "esp",
    "eth",
    "geneve",
    "gtpu",
    "ipv4-chksum",
    "ipv6-ex",
    "ipv6-tcp-ex",
    "ipv6-udp-ex",
    "l2-dst-only",
    "l2-payload",
    "l2-src-only",
    "l2tpv2",
    "l2tpv3",
    "l3-pre32",
    "l3-pre40",
    "l3-pre48",
    "l3-pre56",
    "l3-pre64",
    "l3-pre96",
    "l4-chksum",
    "mpls",
    "nvgre",
    "pfcp",
    "port",
    "pppoe",
    "s-vlan",
    "tunnel",
    "vlan",
    "vxlan",
];

/// Whether a line is one of testpmd's commands that create, change, show or delete a meter, its
/// profile or its policy: one word, then `port meter`.
pub(super) fn is_meter_command(text: &str) -> bool {
    let mut words = text.split_ascii_whitespace();
    let verbs = ["add", "clear", "create", "del", "disable", "enable", "set", "show"];
    words.next().is_some_and(|word| verbs.contains(&word))
        && (words.next(), words.next()) == (Some("port"), Some("meter"))
}
