/* libniclab: the software NIC for C programs.
 *
 * A program opens a NIC (niclab_open), creates rules (niclab_rule_create), opens a worker for each
 * thread (niclab_worker_open) and classifies frames in its own buffers (niclab_classify).
 *
 * Functions return 0, or a negative errno and an error that says what is wrong, where, and the
 * remedy. Functions that take a NIC may be called by several threads at a time; workers and queues
 * belong to one thread at a time.
 *
 * cbindgen makes this file of crates/capi: do not edit it. */

#ifndef NICLAB_H
#define NICLAB_H

#include <stddef.h>
#include <stdint.h>

// Bytes of [`niclab_error::message`].
#define NICLAB_MESSAGE_LEN 240

// Frames of one call of `niclab_classify`, `niclab_port_receive` and `niclab_port_send`.
#define NICLAB_BURST 64

// Entries of the RSS indirection table.
#define NICLAB_INDIRECTION_LEN 512

// The longest RSS key, bytes. The shortest is 40.
#define NICLAB_RSS_KEY_LEN_MAX 128

// The longest frame of a port that leads out of the process, bytes without the frame check
// sequence.
#define NICLAB_FRAME_LEN_MAX 1522

// The most operations of a queue whose results were not pulled.
#define NICLAB_QUEUE_SIZE_MAX (1 << 20)

// The most indirect actions.
#define NICLAB_INDIRECT_ACTIONS_MAX (1 << 20)

// A rule flagged the packet.
#define NICLAB_FLAGGED 1

// A rule marked the packet.
#define NICLAB_MARKED 2

// No queue gets the packet: discard it.
#define NICLAB_DROPPED 4

// No queue gets the packet: send it by its `port`.
#define NICLAB_LEAVES 8

// RSS chose the queue, and no rule.
#define NICLAB_PORT_RSS 16

// The part of a call that an error concerns.
enum niclab_part {
  // Nothing in particular.
  NICLAB_PART_NONE = 0,
  // An action, by its index.
  NICLAB_PART_ACTION = 1,
  // The list of actions as a whole.
  NICLAB_PART_ACTIONS = 2,
  // The group.
  NICLAB_PART_GROUP = 3,
  // A handle: of a rule, of an indirect action.
  NICLAB_PART_HANDLE = 4,
  // An item, by its index.
  NICLAB_PART_ITEM = 5,
  // The priority.
  NICLAB_PART_PRIORITY = 6,
  // The NIC's room for rules.
  NICLAB_PART_ROOM = 7,
};

