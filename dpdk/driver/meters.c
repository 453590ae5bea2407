/* rte_mtr: profiles (RFC 2697 and RFC 2698), policies and meters. The card's meters are colour-blind,
 * measure bytes, let green and yellow packets pass and drop red ones, and count nothing. */
#include "driver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_mtr_driver.h>

/* Meters have numbers below this, as in the library. */
#define METERS_MAX (1 << 16)

/* The most bytes a second, and the most bytes of a burst. */
#define METER_SIZE_MAX (UINT64_C(1) << 40)

enum kind { PROFILE, POLICY, METER };

/* A profile, a policy or a meter of a device. */
struct nl_meter_object {
	struct nl_meter_object *next;
	enum kind kind;
	uint32_t id;
	/* Of a profile, and of the meters with it. */
	struct niclab_meter meter;
	/* Of a meter. */
	uint32_t profile;
	uint32_t policy;
};

static int refuse(struct rte_mtr_error *error, int code, enum rte_mtr_error_type type,
		  const char *message)
{
	return rte_mtr_error_set(error, code, type, NULL, message);
}

static struct nl_meter_object *find(struct nl_device *device, enum kind kind, uint32_t id)
{
	struct nl_meter_object *object = device->meters;

	while (object != NULL && (object->kind != kind || object->id != id))
		object = object->next;
	return object;
}

/* Adds an object; 0, or a negative error. */
static int add(struct nl_device *device, const struct nl_meter_object *added,
	       enum rte_mtr_error_type type, struct rte_mtr_error *error)
{
	if (find(device, added->kind, added->id) != NULL)
		return refuse(error, EEXIST, type, "the number is in use; choose another");
	struct nl_meter_object *object = malloc(sizeof(*object));
	if (object == NULL)
		return refuse(error, ENOMEM, RTE_MTR_ERROR_TYPE_UNSPECIFIED, "no memory");
	*object = *added;
	object->next = device->meters;
	device->meters = object;
	return 0;
}

static void remove_object(struct nl_device *device, struct nl_meter_object *object)
{
	struct nl_meter_object **at = &device->meters;

	while (*at != object)
		at = &(*at)->next;
	*at = object->next;
	free(object);
}

/* Whether a meter has a profile or a policy. */
static int is_used(const struct nl_device *device, enum kind kind, uint32_t id)
{
	for (const struct nl_meter_object *at = device->meters; at != NULL; at = at->next)
		if (at->kind == METER && (kind == PROFILE ? at->profile : at->policy) == id)
			return 1;
	return 0;
}

/* Removes a profile or a policy that no meter has. */
static int remove_unused(struct nl_device *device, enum kind kind, uint32_t id,
			 enum rte_mtr_error_type type, struct rte_mtr_error *error)
{
	struct nl_meter_object *object = find(device, kind, id);

	if (object == NULL)
		return refuse(error, ENOENT, type, "there is none with this number; add it first");
	if (is_used(device, kind, id))
		return refuse(error, EBUSY, type, "a meter has it; destroy the meter first");
	remove_object(device, object);
	return 0;
}

static int capabilities_get(struct rte_eth_dev *dev, struct rte_mtr_capabilities *to,
			    struct rte_mtr_error *error)
{
	RTE_SET_USED(dev);
	RTE_SET_USED(error);
	*to = (struct rte_mtr_capabilities){
		.n_max = METERS_MAX,
		.n_shared_max = METERS_MAX,
		.identical = 1,
		.shared_identical = 1,
		.shared_n_flows_per_mtr_max = UINT32_MAX,
		.chaining_n_mtrs_per_flow_max = 1,
		.meter_srtcm_rfc2697_n_max = METERS_MAX,
		.meter_trtcm_rfc2698_n_max = METERS_MAX,
		.meter_rate_max = METER_SIZE_MAX,
		.meter_policy_n_max = UINT32_MAX,
		.srtcm_rfc2697_byte_mode_supported = 1,
		.trtcm_rfc2698_byte_mode_supported = 1,
	};
	return 0;
}

static int profile_add(struct rte_eth_dev *dev, uint32_t id, struct rte_mtr_meter_profile *profile,
		       struct rte_mtr_error *error)
{
	struct nl_meter_object added = {.kind = PROFILE, .id = id};

