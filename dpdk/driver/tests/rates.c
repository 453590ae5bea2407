/* What a wire carries and what a port receives: port 0 sends as much as it can, and port 1 receives
 * all of it.
 *
 *     rates EAL-OPTIONS -- LEN SECONDS
 *
 * Prints the frames of LEN bytes (with FCS) that were sent, received and missed in a second: the rate
 * that nine of ten windows of 2 ms do not exceed, so that other work on the core does not matter. */
#include "ports.h"

#define BURST 32

static void send_burst(uint16_t len)
{
	static const uint8_t header[] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45};
	struct rte_mbuf *packets[BURST];

	if (rte_pktmbuf_alloc_bulk(pool, packets, BURST) != 0)
		return;
	for (int i = 0; i < BURST; i++)
		memcpy(rte_pktmbuf_append(packets[i], len), header, sizeof(header));
	const uint16_t sent = rte_eth_tx_burst(SENDER, 0, packets, BURST);

	rte_pktmbuf_free_bulk(packets + sent, BURST - sent);
}

static void receive_burst(void)
{
	struct rte_mbuf *packets[BURST];

	for (uint16_t queue = 0; queue < 2; queue++)
		rte_pktmbuf_free_bulk(packets, rte_eth_rx_burst(RECEIVER, queue, packets, BURST));
}

static int compare(const void *one, const void *other)
{
	const double a = *(const double *)one, b = *(const double *)other;

	return (a > b) - (a < b);
}

#define WINDOWS_MAX 100000

int main(int argc, char **argv)
{
	static double rates[3][WINDOWS_MAX];
	static const char *const names[3] = {"sent", "received", "missed"};
	char **given = open_ports(argc, argv);
	const uint16_t len = strtoul(given[1], NULL, 10) - RTE_ETHER_CRC_LEN;
	const uint64_t window = rte_get_tsc_hz() / 500;
	const uint32_t windows = RTE_MIN(strtoul(given[2], NULL, 10) * 500, (unsigned long)WINDOWS_MAX);
	uint64_t before[3] = {0}, begin = rte_rdtsc();

	for (uint32_t i = 0; i < windows; i++) {
		struct rte_eth_stats sender, receiver;
		uint64_t now;

		do {
			send_burst(len);
			receive_burst();
			now = rte_rdtsc();
		} while (now - begin < window);
		rte_eth_stats_get(SENDER, &sender);
		rte_eth_stats_get(RECEIVER, &receiver);
		const uint64_t after[3] = {sender.opackets, receiver.ipackets, receiver.imissed};

		for (int of = 0; of < 3; of++) {
			const double elapsed = (double)(now - begin) / rte_get_tsc_hz();

			rates[of][i] = (after[of] - before[of]) / elapsed;
			before[of] = after[of];
		}
		begin = now;
	}
	for (int of = 0; of < 3; of++) {
		qsort(rates[of], windows, sizeof(rates[of][0]), compare);
		printf("ok %s %.0f\n", names[of], rates[of][windows * 9 / 10]);
	}
	return close_ports();
}