// The kind of an item. The bytes of an item are those of the header on the wire.
enum niclab_item_kind {
  // Ethernet: 14 bytes, and a byte whose bit 0 says that a VLAN tag follows.
  NICLAB_ITEM_KIND_ETH = 0,
  // A VLAN tag: TCI and type, 4 bytes, and a byte whose bit 0 says that another tag follows.
  NICLAB_ITEM_KIND_VLAN = 1,
  // IPv4 without options: 20 bytes.
  NICLAB_ITEM_KIND_IPV4 = 2,
  // IPv6: 40 bytes, and a byte whose bit 0 says that a fragment header follows.
  NICLAB_ITEM_KIND_IPV6 = 3,
  // ICMP: 8 bytes.
  NICLAB_ITEM_KIND_ICMP = 4,
  // ICMPv6: 4 bytes.
  NICLAB_ITEM_KIND_ICMP6 = 5,
  // TCP without options: 20 bytes.
  NICLAB_ITEM_KIND_TCP = 6,
  // UDP: 8 bytes.
  NICLAB_ITEM_KIND_UDP = 7,
  // GRE: its first 4 bytes.
  NICLAB_ITEM_KIND_GRE = 8,
  // The key after a GRE header: 4 bytes.
  NICLAB_ITEM_KIND_GRE_KEY = 9,
  // VXLAN: 8 bytes.
  NICLAB_ITEM_KIND_VXLAN = 10,
  // GENEVE without options: 8 bytes.
  NICLAB_ITEM_KIND_GENEVE = 11,
  // One MPLS label: 4 bytes.
  NICLAB_ITEM_KIND_MPLS = 12,
  // Metadata that rules set: 4 bytes, most significant first.
  NICLAB_ITEM_KIND_META = 13,
  // A tag that rules set: 4 bytes, most significant first, and the number of the tag.
  NICLAB_ITEM_KIND_TAG = 14,
  // Bytes at an offset, 48 bytes: bit 7 of byte 0 is `relative`, bit 6 `search`; offset (4
  // bytes, signed), limit (2), the number of bytes (1), and the bytes. Numbers begin with the
  // most significant byte.
  NICLAB_ITEM_KIND_RAW = 15,
  // SCTP, its common header: 12 bytes.
  NICLAB_ITEM_KIND_SCTP = 16,
  // ESP: SPI and sequence number, 8 bytes.
  NICLAB_ITEM_KIND_ESP = 17,
  // The authentication header without its check value: 12 bytes.
  NICLAB_ITEM_KIND_AH = 18,
  // ARP for Ethernet and IPv4: 28 bytes.
  NICLAB_ITEM_KIND_ARP_ETH_IPV4 = 19,
  // The fragment header of IPv6: 8 bytes.
  NICLAB_ITEM_KIND_IPV6_FRAG_EXT = 20,
  // PPPoE in its discovery stage: 6 bytes.
  NICLAB_ITEM_KIND_PPPOED = 21,
  // PPPoE in its session stage: 6 bytes.
  NICLAB_ITEM_KIND_PPPOES = 22,
  // GRE as NVGRE has it, with its key: 8 bytes.
  NICLAB_ITEM_KIND_NVGRE = 23,
  // VXLAN-GPE: 8 bytes.
  NICLAB_ITEM_KIND_VXLAN_GPE = 24,
  // GTP of version 1, on the port of GTP-U or GTP-C: 8 bytes.
  NICLAB_ITEM_KIND_GTP = 25,
  // GTP-C of version 1: 8 bytes.
  NICLAB_ITEM_KIND_GTPC = 26,
  // GTP-U: 8 bytes.
  NICLAB_ITEM_KIND_GTPU = 27,
  // The PDU session container, an extension header of GTP-U: 3 bytes.
  NICLAB_ITEM_KIND_GTP_PSC = 28,
};

// The kind of an action.
enum niclab_action_kind {
  // Report the rule as aged after `value` seconds without a packet; `context` is reported, or
  // the handle if it is 0.
  NICLAB_ACTION_KIND_AGE = 0,
  // Count packets and bytes.
  NICLAB_ACTION_KIND_COUNT = 1,
  // Decrement TTL or hop limit.
  NICLAB_ACTION_KIND_DEC_TTL = 2,
  // Discard the packet.
  NICLAB_ACTION_KIND_DROP = 3,
  // Flag the packet.
  NICLAB_ACTION_KIND_FLAG = 4,
  // Go on in group `value`.
  NICLAB_ACTION_KIND_JUMP = 5,
  // Mark the packet with `value`.
  NICLAB_ACTION_KIND_MARK = 6,
  // Drop the packet if it exceeds meter `value`.
  NICLAB_ACTION_KIND_METER = 7,
  // Remove an NVGRE tunnel.
  NICLAB_ACTION_KIND_NVGRE_DECAP = 8,
  // Put the headers in `bytes` in front: Ethernet, IP, GRE with a key.
  NICLAB_ACTION_KIND_NVGRE_ENCAP = 9,
  // Remove the outermost VLAN tag.
  NICLAB_ACTION_KIND_POP_VLAN = 10,
  // Send the packet by port `value`; 0 is the port that it came in by.
  NICLAB_ACTION_KIND_PORT = 11,
  // Put a VLAN tag of type `value` in front.
  NICLAB_ACTION_KIND_PUSH_VLAN = 12,
  // Deliver to queue `value`.
  NICLAB_ACTION_KIND_QUEUE = 13,
  // Remove `value` bytes in front.
  NICLAB_ACTION_KIND_RAW_DECAP = 14,
  // Put `bytes` in front.
  NICLAB_ACTION_KIND_RAW_ENCAP = 15,
  // Deliver to one of several queues; see `rss`.
  NICLAB_ACTION_KIND_RSS = 16,
  // Set a field of a header, `index` is a `niclab_field`; the value is `value`, or `bytes` for
  // addresses.
  NICLAB_ACTION_KIND_SET = 17,
  // Set the bits `mask` of the metadata to those of `value`.
  NICLAB_ACTION_KIND_SET_META = 18,
  // Set the bits `mask` of tag `index` to those of `value`.
  NICLAB_ACTION_KIND_SET_TAG = 19,
  // Remove a VXLAN tunnel.
  NICLAB_ACTION_KIND_VXLAN_DECAP = 20,
  // Put the headers in `bytes` in front: Ethernet, IP, UDP, VXLAN.
  NICLAB_ACTION_KIND_VXLAN_ENCAP = 21,
  // The indirect action with the handle `context`.
  NICLAB_ACTION_KIND_INDIRECT = 22,
  // Exchange the addresses of Ethernet.
  NICLAB_ACTION_KIND_MAC_SWAP = 23,
};

