/* rte_flow: templates, tables and asynchronous operations. */
#include "driver.h"

#include <errno.h>
#include <stdlib.h>

#include <rte_errno.h>

#define FLOW_QUEUE_SIZE_DEFAULT 1024

/* A copy of the program's items; rte_flow_conv made it. */
struct rte_flow_pattern_template {
	struct rte_flow_item *pattern;
};

struct rte_flow_actions_template {
	struct rte_flow_action *actions;
	uint8_t fixed[NL_ACTIONS_MAX];
};

struct rte_flow_template_table {
	struct niclab_table *table;
};

int nl_flow_info_get(struct rte_eth_dev *dev, struct rte_flow_port_info *port,
		     struct rte_flow_queue_info *queue, struct rte_flow_error *error)
{
	RTE_SET_USED(dev);
	RTE_SET_USED(error);
	if (port != NULL)
		*port = (struct rte_flow_port_info){
			.max_nb_queues = NL_FLOW_QUEUES_MAX,
			.max_nb_counters = 16 << 20,
			.max_nb_aging_objects = 16 << 20,
		};
	if (queue != NULL)
		queue->max_size = 1 << 20;
	return 0;
}

void nl_flow_queues_close(struct nl_device *device)
{
	for (uint16_t i = 0; i < device->flow_queues_count; i++) {
		niclab_queue_close(device->flow_queues[i].queue);
		device->flow_queues[i].queue = NULL;
	}
	device->flow_queues_count = 0;
}

int nl_flow_configure(struct rte_eth_dev *dev, const struct rte_flow_port_attr *port,
		      uint16_t count, const struct rte_flow_queue_attr *attrs[],
		      struct rte_flow_error *error)
{
	struct nl_device *device = nl_device_of(dev);
	struct niclab_error why;

	RTE_SET_USED(port);
	if (device->nic == NULL)
		return nl_no_nic(error);
	if (count > NL_FLOW_QUEUES_MAX)
		return rte_flow_error_set(error, EINVAL, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, NULL,
					  "a port has at most 64 flow queues");
	nl_flow_queues_close(device);
	for (uint16_t i = 0; i < count; i++) {
		uint32_t size = attrs[i]->size != 0 ? attrs[i]->size : FLOW_QUEUE_SIZE_DEFAULT;
		int result = niclab_queue_open(device->nic, size, &device->flow_queues[i].queue, &why);

		if (result != 0) {
			nl_flow_queues_close(device);
			return nl_flow_failed(result, &why, NULL, NULL, error);
		}
		device->flow_queues_count = i + 1;
	}
	return 0;
}

/* A deep copy of a list of items or actions, which `free` ends; NULL if there is no memory. */
static void *copy(enum rte_flow_conv_op op, const void *from, struct rte_flow_error *error)
{
	int size = rte_flow_conv(op, NULL, 0, from, error);
	void *to = size > 0 ? calloc(1, size) : NULL;

	if (to == NULL) {
		rte_flow_error_set(error, size < 0 ? -size : ENOMEM,
				   RTE_FLOW_ERROR_TYPE_UNSPECIFIED, NULL,
				   "the template cannot be copied");
		return NULL;
	}
	if (rte_flow_conv(op, to, size, from, error) < 0) {
		free(to);
		return NULL;
	}
	return to;
}

struct rte_flow_pattern_template *
nl_pattern_template_create(struct rte_eth_dev *dev,
			   const struct rte_flow_pattern_template_attr *attr,
			   const struct rte_flow_item pattern[], struct rte_flow_error *error)
{
	struct nl_items items;

	RTE_SET_USED(dev);
	if (attr->egress || attr->transfer || !attr->ingress) {
		rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR, attr,
				   "niclab has rules for ingress alone");
		return NULL;
	}
	if (nl_translate_items(pattern, &items, error) != 0)
		return NULL;
	struct rte_flow_pattern_template *template = calloc(1, sizeof(*template));
	if (template != NULL)
		template->pattern = copy(RTE_FLOW_CONV_OP_PATTERN, pattern, error);
	if (template == NULL || template->pattern == NULL) {
		free(template);
		return NULL;
	}
	return template;
}

