/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A queue of a niclab card in a process of yours: a guest. Needs C11 or C++, Linux, and gcc or
 * clang; reply.c beside this is a whole one.
 *
 * Connect to the card's socket (AF_UNIX, SOCK_SEQPACKET). The first message is a struct
 * niclab_guest_layout, with the file of the memory beside it (SCM_RIGHTS): map memory_len bytes of
 * it, shared, to read and to write, and send a message to say that you have, of one byte or more,
 * within five seconds, or the card lets you go for the sake of the next. It looks at the rings from
 * your message on, and nobody can map the memory to write any more. Of each message that follows
 * the first byte says what it is: NICLAB_GUEST_WAKE, or NICLAB_GUEST_END and why the card ended
 * you, in words. A closed socket: the card has ended. Close yours and you are gone; the card waits
 * for the next guest then.
 *
 * In the memory are slots for frames and four rings, as of AF_XDP. An address counts bytes from the
 * first slot. A slot is always somebody's, and yours at first:
 *
 *   fill         you -> card   addresses of slots that are lent to be filled
 *   receive      card -> you   frames; their slots are yours again
 *   transmit     you -> card   frames to be sent, from any place within a slot; options are 0
 *   completion   card -> you   addresses of slots whose frames were sent, which are yours again
 *
 * A frame is from 14 to frame_len_max bytes long, without FCS, and lies in one slot. A received one
 * begins where its address says, not always at the start of the slot. Frames that come while no
 * slot is lent, or the receive ring is full, are dropped.
 *
 * The card does nothing about, and counts: an address outside of the slots, a slot that is lent
 * already, a frame of another length (its slot comes back all the same). It ends you when an index
 * goes back, or further than there are entries. Nobody but you and the card has this memory, and
 * nothing was ever in it but your frames.
 */
#ifndef NICLAB_GUEST_H
#define NICLAB_GUEST_H

#include <stdint.h>

#define NICLAB_GUEST_MAGIC "NICLABQ" /* and a zero: eight bytes */
#define NICLAB_GUEST_VERSION 1
#define NICLAB_GUEST_WAKE 'w'
#define NICLAB_GUEST_END 'e'

/*
 * Offsets in the memory, bytes: of the two indices (uint32_t; keep nothing in the four bytes behind
 * one), and of the first entry.
 */
struct niclab_guest_ring_at {
	uint64_t producer;
	uint64_t consumer;
	uint64_t entries;
};

struct niclab_guest_layout {
	char magic[8];
	uint32_t version;       /* of another one than this header's nothing behind here is known */
	uint32_t len;           /* of this, bytes */
	uint64_t memory_len;    /* bytes */
	uint64_t slots_at;      /* offset of the first slot */
	uint32_t slots;         /* their number */
	uint32_t slot_len;      /* bytes of one, a power of two */
	uint32_t frame_len_max; /* longest frame to be sent, bytes without FCS */
	uint32_t entries;       /* of each ring, a power of two */
	uint64_t asleep_at;     /* offset of a uint32_t: see niclab_guest_may_sleep */
	struct niclab_guest_ring_at fill, receive, transmit, completion;
};

/* Does not compile where the layout is another than the card sends. */
typedef char niclab_guest_layout_is_152_bytes[sizeof(struct niclab_guest_layout) == 152 ? 1 : -1];

/* An entry of the receive and of the transmit ring; one of the others is a uint64_t, an address. */
struct niclab_guest_frame {
	uint64_t address;
	uint32_t len;
	uint32_t options;
};

/* One end of a ring, for one thread. */
struct niclab_guest_ring {
	uint32_t *producer;
	uint32_t *consumer;
	void *entries;
	uint32_t mask;
	uint32_t own; /* our index: the other end sees it once it is shown */
};

static inline struct niclab_guest_ring
niclab_guest_ring(void *memory, const struct niclab_guest_layout *layout,
		  const struct niclab_guest_ring_at *at)
{
	char *base = (char *)memory;
	struct niclab_guest_ring ring;

	ring.producer = (uint32_t *)(void *)(base + at->producer);
	ring.consumer = (uint32_t *)(void *)(base + at->consumer);
	ring.entries = base + at->entries;
	ring.mask = layout->entries - 1;
	ring.own = 0;
	return ring;
}

/* Entries that can be taken out of a ring: receive, completion. */
static inline uint32_t niclab_guest_available(const struct niclab_guest_ring *ring)
{
	return __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE) - ring->own;
}

/* Entries that can be put into a ring: fill, transmit. */
static inline uint32_t niclab_guest_room(const struct niclab_guest_ring *ring)
{
	return ring->mask + 1 - (ring->own - __atomic_load_n(ring->consumer, __ATOMIC_ACQUIRE));
}

/* The next entry, to be taken or written: one that is available, or that there is room for. */
static inline uint64_t *niclab_guest_address(struct niclab_guest_ring *ring)
{
	return (uint64_t *)ring->entries + (ring->own++ & ring->mask);
}

static inline struct niclab_guest_frame *niclab_guest_frame(struct niclab_guest_ring *ring)
{
	return (struct niclab_guest_frame *)ring->entries + (ring->own++ & ring->mask);
}

/* Shows the card what was put in: fill, transmit. */
static inline void niclab_guest_publish(const struct niclab_guest_ring *ring)
{
	__atomic_store_n(ring->producer, ring->own, __ATOMIC_RELEASE);
}

/* Gives the card the places of what was taken out: receive, completion. */
static inline void niclab_guest_release(const struct niclab_guest_ring *ring)
{
	__atomic_store_n(ring->consumer, ring->own, __ATOMIC_RELEASE);
}

/*
 * Whether you may sleep until a message comes: call it when both rings were empty. The card sends
 * one with the next entry of either. Of a message that comes while you are awake think nothing.
 */
static inline int niclab_guest_may_sleep(void *memory, const struct niclab_guest_layout *layout,
					 const struct niclab_guest_ring *receive,
					 const struct niclab_guest_ring *completion)
{
	uint32_t *asleep = (uint32_t *)(void *)((char *)memory + layout->asleep_at);

	__atomic_store_n(asleep, 1, __ATOMIC_RELAXED);
	/* Of the card, which stores an index and looks here, and us one sees the other. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return !niclab_guest_available(receive) && !niclab_guest_available(completion);
}

#endif
