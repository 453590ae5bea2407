/* rte_flow: rules, queries, ages, indirect actions. A handle of libniclab is the rte_flow itself. */
#include "driver.h"

#include <errno.h>
#include <stdio.h>

int nl_no_nic(struct rte_flow_error *error)
{
	return rte_flow_error_set(error, ENODEV, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, NULL,
				  "the port has no NIC; configure it first");
}

/* A rule for libniclab, of what the program gives. */
static int translate(const struct nl_device *device, const struct rte_flow_attr *attr,
		     const struct rte_flow_item pattern[], const struct rte_flow_action actions[],
		     struct nl_items *to_items, struct nl_actions *to_actions,
		     struct niclab_rule *rule, struct rte_flow_error *error)
{
	int result = nl_check_attr(attr, error);

	if (result == 0)
		result = nl_translate_items(pattern, to_items, error);
	if (result == 0)
		result = nl_translate_actions(device, actions, NL_VALUES_ALL, to_actions, error);
	if (result != 0)
		return result;
	/* Ages begin now. */
	if (to_actions->has_age)
		niclab_set_time(device->nic, nl_now_ns());
	*rule = (struct niclab_rule){
		.group = attr->group,
		.priority = attr->priority,
		.items_len = to_items->count,
		.actions_len = to_actions->count,
		.items = to_items->items,
		.actions = to_actions->actions,
	};
	return 0;
}

static int flow_validate(struct rte_eth_dev *dev, const struct rte_flow_attr *attr,
			 const struct rte_flow_item pattern[],
			 const struct rte_flow_action actions[], struct rte_flow_error *error)
{
	struct nl_device *device = nl_device_of(dev);
	struct nl_items to_items;
	struct nl_actions to_actions;
	struct niclab_rule rule;
	struct niclab_error why;

	if (device->nic == NULL)
		return nl_no_nic(error);
	int result =
		translate(device, attr, pattern, actions, &to_items, &to_actions, &rule, error);
	if (result != 0)
		return result;
	return nl_flow_failed(niclab_rule_validate(device->nic, &rule, &why), &why, &to_items,
			      &to_actions, error);
}

static struct rte_flow *create_rule(struct nl_device *device, const struct rte_flow_attr *attr,
				    const struct rte_flow_item pattern[],
				    const struct rte_flow_action actions[],
				    struct rte_flow_error *error)
{
	struct nl_items to_items;
	struct nl_actions to_actions;
	struct niclab_rule rule;
	struct niclab_error why;
	uint64_t handle;

	if (translate(device, attr, pattern, actions, &to_items, &to_actions, &rule, error) != 0)
		return NULL;
	int result = niclab_rule_create(device->nic, &rule, &handle, &why);
	if (result != 0) {
		nl_flow_failed(result, &why, &to_items, &to_actions, error);
		return NULL;
	}
	return (struct rte_flow *)(uintptr_t)handle;
}

static struct rte_flow *flow_create(struct rte_eth_dev *dev, const struct rte_flow_attr *attr,
				    const struct rte_flow_item pattern[],
				    const struct rte_flow_action actions[],
				    struct rte_flow_error *error)
{
	struct nl_device *device = nl_device_of(dev);
	const uint64_t begin = nl_operation_begin(device);
	struct rte_flow *flow = NULL;

	if (device->nic != NULL)
		flow = create_rule(device, attr, pattern, actions, error);
	else
		nl_no_nic(error);
	nl_operation_end(device, begin);
	return flow;
}

static int flow_destroy(struct rte_eth_dev *dev, struct rte_flow *flow, struct rte_flow_error *error)
{
	struct nl_device *device = nl_device_of(dev);
	const uint64_t begin = nl_operation_begin(device);
	struct niclab_error why;
	int result = niclab_rule_destroy(device->nic, (uintptr_t)flow, &why);

	nl_operation_end(device, begin);
	return nl_flow_failed(result, &why, NULL, NULL, error);
}

static int flow_flush(struct rte_eth_dev *dev, struct rte_flow_error *error)
{
	struct niclab_error why;
	struct nl_device *device = nl_device_of(dev);

	/* ethdev flushes the rules of a port that it closes, too. */
	if (device->nic == NULL)
		return 0;
	const uint64_t begin = nl_operation_begin(device);
	int result = niclab_rule_flush(device->nic, &why);

	nl_operation_end(device, begin);
	return nl_flow_failed(result, &why, NULL, NULL, error);
}

static void write_age(const struct niclab_age *age, struct rte_flow_query_age *to)
{
	*to = (struct rte_flow_query_age){
		.aged = age->aged,
		.sec_since_last_hit_valid = 1,
		.sec_since_last_hit = RTE_MIN(age->idle_ns / 1000000000, UINT64_C(0xffffff)),
	};
}

static void write_counts(const struct niclab_counts *counts, struct rte_flow_query_count *to)
{
	to->hits_set = 1;
	to->bytes_set = 1;
	to->hits = counts->packets;
	to->bytes = counts->bytes;
}