int nl_pattern_template_destroy(struct rte_eth_dev *dev, struct rte_flow_pattern_template *template,
				struct rte_flow_error *error)
{
	RTE_SET_USED(dev);
	RTE_SET_USED(error);
	free(template->pattern);
	free(template);
	return 0;
}

/* Bytes of the configuration of an action; 0 for an action without one. */
static size_t conf_len(enum rte_flow_action_type type)
{
	switch ((int)type) {
	case RTE_FLOW_ACTION_TYPE_AGE:
		return sizeof(struct rte_flow_action_age);
	case RTE_FLOW_ACTION_TYPE_JUMP:
		return sizeof(struct rte_flow_action_jump);
	case RTE_FLOW_ACTION_TYPE_MARK:
		return sizeof(struct rte_flow_action_mark);
	case RTE_FLOW_ACTION_TYPE_METER:
		return sizeof(struct rte_flow_action_meter);
	case RTE_FLOW_ACTION_TYPE_NVGRE_ENCAP:
	case RTE_FLOW_ACTION_TYPE_VXLAN_ENCAP:
		return sizeof(struct rte_flow_action_vxlan_encap);
	case RTE_FLOW_ACTION_TYPE_OF_PUSH_VLAN:
		return sizeof(struct rte_flow_action_of_push_vlan);
	case RTE_FLOW_ACTION_TYPE_OF_SET_VLAN_PCP:
		return sizeof(struct rte_flow_action_of_set_vlan_pcp);
	case RTE_FLOW_ACTION_TYPE_OF_SET_VLAN_VID:
		return sizeof(struct rte_flow_action_of_set_vlan_vid);
	case RTE_FLOW_ACTION_TYPE_QUEUE:
		return sizeof(struct rte_flow_action_queue);
	case RTE_FLOW_ACTION_TYPE_RAW_DECAP:
		return sizeof(struct rte_flow_action_raw_decap);
	case RTE_FLOW_ACTION_TYPE_RAW_ENCAP:
		return sizeof(struct rte_flow_action_raw_encap);
	case RTE_FLOW_ACTION_TYPE_RSS:
		return sizeof(struct rte_flow_action_rss);
	case RTE_FLOW_ACTION_TYPE_SET_IPV4_DSCP:
	case RTE_FLOW_ACTION_TYPE_SET_IPV6_DSCP:
		return sizeof(struct rte_flow_action_set_dscp);
	case RTE_FLOW_ACTION_TYPE_SET_IPV4_DST:
	case RTE_FLOW_ACTION_TYPE_SET_IPV4_SRC:
		return sizeof(struct rte_flow_action_set_ipv4);
	case RTE_FLOW_ACTION_TYPE_SET_IPV6_DST:
	case RTE_FLOW_ACTION_TYPE_SET_IPV6_SRC:
		return sizeof(struct rte_flow_action_set_ipv6);
	case RTE_FLOW_ACTION_TYPE_SET_MAC_DST:
	case RTE_FLOW_ACTION_TYPE_SET_MAC_SRC:
		return sizeof(struct rte_flow_action_set_mac);
	case RTE_FLOW_ACTION_TYPE_SET_META:
		return sizeof(struct rte_flow_action_set_meta);
	case RTE_FLOW_ACTION_TYPE_SET_TAG:
		return sizeof(struct rte_flow_action_set_tag);
	case RTE_FLOW_ACTION_TYPE_SET_TP_DST:
	case RTE_FLOW_ACTION_TYPE_SET_TP_SRC:
		return sizeof(struct rte_flow_action_set_tp);
	case RTE_FLOW_ACTION_TYPE_SET_TTL:
		return sizeof(struct rte_flow_action_set_ttl);
	default:
		return 0;
	}
}