// A field that an action sets.
enum niclab_field {
  // DSCP, 0 to 63.
  NICLAB_FIELD_IPV4_DSCP = 0,
  // Destination address, 4 bytes.
  NICLAB_FIELD_IPV4_DST = 1,
  // Source address, 4 bytes.
  NICLAB_FIELD_IPV4_SRC = 2,
  // DSCP, 0 to 63.
  NICLAB_FIELD_IPV6_DSCP = 3,
  // Destination address, 16 bytes.
  NICLAB_FIELD_IPV6_DST = 4,
  // Source address, 16 bytes.
  NICLAB_FIELD_IPV6_SRC = 5,
  // Destination address, 6 bytes.
  NICLAB_FIELD_MAC_DST = 6,
  // Source address, 6 bytes.
  NICLAB_FIELD_MAC_SRC = 7,
  // Destination port of TCP or UDP.
  NICLAB_FIELD_TP_DST = 8,
  // Source port of TCP or UDP.
  NICLAB_FIELD_TP_SRC = 9,
  // TTL or hop limit.
  NICLAB_FIELD_TTL = 10,
  // Priority in the outermost VLAN tag, 0 to 7.
  NICLAB_FIELD_VLAN_PCP = 11,
  // Id in the outermost VLAN tag, 0 to 4095.
  NICLAB_FIELD_VLAN_VID = 12,
};

// The profile of a modelled card, opaque to C.
struct niclab_profile;

// A NIC, opaque to C. All functions that take one may be called by several threads at a time.
struct niclab_nic;

// An operation queue.
struct niclab_flow_queue;

// A worker, opaque to C: it classifies the frames of one thread.
struct niclab_worker;

// A port with its queue pairs.
struct niclab_port;

// A template table.
struct niclab_table;

// Why a call failed. Every function that can fail returns 0, or a negative `errno` and fills this
// in, unless the pointer to it is null. A call that fails changes nothing.
struct niclab_error {
  // A `niclab_part`.
  uint32_t part;
  // Which item or action, from 0.
  uint32_t index;
  // The fault, its place and the remedy; ends with a zero byte.
  char message[NICLAB_MESSAGE_LEN];
};

// A frame in the program's buffer, and what the NIC decided about it.
struct niclab_frame {
  // First byte of the frame. Rules that add or remove headers move it.
  uint8_t *data;
  // Bytes before `data` that headers may be put into.
  uint16_t headroom;
  // Length, bytes without the frame check sequence.
  uint16_t len;
  // RSS hash; 0 if there is none.
  uint32_t hash;
  // The number of a rule's mark, if `NICLAB_MARKED` is set.
  uint32_t mark;
  // Receive queue.
  uint16_t queue;
  // Port that the packet leaves by, if `NICLAB_LEAVES` is set.
  uint8_t port;
  // Bits `NICLAB_FLAGGED` to `NICLAB_PORT_RSS`.
  uint8_t flags;
};

// A meter to create. Rates are bytes a second, sizes are bytes; the length of a packet has the
// frame check sequence. Green and yellow packets pass, red ones are dropped.
struct niclab_meter {
  // 0: one rate (RFC 2697); 1: two rates (RFC 2698).
  uint32_t has_two_rates;
  // Committed information rate.
  uint64_t cir;
  // Peak information rate, of two rates.
  uint64_t pir;
  // Committed burst size.
  uint64_t cbs;
  // Excess burst size, or peak burst size.
  uint64_t ebs;
};

