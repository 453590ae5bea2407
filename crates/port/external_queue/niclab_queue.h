/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An external queue: your process serves a queue of a niclab card. Needs C11 or C++, Linux, and
 * gcc or clang; reply.c beside this is a whole program.
 *
 * Connect to the card's socket (AF_UNIX, SOCK_SEQPACKET). The first message is a struct
 * niclab_queue_layout, with the file of the memory beside it (SCM_RIGHTS): map memory_len bytes of
 * it, shared, to read and to write, and send a message to say that you have, of one byte or more,
 * within five seconds, or the card lets you go for the sake of the next. It looks at the rings from
 * your message on, and nobody can map the memory to write any more. The first byte of each later
 * message is its kind: NICLAB_QUEUE_WAKE, or NICLAB_QUEUE_END and why the card disconnected you, in
 * words. A closed socket means that the card has ended. Close yours to leave; the card then waits
 * for the next client.
 *
 * In the memory are slots for frames and four rings, as of AF_XDP. An address counts bytes from the
 * first slot. A slot is always somebody's, and yours at first:
 *
 *   fill         you -> card   addresses of empty slots for the card to fill
 *   receive      card -> you   frames; their slots are yours again
 *   transmit     you -> card   frames to be sent, from any place within a slot; options are 0
 *   completion   card -> you   addresses of slots whose frames were sent, which are yours again
 *
 * A frame is from 14 to frame_len_max bytes long, without FCS, and lies in one slot. A received one
 * begins where its address says, not always at the start of the slot. Frames that come while no
 * slot is in the fill ring, or the receive ring is full, are dropped.
 *
 * The card refuses and counts: an address outside of the slots, a slot that the card holds already,
 * a frame of another length (its slot comes back all the same). It disconnects you when an index
 * goes back, or further than there are entries. Only you and the card have this memory, and it has
 * only ever held your frames.
 */
#ifndef NICLAB_QUEUE_H
#define NICLAB_QUEUE_H

#include <stdint.h>

#define NICLAB_QUEUE_MAGIC "NICLABQ" /* and a zero: eight bytes */
#define NICLAB_QUEUE_VERSION 1
#define NICLAB_QUEUE_WAKE 'w'
#define NICLAB_QUEUE_END 'e'

/*
 * Offsets in the memory, bytes: of the two indices (uint32_t; keep nothing in the four bytes behind
 * one), and of the first entry.
 */
struct niclab_queue_ring_at {
	uint64_t producer;
	uint64_t consumer;
	uint64_t entries;
};

struct niclab_queue_layout {
	char magic[8];
	uint32_t version;       /* of another one than this header's nothing behind here is known */
	uint32_t len;           /* of this, bytes */
	uint64_t memory_len;    /* bytes */
	uint64_t slots_at;      /* offset of the first slot */
	uint32_t slots;         /* their number */
	uint32_t slot_len;      /* bytes of one, a power of two */
	uint32_t frame_len_max; /* longest frame to be sent, bytes without FCS */
	uint32_t entries;       /* of each ring, a power of two */
	uint64_t asleep_at;     /* offset of a uint32_t: see niclab_queue_may_sleep */
	struct niclab_queue_ring_at fill, receive, transmit, completion;
};

/* Does not compile where the layout is another than the card sends. */
typedef char niclab_queue_layout_is_152_bytes[sizeof(struct niclab_queue_layout) == 152 ? 1 : -1];

/* An entry of the receive and of the transmit ring; one of the others is a uint64_t, an address. */
struct niclab_queue_frame {
	uint64_t address;
	uint32_t len;
	uint32_t options;
};

/* One end of a ring, for one thread. */
struct niclab_queue_ring {
	uint32_t *producer;
	uint32_t *consumer;
	void *entries;
	uint32_t mask;
	uint32_t own; /* our index: the other end sees it once it is shown */
};

static inline struct niclab_queue_ring
niclab_queue_ring(void *memory, const struct niclab_queue_layout *layout,
		  const struct niclab_queue_ring_at *at)
{
	char *base = (char *)memory;
	struct niclab_queue_ring ring;

	ring.producer = (uint32_t *)(void *)(base + at->producer);
	ring.consumer = (uint32_t *)(void *)(base + at->consumer);
	ring.entries = base + at->entries;
	ring.mask = layout->entries - 1;
	ring.own = 0;
	return ring;
}

/* Entries that can be taken out of a ring: receive, completion. */
static inline uint32_t niclab_queue_available(const struct niclab_queue_ring *ring)
{
	return __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE) - ring->own;
}

/* Entries that can be put into a ring: fill, transmit. */
static inline uint32_t niclab_queue_room(const struct niclab_queue_ring *ring)
{
	return ring->mask + 1 - (ring->own - __atomic_load_n(ring->consumer, __ATOMIC_ACQUIRE));
}

/* The next entry, to be taken or written: one that is available, or that there is room for. */
static inline uint64_t *niclab_queue_address(struct niclab_queue_ring *ring)
{
	return (uint64_t *)ring->entries + (ring->own++ & ring->mask);
}

static inline struct niclab_queue_frame *niclab_queue_frame(struct niclab_queue_ring *ring)
{
	return (struct niclab_queue_frame *)ring->entries + (ring->own++ & ring->mask);
}

/* Shows the card what was put in: fill, transmit. */
static inline void niclab_queue_publish(const struct niclab_queue_ring *ring)
{
	__atomic_store_n(ring->producer, ring->own, __ATOMIC_RELEASE);
}

/* Gives the card the places of what was taken out: receive, completion. */
static inline void niclab_queue_release(const struct niclab_queue_ring *ring)
{
	__atomic_store_n(ring->consumer, ring->own, __ATOMIC_RELEASE);
}

/*
 * Whether you may sleep until a message comes: call it when both rings were empty. The card sends
 * one with the next entry of either. Of a message that comes while you are awake think nothing.
 */
static inline int niclab_queue_may_sleep(void *memory, const struct niclab_queue_layout *layout,
					 const struct niclab_queue_ring *receive,
					 const struct niclab_queue_ring *completion)
{
	uint32_t *asleep = (uint32_t *)(void *)((char *)memory + layout->asleep_at);

	__atomic_store_n(asleep, 1, __ATOMIC_RELAXED);
	/* Of the card, which stores an index and looks here, and us one sees the other. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return !niclab_queue_available(receive) && !niclab_queue_available(completion);
}

#endif