/* Whether the template fixes the values of an action: its mask has a bit, or there are no values.
 * An indirect action is fixed if both the action and the mask name one. */
static uint8_t is_fixed(const struct rte_flow_action *action, const struct rte_flow_action *mask)
{
	const size_t len = conf_len(action->type);
	const uint8_t *bytes = mask->conf;

	if (action->type == RTE_FLOW_ACTION_TYPE_INDIRECT)
		return action->conf != NULL && mask->conf != NULL;
	if (len == 0)
		return 1;
	if (action->conf == NULL || bytes == NULL)
		return 0;
	for (size_t i = 0; i < len; i++)
		if (bytes[i] != 0)
			return 1;
	return 0;
}

struct rte_flow_actions_template *
nl_actions_template_create(struct rte_eth_dev *dev,
			   const struct rte_flow_actions_template_attr *attr,
			   const struct rte_flow_action actions[],
			   const struct rte_flow_action masks[], struct rte_flow_error *error)
{
	struct nl_actions to;

	if (attr->egress || attr->transfer || !attr->ingress) {
		rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR, attr,
				   "niclab has rules for ingress alone");
		return NULL;
	}
	if (nl_translate_actions(nl_device_of(dev), actions, NL_VALUES_SOME, &to, error) != 0)
		return NULL;
	struct rte_flow_actions_template *template = calloc(1, sizeof(*template));
	if (template == NULL)
		return NULL;
	for (uint32_t i = 0; i < to.count; i++)
		template->fixed[i] = is_fixed(to.from[i], &masks[to.from[i] - actions]);
	template->actions = copy(RTE_FLOW_CONV_OP_ACTIONS, actions, error);
	if (template->actions == NULL) {
		free(template);
		return NULL;
	}
	return template;
}

int nl_actions_template_destroy(struct rte_eth_dev *dev, struct rte_flow_actions_template *template,
				struct rte_flow_error *error)
{
	RTE_SET_USED(dev);
	RTE_SET_USED(error);
	free(template->actions);
	free(template);
	return 0;
}

/* The most templates of a table. */
#define TEMPLATES_MAX 16

/* What is too large for a stack, while a table is made. */
struct table_parts {
	struct nl_items items[TEMPLATES_MAX];
	struct nl_actions actions[TEMPLATES_MAX];
	struct niclab_pattern patterns[TEMPLATES_MAX];
	struct niclab_actions lists[TEMPLATES_MAX];
};

static int translate_templates(const struct nl_device *device, struct table_parts *parts,
			       struct rte_flow_pattern_template *patterns[], uint8_t patterns_count,
			       struct rte_flow_actions_template *actions[], uint8_t actions_count,
			       struct rte_flow_error *error)
{
	for (uint8_t i = 0; i < patterns_count; i++) {
		int result = nl_translate_items(patterns[i]->pattern, &parts->items[i], error);

		if (result != 0)
			return result;
		parts->patterns[i].items = parts->items[i].items;
		parts->patterns[i].items_len = parts->items[i].count;
	}
	for (uint8_t i = 0; i < actions_count; i++) {
		int result = nl_translate_actions(device, actions[i]->actions, NL_VALUES_SOME,
						  &parts->actions[i], error);

		if (result != 0)
			return result;
		parts->lists[i] = (struct niclab_actions){
			.actions_len = parts->actions[i].count,
			.actions = parts->actions[i].actions,
			.fixed = actions[i]->fixed,
		};
	}
	return 0;
}

struct rte_flow_template_table *
nl_template_table_create(struct rte_eth_dev *dev, const struct rte_flow_template_table_attr *attr,
			 struct rte_flow_pattern_template *patterns[], uint8_t patterns_count,
			 struct rte_flow_actions_template *actions[], uint8_t actions_count,
			 struct rte_flow_error *error)
{
	struct nl_device *device = nl_device_of(dev);
	struct niclab_error why;