// An item of a pattern. Without `spec` it matches every packet that has the header.
struct niclab_item {
  // A `niclab_item_kind`.
  uint32_t kind;
  // Values, as many bytes as the kind has; or null.
  const uint8_t *spec;
  // Greatest values of ranges; or null.
  const uint8_t *last;
  // Which bits count; null for the mask that `rte_flow` has as default.
  const uint8_t *mask;
};

// A list of items: a pattern template.
struct niclab_pattern {
  // Number of items.
  size_t items_len;
  // The items; their masks are those of all rules, and other values do not matter.
  const struct niclab_item *items;
};

// Settings of RSS.
struct niclab_rss {
  // Bit set of hash types, with the numbers of `HashTypes`; `UINT32_MAX` for the port's.
  uint32_t types;
  // 0 for Toeplitz, 1 for symmetric Toeplitz, 255 for the port's.
  uint8_t function;
  // 1 for the outermost headers, 2 for those inside a tunnel, 0 for the port's.
  uint8_t level;
  // Number of queues, at most 128; 0 for all.
  uint16_t queues_len;
  // Length of the key, 40 to 128; 0 for the port's.
  uint32_t key_len;
  // The key.
  const uint8_t *key;
  // The queues.
  const uint16_t *queues;
};

// An action.
struct niclab_action {
  // A `niclab_action_kind`.
  uint32_t kind;
  // See the kind.
  uint32_t value;
  // See the kind.
  uint32_t mask;
  // See the kind.
  uint32_t index;
  // See the kind.
  uint64_t context;
  // See the kind.
  const uint8_t *bytes;
  // Number of bytes.
  size_t bytes_len;
  // See the kind.
  const struct niclab_rss *rss;
};

// A list of actions: an actions template.
struct niclab_actions {
  // Number of actions, at most 16.
  size_t actions_len;
  // The actions.
  const struct niclab_action *actions;
  // For each action, whether its values are those of the template (1) or of the rule (0).
  const uint8_t *fixed;
};

// A template table to create.
struct niclab_template {
  // Group of the rules.
  uint32_t group;
  // Their priority.
  uint32_t priority;
  // Number of pattern templates.
  size_t patterns_len;
  // Pattern templates.
  const struct niclab_pattern *patterns;
  // Number of actions templates.
  size_t actions_len;
  // Actions templates.
  const struct niclab_actions *actions;
};

// A rule of a template table to enqueue.
struct niclab_enqueued_rule {
  // Index of the pattern template.
  uint32_t pattern;
  // Index of the actions template.
  uint32_t actions_template;
  // Number of items: as many as the pattern template has.
  uint32_t items_len;
  // Number of actions: as many as the actions template has.
  uint32_t actions_len;
  // Their values; the masks are those of the template.
  const struct niclab_item *items;
  // The actions; values that the template fixes do not matter.
  const struct niclab_action *actions;
  // Comes back with the result.
  uint64_t user;
  // 1 if the operation may wait for the next push.
  uint32_t postpone;
};

// The result of an operation.
struct niclab_completion {
  // The operation's `user`.
  uint64_t user;
  // 1 if it was carried out, 0 if it was refused.
  uint32_t done;
};

// Counters of a queue pair of a port; bytes are without the frame check sequence.
struct niclab_port_counters {
  // Frames received.
  uint64_t rx_frames;
  // Their bytes.
  uint64_t rx_bytes;
  // Frames that came and found no room.
  uint64_t rx_missed;
  // Frames sent.
  uint64_t tx_frames;
  // Their bytes.
  uint64_t tx_bytes;
  // Frames that could not be sent.
  uint64_t tx_dropped;
};

// Numbers of a modelled card that the NIC does not carry out by itself; 0 where they are unknown.
struct niclab_card {
  // Rate of the wire, Gbps at L1.
  double rate_gbps;
  // Frames that wait for the classifier.
  uint32_t fifo_frames;
  // Descriptors of a receive queue.
  uint32_t ring_frames;
  // The most queues of a port.
  uint32_t queues_max;
};

