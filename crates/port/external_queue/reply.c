// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Sends every frame of a queue back to where it came from: the MAC addresses change places.
 *
 *   cc -O2 -o reply reply.c && ./reply /run/niclab/queue1.sock
 *
 * It ends with 0 when the card does, and says what it has sent.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "niclab_queue.h"

static int fail(const char *what)
{
	perror(what);
	return 1;
}

/* Connects to a card; the layout and the file of the memory come in its first message. */
static int join(const char *path, struct niclab_queue_layout *layout, int *file)
{
	union { struct cmsghdr header; char space[CMSG_SPACE(sizeof(int))]; } beside;
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	struct iovec into = { layout, sizeof(*layout) };
	struct msghdr message = { .msg_iov = &into, .msg_iovlen = 1, .msg_control = &beside,
				  .msg_controllen = sizeof(beside) };
	int card = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strncpy(name.sun_path, path, sizeof(name.sun_path) - 1);
	memset(layout, 0, sizeof(*layout));
	if (card < 0 || connect(card, (struct sockaddr *)&name, sizeof(name)) < 0 ||
	    recvmsg(card, &message, MSG_CMSG_CLOEXEC) < 0 || !CMSG_FIRSTHDR(&message))
		return -1;
	memcpy(file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(*file));
	return card;
}

/* Sleeps until the card says something; 0 when it has ended. */
static int sleep_until_told(int card)
{
	char said[257];
	ssize_t len = recv(card, said, sizeof(said) - 1, 0);

	if (len > 0 && said[0] == NICLAB_QUEUE_END)
		fprintf(stderr, "%.*s\n", (int)len - 1, said + 1);
	return len > 0 && said[0] == NICLAB_QUEUE_WAKE;
}

static void swap_macs(unsigned char *frame)
{
	unsigned char addresses[12];

	memcpy(addresses, frame, 12);
	memcpy(frame, addresses + 6, 6);
	memcpy(frame + 6, addresses, 6);
}

int main(int count, char **arguments)
{
	struct niclab_queue_ring fill, receive, transmit, completion;
	struct niclab_queue_layout layout;
	unsigned long long sent = 0;
	unsigned char *slots;
	int card, file;
	void *memory;

	if (count != 2)
		return fprintf(stderr, "usage: reply SOCKET\n"), 2;
	if ((card = join(arguments[1], &layout, &file)) < 0)
		return fail(arguments[1]);
	if (memcmp(layout.magic, NICLAB_QUEUE_MAGIC, 8) || layout.version != NICLAB_QUEUE_VERSION)
		return fprintf(stderr, "a card of layout %u, and we know %u\n", layout.version,
			       NICLAB_QUEUE_VERSION), 3;
	memory = mmap(NULL, layout.memory_len, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (memory == MAP_FAILED || send(card, "mapped", 6, MSG_NOSIGNAL) < 0)
		return fail("the memory");
	slots = (unsigned char *)memory + layout.slots_at;
	fill = niclab_queue_ring(memory, &layout, &layout.fill);
	receive = niclab_queue_ring(memory, &layout, &layout.receive);
	transmit = niclab_queue_ring(memory, &layout, &layout.transmit);
	completion = niclab_queue_ring(memory, &layout, &layout.completion);

	/* Offer as many slots as the ring takes; more are not needed. */
	for (uint32_t slot = 0; slot < layout.slots && niclab_queue_room(&fill); slot++)
		*niclab_queue_address(&fill) = (uint64_t)slot * layout.slot_len;
	niclab_queue_publish(&fill);

	do {
		/* Slots of sent frames are offered again. All slots fit the ring that have been in it once. */
		uint32_t back = niclab_queue_available(&completion);
		for (uint32_t i = 0; i < back; i++)
			*niclab_queue_address(&fill) = *niclab_queue_address(&completion);
		niclab_queue_release(&completion);
		niclab_queue_publish(&fill);

		uint32_t came = niclab_queue_available(&receive);
		for (; came && niclab_queue_room(&transmit); came--, sent++) {
			struct niclab_queue_frame frame = *niclab_queue_frame(&receive);
			swap_macs(slots + frame.address);
			*niclab_queue_frame(&transmit) = frame;
		}
		niclab_queue_release(&receive);
		niclab_queue_publish(&transmit);
	} while (!niclab_queue_may_sleep(memory, &layout, &receive, &completion) ||
		 sleep_until_told(card));
	return printf("%llu frames\n", sent) < 0;
}