	if (device->nic == NULL) {
		nl_no_nic(error);
		return NULL;
	}
	if (nl_check_attr(&attr->flow_attr, error) != 0)
		return NULL;
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
	if (attr->insertion_type != RTE_FLOW_TABLE_INSERTION_TYPE_PATTERN) {
		rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR, attr,
				   "niclab finds rules by their pattern; make a table for insertion "
				   "by pattern");
		return NULL;
	}
#endif
	if (patterns_count > TEMPLATES_MAX || actions_count > TEMPLATES_MAX) {
		rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, NULL,
				   "a table has at most 16 templates of each kind");
		return NULL;
	}
	struct table_parts *parts = calloc(1, sizeof(*parts));
	struct rte_flow_template_table *table = calloc(1, sizeof(*table));
	int result = parts != NULL && table != NULL ? 0 : -ENOMEM;
	if (result == 0)
		result = translate_templates(device, parts, patterns, patterns_count, actions,
					     actions_count, error);
	if (result == 0) {
		struct niclab_template template = {
			.group = attr->flow_attr.group,
			.priority = attr->flow_attr.priority,
			.patterns_len = patterns_count,
			.patterns = parts->patterns,
			.actions_len = actions_count,
			.actions = parts->lists,
		};

		result = niclab_table_create(device->nic, &template, &table->table, &why);
		nl_flow_failed(result, &why, NULL, NULL, error);
	}
	free(parts);
	if (result != 0) {
		free(table);
		return NULL;
	}
	return table;
}

int nl_template_table_destroy(struct rte_eth_dev *dev, struct rte_flow_template_table *table,
			      struct rte_flow_error *error)
{
	struct nl_device *device = nl_device_of(dev);

	RTE_SET_USED(error);
	niclab_table_destroy(device->nic, table->table);
	free(table);
	return 0;
}

static struct niclab_flow_queue *queue_of(struct rte_eth_dev *dev, uint32_t queue,
					  struct rte_flow_error *error)
{
	struct nl_device *device = nl_device_of(dev);

	if (queue < device->flow_queues_count)
		return device->flow_queues[queue].queue;
	rte_flow_error_set(error, EINVAL, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, NULL,
			   "no such flow queue; call rte_flow_configure with more queues");
	return NULL;
}

struct rte_flow *nl_async_create(struct rte_eth_dev *dev, uint32_t queue,
				 const struct rte_flow_op_attr *attr,
				 struct rte_flow_template_table *table,
				 const struct rte_flow_item pattern[], uint8_t pattern_index,
				 const struct rte_flow_action actions[], uint8_t actions_index,
				 void *user, struct rte_flow_error *error)
{
	struct nl_device *device = nl_device_of(dev);
	struct niclab_flow_queue *flows = queue_of(dev, queue, error);
	struct nl_items items;
	struct nl_actions list;
	struct niclab_error why;
	uint64_t handle;
	const uint64_t begin = nl_operation_begin(device);
	struct rte_flow *flow = NULL;

	if (flows != NULL && nl_translate_items(pattern, &items, error) == 0 &&
	    nl_translate_actions(device, actions, NL_VALUES_SOME, &list, error) == 0) {
		const struct niclab_enqueued_rule rule = {
			.pattern = pattern_index,
			.actions_template = actions_index,
			.items_len = items.count,
			.actions_len = list.count,
			.items = items.items,
			.actions = list.actions,
			.user = (uintptr_t)user,
			.postpone = attr->postpone,
		};

		if (list.has_age)
			niclab_set_time(device->nic, nl_now_ns());
		int result = niclab_queue_create(flows, table->table, &rule, &handle, &why);
		if (nl_flow_failed(result, &why, &items, &list, error) == 0)
			flow = (struct rte_flow *)(uintptr_t)handle;
	}
	nl_operation_end(device, begin);
	return flow;
}