// The time that a modelled card needs for operations on rules, nanoseconds.
struct niclab_spent {
  // On a core that does nothing else.
  double alone_ns;
  // On a core that forwards packets too.
  double beside_ns;
  // The classifier takes this long for each frame from now on that only default rules match. 0:
  // the profile does not say.
  double frame_ns;
};

// A NIC to open.
struct niclab_config {
  // Receive queues, 1 to 256.
  uint16_t queues;
  // Ethernet ports that rules can send packets by, 1 to 256.
  uint16_t ports;
  // Seed of the tables' hashes.
  uint64_t seed;
  // The card whose limits the NIC has; null for those of niclab.
  const struct niclab_profile *profile;
};

// A rule.
struct niclab_rule {
  // Group; 0 is the root, which every packet comes to first.
  uint32_t group;
  // Priority, 0 (highest) to 65535.
  uint32_t priority;
  // Number of items.
  uint32_t items_len;
  // Number of actions, at most 16.
  uint32_t actions_len;
  // The items, outermost header first.
  const struct niclab_item *items;
  // The actions.
  const struct niclab_action *actions;
};

// Counters of a rule.
struct niclab_counts {
  // Packets.
  uint64_t packets;
  // Bytes, with the frame check sequence.
  uint64_t bytes;
};

// The age of a rule.
struct niclab_age {
  // Nanoseconds since its last packet, or since it began to age.
  uint64_t idle_ns;
  // Its timeout.
  uint32_t timeout_s;
  // 1 if it is aged.
  uint32_t aged;
};

// Takes a piece of text; `context` is the caller's.
typedef void (*niclab_write)(void *context, const char *text, size_t len);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Opens a worker, which classifies frames. A worker belongs to one thread at a time. It is offline
// until its first burst.
//
// # Safety
// `nic` is open, and the pointers are valid, or null.
int32_t niclab_worker_open(const struct niclab_nic *nic,
                           struct niclab_worker **worker,
                           struct niclab_error *error);

// Closes a worker.
//
// # Safety
// `worker` is null or open, and no other call uses it.
void niclab_worker_close(struct niclab_worker *worker);

// Classifies frames in the program's buffers: at most 64 at a time, or else the rest is left as it
// is. Sets hash, mark, queue, port and flags of each; rules that change packets change them in
// place.
//
// From its first burst on, the worker is online: memory of destroyed rules is reused only after
// its next burst. Call `niclab_worker_offline` when no burst comes for a while.
//
// # Safety
// `worker` is open and used by this thread alone. For each frame, `len` bytes from `data` and
// `headroom` bytes before it may be read and written; no two frames share bytes.
void niclab_classify(struct niclab_worker *worker, struct niclab_frame *frames, size_t frames_len);

// Takes a worker offline until its next burst: memory of destroyed rules does not wait for it.
//
// # Safety
// `worker` is null, or open and used by this thread alone.
void niclab_worker_offline(struct niclab_worker *worker);

// Sets the time for meters of the next burst alone, in nanoseconds from a moment that all workers
// share. Call it once a burst if rules have meters.
//
// # Safety
// `worker` is null, or open and used by this thread alone.
void niclab_worker_set_meter_time(struct niclab_worker *worker, uint64_t now_ns);

// Sets the time for meters of the next bursts and for ages, in nanoseconds from a moment that all
// workers share. Call it at most every millisecond: workers share the time of ages.
//
// # Safety
// `worker` is null, or open and used by this thread alone.
void niclab_worker_set_time(struct niclab_worker *worker, uint64_t now_ns);

// Creates a meter with full buckets, which rules can name.
//
// # Safety
// `nic` is open, and the pointers are valid, or null.
int32_t niclab_meter_create(const struct niclab_nic *nic,
                            uint32_t number,
                            const struct niclab_meter *meter,
                            struct niclab_error *error);

// Destroys a meter that no rule names.
//
// # Safety
// `nic` is open, and `error` is valid, or null.
int32_t niclab_meter_destroy(const struct niclab_nic *nic,
                             uint32_t number,
                             struct niclab_error *error);

// Creates a template table: rules that share group, priority, masks and most of their actions.
//
// # Safety
// `nic` is open, and the pointers are valid, or null.
int32_t niclab_table_create(const struct niclab_nic *nic,
                            const struct niclab_template *template_,
                            struct niclab_table **table,
                            struct niclab_error *error);

