//! What testpmd of DPDK 26.11 knows and this NIC does not support, so that the error can name it.

/// A word of testpmd, and why it is refused.
type RefusedWord = (&'static str, &'static str);

const TEMPLATES: &str = "a program that embeds the card has templates and operation queues \
                         (`Nic::template_table`, `Nic::operation_queue`); a text has rules alone";
const SHARED: &str = "each rule of a text has actions of its own";
const TUNNELS: &str = "the card does not restore the headers of tunnels for a program";

/// Commands of `flow`.
pub(super) const COMMANDS: &[RefusedWord] = &[
    ("actions_template", TEMPLATES),
    ("configure", TEMPLATES),
    ("dump", "`flow list` shows the rules"),
    ("flex_item", "`raw` matches bytes at any place"),
    ("group", "`flow isolate` says what packets that no rule matches do"),
    ("hash", TEMPLATES),
    ("indirect_action", SHARED),
    ("info", TEMPLATES),
    ("pattern_template", TEMPLATES),
    ("pull", TEMPLATES),
    ("push", TEMPLATES),
    ("queue", TEMPLATES),
    ("template_table", TEMPLATES),
    ("tunnel", TUNNELS),
];

/// Kinds of headers that `set` saves.
pub(super) const SETS: &[RefusedWord] = &[
    ("conntrack", CONNECTIONS),
    ("ipv6_ext_push", EXTENSIONS),
    ("ipv6_ext_remove", EXTENSIONS),
    ("l2_decap", NO_ETHERNET),
    ("l2_decap-with-vlan", NO_ETHERNET),
    ("l2_encap", NO_ETHERNET),
    ("l2_encap-with-vlan", NO_ETHERNET),
    ("mplsogre_decap", LABELS),
    ("mplsogre_decap-with-vlan", LABELS),
    ("mplsogre_encap", LABELS),
    ("mplsogre_encap-with-vlan", LABELS),
    ("mplsoudp_decap", LABELS),
    ("mplsoudp_decap-with-vlan", LABELS),
    ("mplsoudp_encap", LABELS),
    ("mplsoudp_encap-with-vlan", LABELS),
    ("sample_actions", SAMPLE),
];

/// Attributes of a rule.
pub(super) const ATTRIBUTES: &[RefusedWord] = &[
    ("egress", "the card has rules for packets that it receives, and none for those that it sends"),
    ("transfer", "the card has no embedded switch; `represented_port` sends by another port"),
    ("tunnel_match", TUNNELS),
    ("tunnel_set", TUNNELS),
    ("user_id", "a new rule has the number that `create` prints"),
];

const NEIGHBOURS: &str = "match bytes with `icmp6 / raw relative is 1`";
const BYTES: &str = "no key has its fields; match bytes with `raw`";
const METADATA: &str = "rules match `meta` and `tag`";
const NO_SWITCH: &str = "the card has no embedded switch";

/// Items of a pattern.
pub(super) const ITEMS: &[RefusedWord] = &[
    ("aggr_affinity", NO_SWITCH),
    ("any", "name the header"),
    ("compare", "the card compares fields with values, and not with each other"),
    ("conntrack", CONNECTIONS),
    ("e_tag", BYTES),
    ("ecpri", BYTES),
    ("flex", BYTES),
    ("fuzzy", "the card compares exactly"),
    ("geneve-opt", BYTES),
    ("gre_option", "name `gre` and `gre_key`"),
    ("higig2", BYTES),
    ("ib_bth", BYTES),
    ("icmp6_echo_reply", NEIGHBOURS),
    ("icmp6_echo_request", NEIGHBOURS),
    ("icmp6_nd_na", NEIGHBOURS),
    ("icmp6_nd_ns", NEIGHBOURS),
    ("icmp6_nd_opt", NEIGHBOURS),
    ("icmp6_nd_opt_sla_eth", NEIGHBOURS),
    ("icmp6_nd_opt_tla_eth", NEIGHBOURS),
    ("integrity", "the card checks no checksums before it matches"),
    ("invert", "a pattern says what a packet has; put a rule of better priority before it"),
    ("ipv6_ext", "`ipv6 proto` is the protocol after the extension headers"),
    ("ipv6_routing_ext", BYTES),
    ("l2tpv2", BYTES),
    ("l2tpv3oip", BYTES),
    ("mark", METADATA),
    ("meter", METADATA),
    ("nsh", BYTES),
    ("pfcp", BYTES),
    ("port_id", NO_SWITCH),
    ("port_representor", NO_SWITCH),
    ("ppp", BYTES),
    ("pppoe_proto_id", "`pppoes / ipv4` and `pppoes / ipv6` say it"),
    ("ptype", "name the headers"),
    ("quota", METADATA),
    ("random", "the card draws no numbers"),
    ("represented_port", NO_SWITCH),
    ("tx_queue", "the card has rules for packets that it receives"),
];