	if (profile->packet_mode)
		return refuse(error, ENOTSUP, RTE_MTR_ERROR_TYPE_METER_PROFILE_PACKET_MODE,
			      "meters of niclab measure bytes; use packet mode 0");
	switch (profile->alg) {
	case RTE_MTR_SRTCM_RFC2697:
		added.meter = (struct niclab_meter){
			.cir = profile->srtcm_rfc2697.cir,
			.cbs = profile->srtcm_rfc2697.cbs,
			.ebs = profile->srtcm_rfc2697.ebs,
		};
		break;
	case RTE_MTR_TRTCM_RFC2698:
		added.meter = (struct niclab_meter){
			.has_two_rates = 1,
			.cir = profile->trtcm_rfc2698.cir,
			.pir = profile->trtcm_rfc2698.pir,
			.cbs = profile->trtcm_rfc2698.cbs,
			.ebs = profile->trtcm_rfc2698.pbs,
		};
		break;
	default:
		return refuse(error, ENOTSUP, RTE_MTR_ERROR_TYPE_METER_PROFILE,
			      "niclab has the algorithms of RFC 2697 and RFC 2698");
	}
	return add(nl_device_of(dev), &added, RTE_MTR_ERROR_TYPE_METER_PROFILE_ID, error);
}

static int profile_delete(struct rte_eth_dev *dev, uint32_t id, struct rte_mtr_error *error)
{
	return remove_unused(nl_device_of(dev), PROFILE, id, RTE_MTR_ERROR_TYPE_METER_PROFILE_ID,
			     error);
}

/* Whether the actions of packets of a colour are a drop (1), or let them pass (0): none, or the colour
 * that they have; -1 for anything else. */
static int is_drop(const struct rte_flow_action *actions, enum rte_color color)
{
	int drops = 0;

	for (; actions != NULL && actions->type != RTE_FLOW_ACTION_TYPE_END; actions++) {
		const struct rte_flow_action_meter_color *given = actions->conf;

		if (actions->type == RTE_FLOW_ACTION_TYPE_DROP)
			drops = 1;
		else if (actions->type != RTE_FLOW_ACTION_TYPE_VOID &&
			 (actions->type != RTE_FLOW_ACTION_TYPE_METER_COLOR || given == NULL ||
			  given->color != color))
			return -1;
	}
	return drops;
}

static int policy_validate(struct rte_eth_dev *dev, struct rte_mtr_meter_policy_params *policy,
			   struct rte_mtr_error *error)
{
	RTE_SET_USED(dev);
	if (is_drop(policy->actions[RTE_COLOR_GREEN], RTE_COLOR_GREEN) == 0 &&
	    is_drop(policy->actions[RTE_COLOR_YELLOW], RTE_COLOR_YELLOW) == 0 &&
	    is_drop(policy->actions[RTE_COLOR_RED], RTE_COLOR_RED) == 1)
		return 0;
	return refuse(error, ENOTSUP, RTE_MTR_ERROR_TYPE_METER_POLICY,
		      "meters of niclab let green and yellow pass and drop red: give red `drop`, and "
		      "the others their colour or nothing");
}

static int policy_add(struct rte_eth_dev *dev, uint32_t id,
		      struct rte_mtr_meter_policy_params *policy, struct rte_mtr_error *error)
{
	const struct nl_meter_object added = {.kind = POLICY, .id = id};
	int result = policy_validate(dev, policy, error);

	return result != 0 ? result
			   : add(nl_device_of(dev), &added, RTE_MTR_ERROR_TYPE_METER_POLICY_ID,
				 error);
}

static int policy_delete(struct rte_eth_dev *dev, uint32_t id, struct rte_mtr_error *error)
{
	return remove_unused(nl_device_of(dev), POLICY, id, RTE_MTR_ERROR_TYPE_METER_POLICY_ID,
			     error);
}

