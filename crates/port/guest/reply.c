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

#include "niclab_guest.h"

static int fail(const char *what)
{
	perror(what);
	return 1;
}

/* Connects to a card; the layout and the file of the memory come in its first message. */
static int join(const char *path, struct niclab_guest_layout *layout, int *file)
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

	if (len > 0 && said[0] == NICLAB_GUEST_END)
		fprintf(stderr, "%.*s\n", (int)len - 1, said + 1);
	return len > 0 && said[0] == NICLAB_GUEST_WAKE;
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
	struct niclab_guest_ring fill, receive, transmit, completion;
	struct niclab_guest_layout layout;
	unsigned long long sent = 0;
	unsigned char *slots;
	int card, file;
	void *memory;

	if (count != 2)
		return fprintf(stderr, "usage: reply SOCKET\n"), 2;
	if ((card = join(arguments[1], &layout, &file)) < 0)
		return fail(arguments[1]);
	if (memcmp(layout.magic, NICLAB_GUEST_MAGIC, 8) || layout.version != NICLAB_GUEST_VERSION)
		return fprintf(stderr, "a card of layout %u, and we know %u\n", layout.version,
			       NICLAB_GUEST_VERSION), 3;
	memory = mmap(NULL, layout.memory_len, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (memory == MAP_FAILED || send(card, "mapped", 6, MSG_NOSIGNAL) < 0)
		return fail("the memory");
	slots = (unsigned char *)memory + layout.slots_at;
	fill = niclab_guest_ring(memory, &layout, &layout.fill);
	receive = niclab_guest_ring(memory, &layout, &layout.receive);
	transmit = niclab_guest_ring(memory, &layout, &layout.transmit);
	completion = niclab_guest_ring(memory, &layout, &layout.completion);

	/* Lend as many slots as the ring takes; more are not needed. */
	for (uint32_t slot = 0; slot < layout.slots && niclab_guest_room(&fill); slot++)
		*niclab_guest_address(&fill) = (uint64_t)slot * layout.slot_len;
	niclab_guest_publish(&fill);

	do {
		/* What was sent is lent again. All slots fit the ring that have been in it once. */
		uint32_t back = niclab_guest_available(&completion);
		for (uint32_t i = 0; i < back; i++)
			*niclab_guest_address(&fill) = *niclab_guest_address(&completion);
		niclab_guest_release(&completion);
		niclab_guest_publish(&fill);

		uint32_t came = niclab_guest_available(&receive);
		for (; came && niclab_guest_room(&transmit); came--, sent++) {
			struct niclab_guest_frame frame = *niclab_guest_frame(&receive);
			swap_macs(slots + frame.address);
			*niclab_guest_frame(&transmit) = frame;
		}
		niclab_guest_release(&receive);
		niclab_guest_publish(&transmit);
	} while (!niclab_guest_may_sleep(memory, &layout, &receive, &completion) ||
		 sleep_until_told(card));
	return printf("%llu frames\n", sent) < 0;
}
