// SPDX-License-Identifier: MIT OR Apache-2.0
/* Says what linux/ethtool.h and linux/net_tstamp.h make of some commands: a name and bytes a line. */
#include <arpa/inet.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <linux/ethtool.h>
#include <linux/net_tstamp.h>
#include <linux/sockios.h>

static void show(const char *name, const void *bytes, size_t len)
{
	printf("%s ", name);
	for (size_t i = 0; i < len; i++)
		printf("%02x", ((const unsigned char *)bytes)[i]);
	printf("\n");
}

#define LEN(name, value) printf("%s %zu\n", name, (size_t)(value))
#define COMMAND(name, number) printf("%s %u\n", name, (unsigned)(number))

static void flow(const char *name, struct ethtool_rx_flow_spec spec)
{
	struct ethtool_rxnfc rule;

	memset(&rule, 0, sizeof(rule));
	rule.cmd = ETHTOOL_SRXCLSRLINS;
	memcpy(&rule.fs, &spec, sizeof(spec));
	show(name, &rule, sizeof(rule));
}

static void flows(void)
{
	struct ethtool_rx_flow_spec spec;
	struct ethtool_tcpip6_spec *six = &spec.h_u.tcp_ip6_spec;
	struct ethtool_tcpip4_spec *four = &spec.h_u.tcp_ip4_spec;

	memset(&spec, 0, sizeof(spec));
	spec.flow_type = TCP_V4_FLOW | FLOW_EXT | FLOW_MAC_EXT;
	four->ip4src = htonl(0x0a000001);
	four->ip4dst = htonl(0x0a000002);
	four->psrc = htons(1024);
	four->pdst = htons(80);
	four->tos = 0x10;
	spec.m_u.tcp_ip4_spec.ip4src = htonl(0xffffff00);
	spec.m_u.tcp_ip4_spec.ip4dst = 0xffffffff;
	spec.m_u.tcp_ip4_spec.psrc = 0xffff;
	spec.m_u.tcp_ip4_spec.pdst = htons(0xfff0);
	spec.m_u.tcp_ip4_spec.tos = 0xfc;
	memcpy(spec.h_ext.h_dest, "\x02\0\0\0\0\x07", 6);
	memset(spec.m_ext.h_dest, 0xff, 6);
	spec.h_ext.vlan_tci = htons(0x0123);
	spec.m_ext.vlan_tci = htons(0x0fff);
	spec.ring_cookie = 3;
	spec.location = 7;
	flow("tcp4", spec);

	memset(&spec, 0, sizeof(spec));
	spec.flow_type = UDP_V6_FLOW;
	memcpy(six->ip6src, "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1", 16);
	memcpy(six->ip6dst, "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\2", 16);
	six->psrc = htons(53);
	six->pdst = htons(5353);
	six->tclass = 0x20;
	memset(&spec.m_u.tcp_ip6_spec, 0xff, 37);
	spec.ring_cookie = RX_CLS_FLOW_DISC;
	spec.location = RX_CLS_LOC_ANY;
	flow("udp6", spec);

	memset(&spec, 0, sizeof(spec));
	spec.flow_type = SCTP_V4_FLOW;
	spec.h_u.sctp_ip4_spec.pdst = htons(38412);
	spec.m_u.sctp_ip4_spec.pdst = 0xffff;
	spec.ring_cookie = 1;
	flow("sctp4", spec);

	memset(&spec, 0, sizeof(spec));
	spec.flow_type = IPV4_USER_FLOW;
	spec.h_u.usr_ip4_spec.ip4dst = htonl(0xc0000201);
	spec.m_u.usr_ip4_spec.ip4dst = 0xffffffff;
	spec.h_u.usr_ip4_spec.tos = 4;
	spec.m_u.usr_ip4_spec.tos = 0xff;
	spec.h_u.usr_ip4_spec.ip_ver = ETH_RX_NFC_IP4;
	spec.h_u.usr_ip4_spec.proto = 47;
	spec.m_u.usr_ip4_spec.proto = 0xff;
	flow("ip4", spec);

	memset(&spec, 0, sizeof(spec));
	spec.flow_type = IPV6_USER_FLOW;
	memcpy(spec.h_u.usr_ip6_spec.ip6src, "\xfe\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 16);
	memset(spec.m_u.usr_ip6_spec.ip6src, 0xff, 16);
	spec.h_u.usr_ip6_spec.tclass = 8;
	spec.m_u.usr_ip6_spec.tclass = 0xff;
	spec.h_u.usr_ip6_spec.l4_proto = 58;
	spec.m_u.usr_ip6_spec.l4_proto = 0xff;
	flow("ip6", spec);

	memset(&spec, 0, sizeof(spec));
	spec.flow_type = ETHER_FLOW;
	memcpy(spec.h_u.ether_spec.h_dest, "\x02\0\0\0\0\1", 6);
	memset(spec.m_u.ether_spec.h_dest, 0xff, 6);
	memcpy(spec.h_u.ether_spec.h_source, "\x02\0\0\0\0\2", 6);
	memset(spec.m_u.ether_spec.h_source, 0xff, 6);
	spec.h_u.ether_spec.h_proto = htons(0x88f7);
	spec.m_u.ether_spec.h_proto = 0xffff;
	flow("ether", spec);
}

static void commands(void)
{
	union {
		struct ethtool_rxfh set;
		unsigned char bytes[24 + 8 + 40];
	} rss;
	struct ethtool_channels channels;
	struct ethtool_rxnfc fields;

	memset(&rss, 0, sizeof(rss));
	rss.set.cmd = ETHTOOL_SRSSH;
	rss.set.indir_size = 2;
	rss.set.key_size = 40;
	rss.set.hfunc = 1;
	rss.bytes[17] = 1; /* input_xfrm of newer headers */
	rss.set.rss_config[0] = 1;
	rss.set.rss_config[1] = 0x01020304;
	for (int i = 0; i < 40; i++)
		rss.bytes[32 + i] = i;
	show("rss", &rss, sizeof(rss));

	memset(&channels, 0, sizeof(channels));
	channels.cmd = ETHTOOL_SCHANNELS;
	channels.rx_count = 1;
	channels.tx_count = 2;
	channels.other_count = 3;
	channels.combined_count = 4;
	show("channels", &channels, sizeof(channels));

	memset(&fields, 0, sizeof(fields));
	fields.cmd = ETHTOOL_SRXFH;
	fields.flow_type = UDP_V4_FLOW;
	fields.data = RXH_IP_SRC | RXH_IP_DST | RXH_L4_B_0_1 | RXH_L4_B_2_3;
	show("fields", &fields, 16);
}

/* What drivers fill in, for the readers. */
static void answers(void)
{
	struct ethtool_drvinfo driver;
	struct ethtool_ringparam rings;
	struct ethtool_channels channels;

	memset(&driver, 0, sizeof(driver));
	strcpy(driver.driver, "mlx5_core");
	strcpy(driver.version, "6.18");
	strcpy(driver.fw_version, "16.35.2000 (MT_0000000008)");
	strcpy(driver.bus_info, "0000:01:00.0");
	strcpy(driver.erom_version, "none");
	show("driver", &driver, sizeof(driver));

	memset(&rings, 0, sizeof(rings));
	rings.rx_max_pending = 8192;
	rings.tx_max_pending = 4096;
	rings.rx_pending = 1024;
	rings.tx_pending = 512;
	show("rings", &rings, sizeof(rings));

	memset(&channels, 0, sizeof(channels));
	channels.max_rx = 1;
	channels.max_tx = 2;
	channels.max_other = 3;
	channels.max_combined = 64;
	channels.rx_count = 5;
	channels.tx_count = 6;
	channels.other_count = 7;
	channels.combined_count = 8;
	show("told", &channels, sizeof(channels));
}

static void stamps(void)
{
	struct ethtool_ts_info info;
	struct hwtstamp_config config;

	memset(&info, 0, sizeof(info));
	info.so_timestamping = SOF_TIMESTAMPING_TX_HARDWARE | SOF_TIMESTAMPING_RX_HARDWARE |
			       SOF_TIMESTAMPING_RAW_HARDWARE;
	info.phc_index = 3;
	info.tx_types = 1 << HWTSTAMP_TX_OFF | 1 << HWTSTAMP_TX_ON;
	info.rx_filters = 1 << HWTSTAMP_FILTER_NONE | 1 << HWTSTAMP_FILTER_PTP_V2_EVENT;
	show("stamps-ptp", &info, sizeof(info));
	info.rx_filters |= 1 << HWTSTAMP_FILTER_ALL;
	show("stamps-all", &info, sizeof(info));
	info.so_timestamping = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_RX_SOFTWARE |
			       SOF_TIMESTAMPING_SOFTWARE;
	show("stamps-kernel", &info, sizeof(info));

	memset(&config, 0, sizeof(config));
	config.tx_type = HWTSTAMP_TX_ON;
	config.rx_filter = HWTSTAMP_FILTER_ALL;
	show("stamp-all", &config, sizeof(config));
	config.rx_filter = HWTSTAMP_FILTER_PTP_V2_EVENT;
	show("stamp-ptp", &config, sizeof(config));
}

int main(void)
{
	LEN("drvinfo", sizeof(struct ethtool_drvinfo));
	LEN("ringparam", sizeof(struct ethtool_ringparam));
	LEN("pauseparam", sizeof(struct ethtool_pauseparam));
	LEN("channels-len", sizeof(struct ethtool_channels));
	LEN("gstrings", sizeof(struct ethtool_gstrings));
	LEN("stats", sizeof(struct ethtool_stats));
	LEN("sset_info", sizeof(struct ethtool_sset_info));
	LEN("rxfh", sizeof(struct ethtool_rxfh));
	LEN("rxnfc", sizeof(struct ethtool_rxnfc));
	LEN("flow", sizeof(struct ethtool_rx_flow_spec));
	LEN("flow-at", offsetof(struct ethtool_rxnfc, fs));
	LEN("count-at", offsetof(struct ethtool_rxnfc, rule_cnt));
	LEN("locations-at", offsetof(struct ethtool_rxnfc, rule_locs));
	LEN("name", ETH_GSTRING_LEN);
	COMMAND("GDRVINFO", ETHTOOL_GDRVINFO);
	COMMAND("GRINGPARAM", ETHTOOL_GRINGPARAM);
	COMMAND("GPAUSEPARAM", ETHTOOL_GPAUSEPARAM);
	COMMAND("GSTRINGS", ETHTOOL_GSTRINGS);
	COMMAND("GSTATS", ETHTOOL_GSTATS);
	COMMAND("GSSET_INFO", ETHTOOL_GSSET_INFO);
	COMMAND("GFLAGS", ETHTOOL_GFLAGS);
	COMMAND("SFLAGS", ETHTOOL_SFLAGS);
	COMMAND("NTUPLE", ETH_FLAG_NTUPLE);
	LEN("value", sizeof(struct ethtool_value));
	COMMAND("GCHANNELS", ETHTOOL_GCHANNELS);
	COMMAND("GRXFH", ETHTOOL_GRXFH);
	COMMAND("GRSSH", ETHTOOL_GRSSH);
	COMMAND("GRXCLSRLCNT", ETHTOOL_GRXCLSRLCNT);
	COMMAND("GRXCLSRLALL", ETHTOOL_GRXCLSRLALL);
	COMMAND("SRXCLSRLDEL", ETHTOOL_SRXCLSRLDEL);
	LEN("ts-info", sizeof(struct ethtool_ts_info));
	LEN("stamp-setting", sizeof(struct hwtstamp_config));
	COMMAND("GET_TS_INFO", ETHTOOL_GET_TS_INFO);
	COMMAND("SHWTSTAMP", SIOCSHWTSTAMP);
	COMMAND("GHWTSTAMP", SIOCGHWTSTAMP);
	commands();
	answers();
	stamps();
	flows();
	return 0;
}