/* Passes an error of the library on. */
static int failed(int result, const struct niclab_error *why, struct rte_mtr_error *error)
{
	/* rte_mtr keeps a pointer: each thread's last message stays until its next. */
	static __thread char message[NICLAB_MESSAGE_LEN];

	if (result == 0)
		return 0;
	memcpy(message, why->message, sizeof(message));
	return refuse(error, -result, RTE_MTR_ERROR_TYPE_UNSPECIFIED, message);
}

/* What of the parameters of a meter the card does not have; NULL if it has all. */
static const char *lacking(const struct rte_mtr_params *params)
{
	if (!params->meter_enable)
		return "a meter of niclab is always on: create it enabled";
	if (params->stats_mask != 0)
		return "meters of niclab count nothing: use stats mask 0, and count in the rule";
	if (params->use_prev_mtr_color || params->default_input_color != RTE_COLOR_GREEN ||
	    params->dscp_table != NULL || params->vlan_table != NULL)
		return "meters of niclab are colour-blind: give no colours of before";
	return NULL;
}

static int meter_create(struct rte_eth_dev *dev, uint32_t id, struct rte_mtr_params *params,
			int shared, struct rte_mtr_error *error)
{
	struct nl_device *device = nl_device_of(dev);
	const char *reason = lacking(params);
	struct nl_meter_object added = {
		.kind = METER,
		.id = id,
		.profile = params->meter_profile_id,
		.policy = params->meter_policy_id,
	};
	struct niclab_error why;

	/* Any number of rules may name a meter. */
	RTE_SET_USED(shared);
	if (reason != NULL)
		return refuse(error, ENOTSUP, RTE_MTR_ERROR_TYPE_MTR_PARAMS, reason);
	const struct nl_meter_object *profile = find(device, PROFILE, params->meter_profile_id);
	if (profile == NULL)
		return refuse(error, ENOENT, RTE_MTR_ERROR_TYPE_METER_PROFILE_ID,
			      "there is no such profile; add it first");
	if (find(device, POLICY, params->meter_policy_id) == NULL)
		return refuse(error, ENOENT, RTE_MTR_ERROR_TYPE_METER_POLICY_ID,
			      "there is no such policy; add it first");
	if (find(device, METER, id) != NULL)
		return refuse(error, EEXIST, RTE_MTR_ERROR_TYPE_MTR_ID,
			      "the meter exists; choose another number");
	added.meter = profile->meter;
	int result = failed(niclab_meter_create(device->nic, id, &added.meter, &why), &why, error);
	if (result != 0)
		return result;
	result = add(device, &added, RTE_MTR_ERROR_TYPE_MTR_ID, error);
	if (result != 0)
		niclab_meter_destroy(device->nic, id, NULL);
	else
		device->has_meters = 1;
	return result;
}

static int meter_destroy(struct rte_eth_dev *dev, uint32_t id, struct rte_mtr_error *error)
{
	struct nl_device *device = nl_device_of(dev);
	struct nl_meter_object *meter = find(device, METER, id);
	struct niclab_error why;

	if (meter == NULL)
		return refuse(error, ENOENT, RTE_MTR_ERROR_TYPE_MTR_ID, "there is no such meter");
	int result = failed(niclab_meter_destroy(device->nic, id, &why), &why, error);
	if (result == 0)
		remove_object(device, meter);
	return result;
}

int nl_meters_reopen(struct nl_device *device, struct niclab_error *why)
{
	int result = 0;

	for (struct nl_meter_object *at = device->meters; at != NULL && result == 0; at = at->next)
		if (at->kind == METER)
			result = niclab_meter_create(device->nic, at->id, &at->meter, why);
	return result;
}

void nl_meters_close(struct nl_device *device)
{
	while (device->meters != NULL)
		remove_object(device, device->meters);
}

static const struct rte_mtr_ops meter_ops = {
	.capabilities_get = capabilities_get,
	.meter_profile_add = profile_add,
	.meter_profile_delete = profile_delete,
	.meter_policy_validate = policy_validate,
	.meter_policy_add = policy_add,
	.meter_policy_delete = policy_delete,
	.create = meter_create,
	.destroy = meter_destroy,
};

int nl_mtr_ops_get(struct rte_eth_dev *dev, void *ops)
{
	RTE_SET_USED(dev);
	*(const struct rte_mtr_ops **)ops = &meter_ops;
	return 0;
}
