/* RSS: hash types, key and indirection table. */
#include "driver.h"

#include <errno.h>

/* The hash types of DPDK, and those of libniclab. The `ex` types of IPv6 are the plain ones: the
 * hash passes over extension headers. */
static const struct {
	uint64_t dpdk;
	uint32_t niclab;
} types_table[] = {
	{RTE_ETH_RSS_IPV4, 1 << 0},
	{RTE_ETH_RSS_FRAG_IPV4, 1 << 1},
	{RTE_ETH_RSS_NONFRAG_IPV4_TCP, 1 << 2},
	{RTE_ETH_RSS_NONFRAG_IPV4_UDP, 1 << 3},
	{RTE_ETH_RSS_NONFRAG_IPV4_SCTP, 1 << 4},
	{RTE_ETH_RSS_NONFRAG_IPV4_OTHER, 1 << 5},
	{RTE_ETH_RSS_IPV6, 1 << 8},
	{RTE_ETH_RSS_FRAG_IPV6, 1 << 9},
	{RTE_ETH_RSS_NONFRAG_IPV6_TCP, 1 << 10},
	{RTE_ETH_RSS_NONFRAG_IPV6_UDP, 1 << 11},
	{RTE_ETH_RSS_NONFRAG_IPV6_SCTP, 1 << 12},
	{RTE_ETH_RSS_NONFRAG_IPV6_OTHER, 1 << 13},
	{RTE_ETH_RSS_L3_SRC_ONLY, 1 << 16},
	{RTE_ETH_RSS_L3_DST_ONLY, 1 << 17},
	{RTE_ETH_RSS_L4_SRC_ONLY, 1 << 18},
	{RTE_ETH_RSS_L4_DST_ONLY, 1 << 19},
	{RTE_ETH_RSS_IPV6_EX, 1 << 8},
	{RTE_ETH_RSS_IPV6_TCP_EX, 1 << 10},
	{RTE_ETH_RSS_IPV6_UDP_EX, 1 << 11},
};

uint32_t nl_rss_types(uint64_t types)
{
	uint32_t found = 0;

	for (size_t i = 0; i < RTE_DIM(types_table); i++)
		if (types & types_table[i].dpdk)
			found |= types_table[i].niclab;
	return found;
}

static int failed(int result, const struct niclab_error *why)
{
	if (result != 0)
		NL_LOG(ERR, "RSS: %s\n", why->message);
	return result;
}

/* The hash function that a program asks for, as libniclab has it; ethdev has checked it. */
static uint8_t function_of(const struct rte_eth_rss_conf *conf)
{
#ifdef NL_HAS_RSS_ALGORITHM
	if (conf->algorithm == RTE_ETH_HASH_FUNCTION_TOEPLITZ)
		return 0;
	if (conf->algorithm == RTE_ETH_HASH_FUNCTION_SYMMETRIC_TOEPLITZ)
		return 1;
#else
	RTE_SET_USED(conf);
#endif
	return 255;
}

int nl_rss_apply(struct nl_device *device, const struct rte_eth_rss_conf *conf)
{
	struct niclab_error why;
	struct niclab_rss rss = {
		.types = nl_rss_types(conf->rss_hf),
		.function = function_of(conf),
		.key_len = conf->rss_key != NULL ? conf->rss_key_len : 0,
		.key = conf->rss_key,
	};
	int result = failed(niclab_rss_update(device->nic, &rss, &why), &why);

	if (result == 0)
		device->rss_types = conf->rss_hf;
	return result;
}

int nl_rss_hash_update(struct rte_eth_dev *dev, struct rte_eth_rss_conf *conf)
{
	return nl_rss_apply(nl_device_of(dev), conf);
}

int nl_rss_hash_conf_get(struct rte_eth_dev *dev, struct rte_eth_rss_conf *conf)
{
	struct nl_device *device = nl_device_of(dev);
	uint8_t key[NICLAB_RSS_KEY_LEN_MAX];
	struct niclab_rss rss;
	struct niclab_error why;
	int result = failed(niclab_rss_settings(device->nic, &rss, key, &why), &why);

	if (result != 0)
		return result;
	conf->rss_hf = device->rss_types;
#ifdef NL_HAS_RSS_ALGORITHM
	conf->algorithm = rss.function == 1 ? RTE_ETH_HASH_FUNCTION_SYMMETRIC_TOEPLITZ
					    : RTE_ETH_HASH_FUNCTION_TOEPLITZ;
#endif
	if (conf->rss_key != NULL && conf->rss_key_len >= rss.key_len) {
		memcpy(conf->rss_key, key, rss.key_len);
		conf->rss_key_len = rss.key_len;
	}
	return 0;
}

int nl_reta_update(struct rte_eth_dev *dev, struct rte_eth_rss_reta_entry64 *entries, uint16_t len)
{
	struct nl_device *device = nl_device_of(dev);
	uint16_t queues[NL_RETA_LEN];
	struct niclab_error why;

	if (len != NL_RETA_LEN) {
		NL_LOG(ERR, "an indirection table of %u entries; it has %u\n", len, NL_RETA_LEN);
		return -EINVAL;
	}
	int result = failed(niclab_indirection(device->nic, queues, &why), &why);
	if (result != 0)
		return result;
	for (uint16_t i = 0; i < len; i++)
		if (entries[i / RTE_ETH_RETA_GROUP_SIZE].mask >> (i % RTE_ETH_RETA_GROUP_SIZE) & 1)
			queues[i] = entries[i / RTE_ETH_RETA_GROUP_SIZE]
					    .reta[i % RTE_ETH_RETA_GROUP_SIZE];
	return failed(niclab_indirection_set(device->nic, queues, &why), &why);
}

int nl_reta_query(struct rte_eth_dev *dev, struct rte_eth_rss_reta_entry64 *entries, uint16_t len)
{
	struct nl_device *device = nl_device_of(dev);
	uint16_t queues[NL_RETA_LEN];
	struct niclab_error why;

	if (len != NL_RETA_LEN)
		return -EINVAL;
	int result = failed(niclab_indirection(device->nic, queues, &why), &why);
	if (result != 0)
		return result;
	for (uint16_t i = 0; i < len; i++)
		if (entries[i / RTE_ETH_RETA_GROUP_SIZE].mask >> (i % RTE_ETH_RETA_GROUP_SIZE) & 1)
			entries[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE] =
				queues[i];
	return 0;
}