/* Before 24.03 rte_flow calls these without a check that a driver has them. */
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
struct rte_flow *nl_async_create_by_index(struct rte_eth_dev *dev, uint32_t queue,
					  const struct rte_flow_op_attr *attr,
					  struct rte_flow_template_table *table, uint32_t index,
					  const struct rte_flow_action actions[],
					  uint8_t actions_index, void *user,
					  struct rte_flow_error *error)
{
	RTE_SET_USED(dev);
	RTE_SET_USED(queue);
	RTE_SET_USED(attr);
	RTE_SET_USED(table);
	RTE_SET_USED(index);
	RTE_SET_USED(actions);
	RTE_SET_USED(actions_index);
	RTE_SET_USED(user);
	rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, NULL,
			   "niclab has no rules by index; use rte_flow_async_create");
	return NULL;
}
#endif

#if RTE_VERSION >= RTE_VERSION_NUM(23, 7, 0, 0)
int nl_async_actions_update(struct rte_eth_dev *dev, uint32_t queue,
			    const struct rte_flow_op_attr *attr, struct rte_flow *flow,
			    const struct rte_flow_action actions[], uint8_t actions_index,
			    void *user, struct rte_flow_error *error)
{
	RTE_SET_USED(dev);
	RTE_SET_USED(queue);
	RTE_SET_USED(attr);
	RTE_SET_USED(flow);
	RTE_SET_USED(actions);
	RTE_SET_USED(actions_index);
	RTE_SET_USED(user);
	return rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, NULL,
				  "niclab updates no rule through a queue; use "
				  "rte_flow_actions_update");
}
#endif

int nl_async_destroy(struct rte_eth_dev *dev, uint32_t queue, const struct rte_flow_op_attr *attr,
		     struct rte_flow *flow, void *user, struct rte_flow_error *error)
{
	struct nl_device *device = nl_device_of(dev);
	struct niclab_flow_queue *flows = queue_of(dev, queue, error);
	struct niclab_error why;

	if (flows == NULL)
		return -EINVAL;
	const uint64_t begin = nl_operation_begin(device);
	int result = niclab_queue_destroy(flows, (uintptr_t)flow, (uintptr_t)user, attr->postpone,
					  &why);
	nl_operation_end(device, begin);
	return nl_flow_failed(result, &why, NULL, NULL, error);
}

int nl_push(struct rte_eth_dev *dev, uint32_t queue, struct rte_flow_error *error)
{
	struct nl_device *device = nl_device_of(dev);
	struct niclab_flow_queue *flows = queue_of(dev, queue, error);

	if (flows == NULL)
		return -EINVAL;
	const uint64_t begin = nl_operation_begin(device);
	niclab_queue_push(flows);
	nl_operation_end(device, begin);
	return 0;
}

int nl_pull(struct rte_eth_dev *dev, uint32_t queue, struct rte_flow_op_result results[],
	    uint16_t count, struct rte_flow_error *error)
{
	struct niclab_flow_queue *flows = queue_of(dev, queue, error);
	struct niclab_completion done[64];
	uint16_t pulled = 0;

	if (flows == NULL)
		return -EINVAL;
	while (pulled < count) {
		size_t more = niclab_queue_pull(flows, done, RTE_MIN(count - pulled, 64));

		if (more == 0)
			break;
		for (size_t i = 0; i < more; i++)
			results[pulled++] = (struct rte_flow_op_result){
				.status = done[i].done ? RTE_FLOW_OP_SUCCESS : RTE_FLOW_OP_ERROR,
				.user_data = (void *)(uintptr_t)done[i].user,
			};
	}
	return pulled;
}

/* The queue of an operation that is carried out at once, if it has room for the result. Earlier
 * operations come first: a rule that is still to be destroyed may have an indirect action. */
static struct niclab_flow_queue *queue_with_room(struct rte_eth_dev *dev, uint32_t queue,
						 struct rte_flow_error *error)
{
	struct niclab_flow_queue *flows = queue_of(dev, queue, error);
	struct niclab_error why;