static int flow_query(struct rte_eth_dev *dev, struct rte_flow *flow,
		      const struct rte_flow_action *action, void *data, struct rte_flow_error *error)
{
	struct nl_device *device = nl_device_of(dev);
	const uint64_t handle = (uintptr_t)flow;
	struct niclab_error why;
	struct niclab_counts counts;
	struct niclab_age age;
	int result = 0;

	for (; action->type != RTE_FLOW_ACTION_TYPE_END && result == 0; action++) {
		switch (action->type) {
		case RTE_FLOW_ACTION_TYPE_VOID:
			break;
		case RTE_FLOW_ACTION_TYPE_COUNT: {
			struct rte_flow_query_count *to = data;

			result = niclab_rule_counts(device->nic, handle, to->reset, &counts, &why);
			if (result == 0)
				write_counts(&counts, to);
			break;
		}
		case RTE_FLOW_ACTION_TYPE_AGE:
			niclab_set_time(device->nic, nl_now_ns());
			result = niclab_rule_age(device->nic, handle, &age, &why);
			if (result == 0)
				write_age(&age, data);
			break;
		default:
			return rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, action,
						  "only count and age can be queried");
		}
	}
	return nl_flow_failed(result, &why, NULL, NULL, error);
}

static int flow_isolate(struct rte_eth_dev *dev, int on, struct rte_flow_error *error)
{
	struct nl_device *device = nl_device_of(dev);
	struct niclab_error why;

	if (device->nic == NULL)
		return nl_no_nic(error);
	return nl_flow_failed(niclab_isolate(device->nic, on, &why), &why, NULL, NULL, error);
}

static void write_text(void *file, const char *text, size_t len)
{
	fwrite(text, 1, len, file);
}

static int flow_dump(struct rte_eth_dev *dev, struct rte_flow *flow, FILE *file,
		     struct rte_flow_error *error)
{
	struct nl_device *device = nl_device_of(dev);
	struct niclab_error why;

	if (device->nic == NULL)
		return nl_no_nic(error);
	niclab_set_time(device->nic, nl_now_ns());
	int result = niclab_dump(device->nic, (uintptr_t)flow, write_text, file, &why);
	return nl_flow_failed(result, &why, NULL, NULL, error);
}

static int flow_get_aged(struct rte_eth_dev *dev, void **contexts, uint32_t count,
			 struct rte_flow_error *error)
{
	struct nl_device *device = nl_device_of(dev);

	RTE_BUILD_BUG_ON(sizeof(void *) != sizeof(uint64_t));
	if (device->nic == NULL)
		return nl_no_nic(error);
	niclab_set_time(device->nic, nl_now_ns());
	size_t aged = niclab_aged(device->nic, (uint64_t *)contexts, count);
	return (int)(count == 0 ? aged : RTE_MIN(aged, (size_t)count));
}

/* Refuses END and VOID, which are no action; the cause is the program's, not our list. */
static int is_no_action(const struct nl_actions *to, const struct rte_flow_action *action,
			struct rte_flow_error *error)
{
	if (to->count == 1)
		return 0;
	return rte_flow_error_set(error, EINVAL, RTE_FLOW_ERROR_TYPE_ACTION, action,
				  "this is no action that can be indirect");
}

/* Gives an indirect age another timeout; DPDK has a structure of its own for that. */
static int update_age(struct nl_device *device, struct rte_flow_action_handle *handle,
		      const struct rte_flow_update_age *update, struct rte_flow_error *error)
{
	struct niclab_error why;
	const struct niclab_action action = {
		.kind = NICLAB_ACTION_KIND_AGE,
		.value = update->timeout,
	};

	if (update->touch)
		return rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION_CONF, update,
					  "niclab does not start an age anew");
	if (!update->timeout_valid)
		return 0;
	int result = niclab_action_update(device->nic, (uintptr_t)handle, &action, &why);

	return nl_flow_failed(result, &why, NULL, NULL, error);
}

struct rte_flow_action_handle *nl_action_handle_create(struct rte_eth_dev *dev,
						       const struct rte_flow_indir_action_conf *conf,
						       const struct rte_flow_action *action,
						       struct rte_flow_error *error)
{
	struct nl_device *device = nl_device_of(dev);
	const struct rte_flow_action list[2] = {*action, {.type = RTE_FLOW_ACTION_TYPE_END}};
	struct nl_actions to;
	struct niclab_error why;
	uint64_t handle;

	if (device->nic == NULL) {
		nl_no_nic(error);
		return NULL;
	}
	if (conf != NULL && (conf->egress || conf->transfer)) {
		rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR, NULL,
				   "indirect actions are for ingress");
		return NULL;
	}
	if (nl_translate_actions(device, list, NL_VALUES_ALL, &to, error) != 0 ||
	    is_no_action(&to, action, error))
		return NULL;
	if (to.has_age)
		niclab_set_time(device->nic, nl_now_ns());
	int result = niclab_action_create(device->nic, to.actions, &handle, &why);
	if (result != 0) {
		nl_flow_failed(result, &why, NULL, NULL, error);
		return NULL;
	}
	return (struct rte_flow_action_handle *)(uintptr_t)handle;
}

