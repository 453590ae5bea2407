/* The card that a device is modelled on: profile=NAME or profile=FILE. The library has its limits
 * and computes the times; this file waits for them. Operations on rules take as long as on the card,
 * one after the other. The wire and the classifier carry no more frames than the card's. */
#include "driver.h"

#include <errno.h>

#include <rte_cycles.h>
#include <rte_pause.h>

/* A fine cycle is so many of a cycle of the time-stamp counter, as a power of two: the time of a
 * byte is less than a cycle. */
#define FINE 10

/* A frame on the wire is so many bytes longer than its mbuf: FCS, preamble and gap. */
#define WIRE_OVERHEAD (RTE_ETHER_CRC_LEN + 20)

/* The wire goes on while its sender is away, for this time and so many packets at most: a card has
 * descriptors of them. */
#define TX_RING_NS 100000
#define TX_RING_FRAMES 128

/* Frames that a receive queue keeps while nobody polls it, if the profile does not say it. */
#define RX_RING_FRAMES 512

/* The longest time that nobody polls a queue that is polled without a stop. */
#define AWAY_NS 100000

/* A thread forwards packets if it received some within this time. */
#define FORWARDING_MS 5

/* A call that begins within this time after the one before follows it at once: the times of a profile
 * are those of operations in a row, and what the caller does between two calls is part of them. */
#define IN_A_ROW_NS 2000

/* The most of a row that takes no time by itself: operations that are enqueued. */
#define ENQUEUING_NS 20000

/* When this thread received packets last, by the time-stamp counter. */
static __thread uint64_t forwarded;

int nl_card_open(struct nl_device *device, const char *name)
{
	struct nl_card *card = &device->card;
	struct niclab_error why;
	int result = niclab_profile_read(name, &card->profile, &why);

	if (result == 0)
		result = niclab_profile_card(card->profile, &card->numbers, &why);
	if (result != 0) {
		NL_LOG_OF(device, ERR, "profile=%s: %s\n", name, why.message);
		return result;
	}
	rte_spinlock_init(&card->lock);
	card->cycles_per_ns = (double)rte_get_tsc_hz() / 1e9;
	card->classified_until = rte_rdtsc() << FINE;
	return 0;
}

void nl_card_close(struct nl_device *device)
{
	niclab_profile_close(device->card.profile);
	device->card.profile = NULL;
}

void nl_note_forwarding(uint64_t now)
{
	forwarded = now;
}

uint64_t nl_operation_begin(struct nl_device *device)
{
	if (device->card.profile == NULL)
		return 0;
	const uint64_t begin = rte_rdtsc();

	rte_spinlock_lock(&device->card.lock);
	return begin;
}

void nl_operation_end(struct nl_device *device, uint64_t begin)
{
	struct nl_card *card = &device->card;
	struct niclab_spent spent = {0};

	if (card->profile == NULL)
		return;
	niclab_take_spent(device->nic, &spent, NULL);
	const int is_beside = begin - forwarded < FORWARDING_MS * (rte_get_tsc_hz() / 1000);
	const double ns = is_beside ? spent.beside_ns : spent.alone_ns;
	const int is_in_row = begin - card->ended < (uint64_t)(IN_A_ROW_NS * card->cycles_per_ns);
	const uint64_t credit = is_in_row ? (uint64_t)(ENQUEUING_NS * card->cycles_per_ns) : 0;
	const uint64_t from = RTE_MAX(begin - credit, card->busy_until);
	const uint64_t until = ns > 0 ? from + (uint64_t)(ns * card->cycles_per_ns)
				      : card->busy_until;

	card->busy_until = until;
	__atomic_store_n(&card->frame_time,
			 (uint64_t)(spent.frame_ns * card->cycles_per_ns * (1 << FINE)),
			 __ATOMIC_RELAXED);
	card->ended = RTE_MAX(until, rte_rdtsc());
	rte_spinlock_unlock(&card->lock);
	while ((int64_t)(until - rte_rdtsc()) > 0)
		rte_pause();
}