	if (flows == NULL)
		return NULL;
	if (nl_flow_failed(niclab_queue_check_room(flows, &why), &why, NULL, NULL, error) != 0)
		return NULL;
	return nl_push(dev, queue, error) == 0 ? flows : NULL;
}

/* Reports an operation that was carried out at once as one of the queue, which has room. */
static int complete(struct niclab_flow_queue *flows, void *user, struct rte_flow_error *error)
{
	struct niclab_error why;

	return nl_flow_failed(niclab_queue_complete(flows, (uintptr_t)user, 1, &why), &why, NULL,
			      NULL, error);
}

struct rte_flow_action_handle *
nl_async_action_handle_create(struct rte_eth_dev *dev, uint32_t queue,
			      const struct rte_flow_op_attr *attr,
			      const struct rte_flow_indir_action_conf *conf,
			      const struct rte_flow_action *action, void *user,
			      struct rte_flow_error *error)
{
	struct niclab_flow_queue *flows = queue_with_room(dev, queue, error);

	RTE_SET_USED(attr);
	if (flows == NULL)
		return NULL;
	struct rte_flow_action_handle *handle = nl_action_handle_create(dev, conf, action, error);
	if (handle != NULL)
		complete(flows, user, error);
	return handle;
}

int nl_async_action_handle_destroy(struct rte_eth_dev *dev, uint32_t queue,
				   const struct rte_flow_op_attr *attr,
				   struct rte_flow_action_handle *handle, void *user,
				   struct rte_flow_error *error)
{
	struct niclab_flow_queue *flows = queue_with_room(dev, queue, error);

	RTE_SET_USED(attr);
	if (flows == NULL)
		return -rte_errno;
	int result = nl_action_handle_destroy(dev, handle, error);
	return result != 0 ? result : complete(flows, user, error);
}

int nl_async_action_handle_update(struct rte_eth_dev *dev, uint32_t queue,
				  const struct rte_flow_op_attr *attr,
				  struct rte_flow_action_handle *handle, const void *update,
				  void *user, struct rte_flow_error *error)
{
	struct niclab_flow_queue *flows = queue_with_room(dev, queue, error);

	RTE_SET_USED(attr);
	if (flows == NULL)
		return -rte_errno;
	int result = nl_action_handle_update(dev, handle, update, error);
	return result != 0 ? result : complete(flows, user, error);
}

int nl_async_action_handle_query(struct rte_eth_dev *dev, uint32_t queue,
				 const struct rte_flow_op_attr *attr,
				 const struct rte_flow_action_handle *handle, void *data,
				 void *user, struct rte_flow_error *error)
{
	struct niclab_flow_queue *flows = queue_with_room(dev, queue, error);

	RTE_SET_USED(attr);
	if (flows == NULL)
		return -rte_errno;
	int result = nl_action_handle_query(dev, handle, data, error);
	return result != 0 ? result : complete(flows, user, error);
}

#ifdef NL_HAS_QUEUE_CALLS
void nl_queue_calls_set(struct rte_eth_dev *dev)
{
	struct rte_flow_fp_ops *calls = &nl_device_of(dev)->queue_calls;

	/* rte_flow does not check that a call is there. A new device has calls that all refuse. */
	*calls = *dev->flow_fp_ops;
	calls->async_create = nl_async_create;
	calls->async_create_by_index = nl_async_create_by_index;
	calls->async_actions_update = nl_async_actions_update;
	calls->async_destroy = nl_async_destroy;
	calls->push = nl_push;
	calls->pull = nl_pull;
	calls->async_action_handle_create = nl_async_action_handle_create;
	calls->async_action_handle_destroy = nl_async_action_handle_destroy;
	calls->async_action_handle_update = nl_async_action_handle_update;
	calls->async_action_handle_query = nl_async_action_handle_query;
	dev->flow_fp_ops = calls;
}
#endif