// Destroys a template table. Its rules stay; operations that name it must have been pushed.
//
// # Safety
// `nic` is open; `table` is null or a table of it, and no other call uses it.
void niclab_table_destroy(const struct niclab_nic *nic, struct niclab_table *table);

// Opens a queue for at most `size` operations whose results were not pulled, 1 to 1048576. A queue
// belongs to one thread at a time.
//
// # Safety
// `nic` is open, and the pointers are valid, or null.
int32_t niclab_queue_open(const struct niclab_nic *nic,
                          uint32_t size,
                          struct niclab_flow_queue **queue,
                          struct niclab_error *error);

// Closes a queue. Operations that were not pushed are not carried out.
//
// # Safety
// `queue` is null or open, and no other call uses it.
void niclab_queue_close(struct niclab_flow_queue *queue);

// Enqueues the creation of a rule of a template table. `handle` gets the handle that the rule has
// once the operation was carried out.
//
// # Safety
// `queue` and `table` are open and of one NIC, this thread alone uses the queue, and the pointers
// are valid, or null.
int32_t niclab_queue_create(struct niclab_flow_queue *queue,
                            const struct niclab_table *table,
                            const struct niclab_enqueued_rule *rule,
                            uint64_t *handle,
                            struct niclab_error *error);

// Enqueues the destruction of a rule. `postpone` other than 0 lets it wait for the next push.
//
// # Safety
// `queue` is open, this thread alone uses it, and `error` is valid, or null.
int32_t niclab_queue_destroy(struct niclab_flow_queue *queue,
                             uint64_t handle,
                             uint64_t user,
                             int32_t postpone,
                             struct niclab_error *error);

// Checks that a queue takes another operation: `-EAGAIN` if it is full.
//
// # Safety
// As [`niclab_queue_destroy`].
int32_t niclab_queue_check_room(const struct niclab_flow_queue *queue, struct niclab_error *error);

// Adds a result to a queue, of an operation that the program has carried out itself.
//
// # Safety
// As [`niclab_queue_destroy`].
int32_t niclab_queue_complete(struct niclab_flow_queue *queue,
                              uint64_t user,
                              int32_t done,
                              struct niclab_error *error);

// Carries out the operations that wait, in order.
//
// # Safety
// `queue` is null, or open and used by this thread alone.
void niclab_queue_push(struct niclab_flow_queue *queue);

// Writes the oldest results, at most `results_len`, and returns their number.
//
// # Safety
// `queue` is null, or open and used by this thread alone; `results` points to `results_len`
// places.
size_t niclab_queue_pull(struct niclab_flow_queue *queue,
                         struct niclab_completion *results,
                         size_t results_len);

// Opens a port with `queues` queue pairs, by the name that `niclab nic --port` takes: `tap:NAME`,
// `xdp:NAME`, `packet:NAME`, or `pcap:in=FILE,out=FILE,speed=N`, which has one queue pair.
//
// # Safety
// The pointers are valid, or null; `name` ends with a zero byte.
int32_t niclab_port_open(const char *name,
                         uint32_t queues,
                         struct niclab_port **port,
                         struct niclab_error *error);

// Closes a port. Fails if not all that was sent arrived; the port is closed then too.
//
// # Safety
// `port` is null or open, and no other call uses it; `error` is valid, or null.
int32_t niclab_port_close(struct niclab_port *port, struct niclab_error *error);

// Copies frames that have arrived into the program's buffers: frame i has `len` bytes of room at
// `data`, and gets its length there. Returns the number of frames, at most 64, or a negative
// `errno`.
//
// # Safety
// `port` is open, and each of the frames has `len` bytes at `data` that nobody else accesses.
int32_t niclab_port_receive(const struct niclab_port *port,
                            uint32_t queue,
                            struct niclab_frame *frames,
                            size_t frames_len,
                            struct niclab_error *error);

// Sends frames. Returns how many from the front were taken, at most 64, or a negative `errno`.
//
// # Safety
// `port` is open, and each of the frames has `len` bytes at `data`.
int32_t niclab_port_send(const struct niclab_port *port,
                         uint32_t queue,
                         const struct niclab_frame *frames,
                         size_t frames_len,
                         struct niclab_error *error);