const CONNECTIONS: &str = "the card keeps no state of connections";
const LABELS: &str = "the card adds and removes no labels; `raw_encap` and `raw_decap` do";
const NO_ETHERNET: &str = "every packet of the card has Ethernet";
const EXTENSIONS: &str = "the card changes no extension headers";
const COLOURS: &str = "a packet has no colour after its meter; `meter` drops what exceeds it";
const QUOTAS: &str = "the card has no quotas; `meter` limits a rate";
const NUMBERS: &str = "the card sets no numbers of TCP";
const SAMPLE: &str = "the card makes no copies of packets";
const FUNCTIONS: &str = "the card has no physical and virtual functions; `represented_port` sends \
                         by another port";

/// Actions.
pub(super) const ACTIONS: &[RefusedWord] = &[
    ("age_update", "`flow update` replaces the actions of a rule"),
    ("color", COLOURS),
    ("conntrack", CONNECTIONS),
    ("conntrack_update", CONNECTIONS),
    ("dec_tcp_ack", NUMBERS),
    ("dec_tcp_seq", NUMBERS),
    ("inc_tcp_ack", NUMBERS),
    ("inc_tcp_seq", NUMBERS),
    ("indirect", SHARED),
    ("indirect_list", SHARED),
    ("ipv6_ext_push", EXTENSIONS),
    ("ipv6_ext_remove", EXTENSIONS),
    ("jump_to_table_index", TEMPLATES),
    ("l2_decap", NO_ETHERNET),
    ("l2_encap", NO_ETHERNET),
    ("meter_mark", COLOURS),
    ("meter_mark_conf", COLOURS),
    ("modify_field", "write the action of the field, such as `set_ttl` or `set_ipv4_src`"),
    ("mplsogre_decap", LABELS),
    ("mplsogre_encap", LABELS),
    ("mplsoudp_decap", LABELS),
    ("mplsoudp_encap", LABELS),
    ("nat64", "the card does not translate between IPv4 and IPv6"),
    ("of_pop_mpls", LABELS),
    ("of_push_mpls", LABELS),
    ("passthru", "one rule of a group acts on a packet; `jump` goes on in a greater group"),
    ("pf", FUNCTIONS),
    (
        "port_representor",
        "the card has no embedded switch; `rss` delivers to the queues of this port",
    ),
    ("quota_create", QUOTAS),
    ("quota_update", QUOTAS),
    ("sample", SAMPLE),
    (
        "send_to_kernel",
        "no driver of the kernel shares the card; `represented_port` sends by a port",
    ),
    ("shared_indirect", SHARED),
    ("skip_cman", "the card has no congestion management"),
    ("vf", FUNCTIONS),
];

/// The error's text for a word of a list.
pub(super) fn refusal(list: &[RefusedWord], word: &str) -> Option<String> {
    let found = list.iter().find(|(name, _)| *name == word);
    found.map(|(name, reason)| format!("{name}: {reason}"))
}

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