int nl_action_handle_destroy(struct rte_eth_dev *dev, struct rte_flow_action_handle *handle,
			     struct rte_flow_error *error)
{
	struct niclab_error why;
	int result = niclab_action_destroy(nl_device_of(dev)->nic, (uintptr_t)handle, &why);

	return nl_flow_failed(result, &why, NULL, NULL, error);
}

int nl_action_handle_update(struct rte_eth_dev *dev, struct rte_flow_action_handle *handle,
			    const void *update, struct rte_flow_error *error)
{
	struct nl_device *device = nl_device_of(dev);
	struct niclab_age age;
	struct niclab_error not_age;

	if (niclab_action_age(device->nic, (uintptr_t)handle, &age, &not_age) == 0)
		return update_age(device, handle, update, error);
	const struct rte_flow_action *action = update;
	const struct rte_flow_action list[2] = {*action, {.type = RTE_FLOW_ACTION_TYPE_END}};
	struct nl_actions to;
	struct niclab_error why;
	int result = nl_translate_actions(device, list, NL_VALUES_ALL, &to, error);

	if (result == 0)
		result = is_no_action(&to, action, error);
	if (result != 0)
		return result;
	result = niclab_action_update(device->nic, (uintptr_t)handle, to.actions, &why);
	return nl_flow_failed(result, &why, NULL, NULL, error);
}

int nl_action_handle_query(struct rte_eth_dev *dev, const struct rte_flow_action_handle *handle,
			   void *data, struct rte_flow_error *error)
{
	struct nl_device *device = nl_device_of(dev);
	struct niclab_error why;
	struct niclab_counts counts;
	struct niclab_age age;

	/* What is written depends on the action, and only a counter reads `reset`. */
	niclab_set_time(device->nic, nl_now_ns());
	if (niclab_action_age(device->nic, (uintptr_t)handle, &age, &why) == 0) {
		write_age(&age, data);
		return 0;
	}
	struct rte_flow_query_count *to = data;
	int result =
		niclab_action_counts(device->nic, (uintptr_t)handle, to->reset, &counts, &why);
	if (result == 0)
		write_counts(&counts, to);
	return nl_flow_failed(result, &why, NULL, NULL, error);
}

#if RTE_VERSION >= RTE_VERSION_NUM(23, 7, 0, 0)
static int flow_update(struct rte_eth_dev *dev, struct rte_flow *flow,
		       const struct rte_flow_action actions[], struct rte_flow_error *error)
{
	struct nl_device *device = nl_device_of(dev);
	struct nl_actions to;
	struct niclab_error why;
	int result = nl_translate_actions(device, actions, NL_VALUES_ALL, &to, error);

	if (result != 0)
		return result;
	const uint64_t begin = nl_operation_begin(device);
	result = niclab_rule_update(device->nic, (uintptr_t)flow, to.actions, to.count, &why);
	nl_operation_end(device, begin);
	return nl_flow_failed(result, &why, NULL, &to, error);
}
#endif

const struct rte_flow_ops nl_flow_ops = {
	.validate = flow_validate,
	.create = flow_create,
	.destroy = flow_destroy,
	.flush = flow_flush,
	.query = flow_query,
	.isolate = flow_isolate,
	.dev_dump = flow_dump,
	.get_aged_flows = flow_get_aged,
	.action_handle_create = nl_action_handle_create,
	.action_handle_destroy = nl_action_handle_destroy,
	.action_handle_update = nl_action_handle_update,
	.action_handle_query = nl_action_handle_query,
#if RTE_VERSION >= RTE_VERSION_NUM(23, 7, 0, 0)
	.actions_update = flow_update,
#endif
	.info_get = nl_flow_info_get,
	.configure = nl_flow_configure,
	.pattern_template_create = nl_pattern_template_create,
	.pattern_template_destroy = nl_pattern_template_destroy,
	.actions_template_create = nl_actions_template_create,
	.actions_template_destroy = nl_actions_template_destroy,
	.template_table_create = nl_template_table_create,
	.template_table_destroy = nl_template_table_destroy,
#ifndef NL_HAS_QUEUE_CALLS
	.async_create = nl_async_create,
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
	.async_create_by_index = nl_async_create_by_index,
#endif
#if RTE_VERSION >= RTE_VERSION_NUM(23, 7, 0, 0)
	.async_actions_update = nl_async_actions_update,
#endif
	.async_destroy = nl_async_destroy,
	.push = nl_push,
	.pull = nl_pull,
	.async_action_handle_create = nl_async_action_handle_create,
	.async_action_handle_destroy = nl_async_action_handle_destroy,
	.async_action_handle_update = nl_async_action_handle_update,
	.async_action_handle_query = nl_async_action_handle_query,
#endif
};