// The counters of a queue pair.
//
// # Safety
// `port` is open, and the pointers are valid, or null.
int32_t niclab_port_counters(const struct niclab_port *port,
                             uint32_t queue,
                             struct niclab_port_counters *counters,
                             struct niclab_error *error);

// Reads a profile: one of those that come with niclab by its name, another by its path. Close it
// by `niclab_profile_close`; a NIC that was opened with it keeps a copy.
//
// # Safety
// The pointers are valid, or null; `name` ends with a zero byte.
int32_t niclab_profile_read(const char *name,
                            struct niclab_profile **profile,
                            struct niclab_error *error);

// Closes a profile.
//
// # Safety
// `profile` is null or was read, and no other call uses it.
void niclab_profile_close(struct niclab_profile *profile);

// The numbers of a profile.
//
// # Safety
// The pointers are valid, or null.
int32_t niclab_profile_card(const struct niclab_profile *profile,
                            struct niclab_card *card,
                            struct niclab_error *error);

// The time that the modelled card needs for the operations on rules since this was called last;
// the NIC has carried them out already. All zeros without a profile.
//
// # Safety
// `nic` is open, and the pointers are valid, or null.
int32_t niclab_take_spent(const struct niclab_nic *nic,
                          struct niclab_spent *spent,
                          struct niclab_error *error);

// Opens a NIC without rules: RSS sends all packets to the queues. Close it by `niclab_close`.
//
// # Safety
// The pointers are valid, or null.
int32_t niclab_open(const struct niclab_config *config,
                    struct niclab_nic **nic,
                    struct niclab_error *error);

// Opens the NIC anew with these queues and ports: its rules and indirect actions are gone, and
// their handles name nothing. Isolation and template tables stay; the profile of `config` does not
// matter. Workers and operation queues must be closed before.
//
// # Safety
// `nic` is open, and the pointers are valid, or null.
int32_t niclab_reopen(const struct niclab_nic *nic,
                      const struct niclab_config *config,
                      struct niclab_error *error);

// Closes a NIC. Its workers, template tables and operation queues must be closed before.
//
// # Safety
// `nic` is null or open, and no other call uses it.
void niclab_close(struct niclab_nic *nic);

// The most receive queues of a NIC.
uint16_t niclab_queues_max(void);

// Creates a rule; packets match it from now on. `handle` gets its handle, which is not 0.
//
// # Safety
// `nic` is open, and the pointers are valid, or null.
int32_t niclab_rule_create(const struct niclab_nic *nic,
                           const struct niclab_rule *rule,
                           uint64_t *handle,
                           struct niclab_error *error);

// Checks that a rule could be created now, and creates none.
//
// # Safety
// `nic` is open, and the pointers are valid, or null.
int32_t niclab_rule_validate(const struct niclab_nic *nic,
                             const struct niclab_rule *rule,
                             struct niclab_error *error);

// Replaces the actions of a rule. Each packet sees either the old or the new ones.
//
// # Safety
// `nic` is open, and the pointers are valid, or null.
int32_t niclab_rule_update(const struct niclab_nic *nic,
                           uint64_t handle,
                           const struct niclab_action *actions,
                           size_t actions_len,
                           struct niclab_error *error);

// Destroys a rule; later packets do not match it.
//
// # Safety
// `nic` is open, and `error` is valid, or null.
int32_t niclab_rule_destroy(const struct niclab_nic *nic,
                            uint64_t handle,
                            struct niclab_error *error);

// Destroys all rules.
//
// # Safety
// `nic` is open, and `error` is valid, or null.
int32_t niclab_rule_flush(const struct niclab_nic *nic, struct niclab_error *error);

// Sets the fate of packets that no rule matches: dropped if `on` is not 0, else sent by RSS.
//
// # Safety
// `nic` is open, and `error` is valid, or null.
int32_t niclab_isolate(const struct niclab_nic *nic, int32_t on, struct niclab_error *error);

// Number of rules; 0 if `nic` is null.
//
// # Safety
// `nic` is open, or null.
uint32_t niclab_rule_count(const struct niclab_nic *nic);