void nl_card_on_link(struct nl_device *device)
{
	const struct nl_card *card = &device->card;
	struct nl_link *link = device->link;

	if (card->profile == NULL || card->numbers.rate_gbps <= 0)
		return;
	link->busy_until[0] = link->busy_until[1] = rte_rdtsc() << FINE;
	link->byte_time = (uint64_t)(8 / card->numbers.rate_gbps * card->cycles_per_ns *
				     (1 << FINE));
}

/* The later of two times. */
static uint64_t later(uint64_t one, uint64_t other)
{
	return (int64_t)(one - other) > 0 ? one : other;
}

uint16_t nl_wire_room(struct nl_link *link, int end, struct rte_mbuf **packets, uint16_t count)
{
	uint64_t *until = &link->busy_until[end];
	const uint64_t now = rte_rdtsc() << FINE;
	const uint64_t ring = (rte_get_tsc_hz() * TX_RING_NS / 1000000000) << FINE;
	const uint64_t frame = (packets[0]->pkt_len + WIRE_OVERHEAD) * link->byte_time;
	const uint64_t away = RTE_MIN(ring, TX_RING_FRAMES * frame);
	uint64_t before = __atomic_load_n(until, __ATOMIC_RELAXED), after;
	uint16_t taken;

	do {
		after = later(before, now - away);
		for (taken = 0; taken < count && (int64_t)(after - now) <= 0; taken++)
			after += (packets[taken]->pkt_len + WIRE_OVERHEAD) * link->byte_time;
	} while (taken > 0 && !__atomic_compare_exchange_n(until, &before, after, 0,
							   __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return taken;
}

/* Frames of a receive queue that wait for the program. */
static uint32_t ring_frames(const struct nl_card *card)
{
	return card->numbers.ring_frames != 0 ? card->numbers.ring_frames : RX_RING_FRAMES;
}

/* The classifier goes on for this time while nobody polls, in fine cycles: until the receive queue is
 * full. A slow one does not have frames ready that came in that time. */
static uint64_t ahead(const struct nl_card *card, uint64_t frame_time)
{
	const uint64_t most = (uint64_t)(AWAY_NS * card->cycles_per_ns) << FINE;

	return RTE_MIN(ring_frames(card) * frame_time, most);
}

uint16_t nl_classifier_room(struct nl_rx_queue *queue, struct rte_ring *wire, uint16_t count)
{
	const struct nl_card *card = &queue->device->card;
	const uint64_t frame_time = __atomic_load_n(&card->frame_time, __ATOMIC_RELAXED);
	const uint64_t now = rte_rdtsc() << FINE;
	const uint32_t room = card->numbers.fifo_frames + ring_frames(card);
	uint64_t until = __atomic_load_n(&card->classified_until, __ATOMIC_RELAXED);

	/* Frames that find the FIFO full are lost. */
	if (card->numbers.fifo_frames != 0)
		while (rte_ring_count(wire) > room) {
			struct rte_mbuf *lost[NICLAB_BURST];
			uint32_t more = RTE_MIN(rte_ring_count(wire) - room, (uint32_t)NICLAB_BURST);

			more = rte_ring_sc_dequeue_burst(wire, (void **)lost, more, NULL);
			rte_pktmbuf_free_bulk(lost, more);
			queue->counted.losses.queue_full += more;
		}
	/* The last rule that takes time may just have gone. */
	if (frame_time == 0)
		return count;
	until = later(until, now - ahead(card, frame_time));
	if ((int64_t)(until - now) > 0)
		return 0;
	return RTE_MIN((uint64_t)count, (now - until) / frame_time + 1);
}

void nl_classifier_take(struct nl_device *device, uint16_t count)
{
	struct nl_card *card = &device->card;
	const uint64_t frame_time = __atomic_load_n(&card->frame_time, __ATOMIC_RELAXED);
	const uint64_t now = rte_rdtsc() << FINE;
	uint64_t before = __atomic_load_n(&card->classified_until, __ATOMIC_RELAXED), after;

	do {
		after = later(before, now - ahead(card, frame_time)) + count * frame_time;
	} while (!__atomic_compare_exchange_n(&card->classified_until, &before, after, 0,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}