// Reads what a rule has counted since the last reset. `reset` other than 0 resets it.
//
// # Safety
// `nic` is open, and the pointers are valid, or null.
int32_t niclab_rule_counts(const struct niclab_nic *nic,
                           uint64_t handle,
                           int32_t reset,
                           struct niclab_counts *counts,
                           struct niclab_error *error);

// The age of a rule.
//
// # Safety
// `nic` is open, and the pointers are valid, or null.
int32_t niclab_rule_age(const struct niclab_nic *nic,
                        uint64_t handle,
                        struct niclab_age *age,
                        struct niclab_error *error);

// Sets the time, in nanoseconds from any moment: ages follow from it. Call it before the first
// rule that ages, and now and then; a worker can do so too. Earlier times are ignored.
//
// # Safety
// `nic` is open, or null.
void niclab_set_time(const struct niclab_nic *nic, uint64_t now_ns);

// The contexts of aged rules and indirect ages; the handle of those that have none. Returns how
// many there are, and writes at most `contexts_len` of them.
//
// # Safety
// `nic` is open, and `contexts` points to `contexts_len` places, or is null.
size_t niclab_aged(const struct niclab_nic *nic, uint64_t *contexts, size_t contexts_len);

// Writes a line about a rule, or about all rules if `handle` is 0.
//
// # Safety
// `nic` is open, `write` may be called with `context`, and `error` is valid, or null.
int32_t niclab_dump(const struct niclab_nic *nic,
                    uint64_t handle,
                    niclab_write write,
                    void *context,
                    struct niclab_error *error);

// Creates an indirect action, which several rules may have: age, count or rss.
//
// # Safety
// `nic` is open, and the pointers are valid, or null.
int32_t niclab_action_create(const struct niclab_nic *nic,
                             const struct niclab_action *action,
                             uint64_t *handle,
                             struct niclab_error *error);

// Changes an indirect action, and at the same instant all rules that have it.
//
// # Safety
// `nic` is open, and the pointers are valid, or null.
int32_t niclab_action_update(const struct niclab_nic *nic,
                             uint64_t handle,
                             const struct niclab_action *action,
                             struct niclab_error *error);

// Destroys an indirect action that no rule has.
//
// # Safety
// `nic` is open, and `error` is valid, or null.
int32_t niclab_action_destroy(const struct niclab_nic *nic,
                              uint64_t handle,
                              struct niclab_error *error);

// Reads the counts of all rules with an indirect counter since the last reset.
//
// # Safety
// `nic` is open, and the pointers are valid, or null.
int32_t niclab_action_counts(const struct niclab_nic *nic,
                             uint64_t handle,
                             int32_t reset,
                             struct niclab_counts *counts,
                             struct niclab_error *error);

// The age of an indirect age: of the rule that was hit last. All zeros while no rule has it.
//
// # Safety
// `nic` is open, and the pointers are valid, or null.
int32_t niclab_action_age(const struct niclab_nic *nic,
                          uint64_t handle,
                          struct niclab_age *age,
                          struct niclab_error *error);

// Changes the settings of the port's RSS; its indirection table too, if queues are given. What is
// left out stays. Takes effect between two bursts.
//
// # Safety
// `nic` is open, and the pointers are valid, or null.
int32_t niclab_rss_update(const struct niclab_nic *nic,
                          const struct niclab_rss *rss,
                          struct niclab_error *error);

// The settings of the port's RSS. `key` has room for 128 bytes, and `rss` gets its length; `rss`
// names no queues.
//
// # Safety
// `nic` is open, and the pointers are valid, or null.
int32_t niclab_rss_settings(const struct niclab_nic *nic,
                            struct niclab_rss *rss,
                            uint8_t *key,
                            struct niclab_error *error);

// Sets the queues of all 512 entries of the indirection table, at one instant.
//
// # Safety
// `nic` is open, and `queues` has 512 entries, or is null.
int32_t niclab_indirection_set(const struct niclab_nic *nic,
                               const uint16_t *queues,
                               struct niclab_error *error);

// The queues of all 512 entries of the indirection table.
//
// # Safety
// `nic` is open, and `queues` has room for 512 entries, or is null.
int32_t niclab_indirection(const struct niclab_nic *nic,
                           uint16_t *queues,
                           struct niclab_error *error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* NICLAB_H */
