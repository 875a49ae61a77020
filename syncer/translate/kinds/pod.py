"""A tenant's pod on the host, built field by field.

`POD_SPEC` names every field of Kubernetes 1.36 and what becomes of it: copied, translated by a sibling module, refused, or
dropped with the reason why that is safe. A field that is not in it is refused. At the end the host object itself is held
against Pod Security. Ephemeral containers cannot be part of a create and have their own function.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from bulkhead.api.labels import VIRTUAL_OWNERS as OWNERS
from bulkhead.api.objects import Obj
from bulkhead.api.privileges import is_slinky_worker
from syncer.translate import alternatives, metadata, schema
from syncer.translate.kinds import deviceclaim, gate, networkpolicy, podgroup
from syncer.translate.metadata import Identity
from syncer.translate.podspec import (
    affinity,
    constraints,
    containers,
    dns,
    downward,
    environment,
    placement,
    podsecurity,
    podsize,
    pulls,
    scheduling,
    tolerations,
    users,
    volumes,
)
from syncer.translate.podspec import security as security_contexts
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.references import SECRET
from syncer.translate.schema import FLAG, NAME, Dropped, ListOf, Number, OneOf, Refused, Struct, Text, Translated
from syncer.translate.view import WORKLOAD_SERVICE_ACCOUNT, TenantView

_SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_DAEMON_SET_POD: Final = "cluster-autoscaler.kubernetes.io/daemonset-pod"
GENERATION: Final = "bulkhead.dev/virtual-generation"
_APPARMOR_NOTE: Final = "container.apparmor.security.beta.kubernetes.io/"
_MOST_OWNERS: Final = 16
SHORTENED: Final = "GracePeriodShortened"  # the reason of the event
# Conditions that the host's own components write; a tenant's readiness gate may not go by their names.
NATIVE_CONDITIONS: Final = frozenset({
    "AllContainersRestarting", "ContainersReady", "DisruptionTarget", "Initialized", "PodReadyToStartContainers",
    "PodResizeInProgress", "PodResizePending", "PodScheduled", "Ready",
})  # fmt: skip

# Every field of a pod's spec of Kubernetes 1.36.
POD_SPEC: Final = Struct(
    {
        "volumes": Translated("volumes"),
        "initContainers": Translated("containers"),
        "containers": Translated("containers"),
        "ephemeralContainers": Translated("ephemeral_containers"),
        "restartPolicy": OneOf(("", "Always", "OnFailure", "Never")),
        "terminationGracePeriodSeconds": Translated("_grace"),
        "activeDeadlineSeconds": Number(1, (1 << 31) - 1),
        "dnsPolicy": Translated("dns"),
        "nodeSelector": Translated("scheduling"),
        "serviceAccountName": Translated("_fixed: the host's powerless service account"),
        "serviceAccount": Dropped("the old name of serviceAccountName"),
        "automountServiceAccountToken": Translated("_fixed: always false"),
        "nodeName": Translated("scheduling"),
        "hostNetwork": Refused(alternatives.HOST_NETWORK, Reason.POD_SECURITY),
        "hostPID": Refused(alternatives.HOST_PID, Reason.POD_SECURITY),
        "hostIPC": Refused(alternatives.HOST_IPC, Reason.POD_SECURITY),
        "shareProcessNamespace": FLAG,
        "securityContext": Translated("security"),
        "imagePullSecrets": Translated("_pull_secrets"),
        "hostname": Translated("dns"),
        "subdomain": Translated("dns"),
        "affinity": Translated("affinity"),
        "schedulerName": Translated("scheduling"),
        "tolerations": Translated("tolerations"),
        "hostAliases": Translated("dns"),
        "priorityClassName": Translated("scheduling"),
        "priority": Dropped("the host computes it from the class"),
        "dnsConfig": Translated("dns"),
        "readinessGates": ListOf(Struct({"conditionType": Text(317)}), 64),
        "runtimeClassName": Translated("scheduling"),
        "enableServiceLinks": Translated("environment"),
        "preemptionPolicy": Dropped("the host computes it from the class and refuses any other"),
        "overhead": Dropped("the host computes it from the runtime class"),
        "topologySpreadConstraints": Translated("affinity"),
        "setHostnameAsFQDN": Translated("dns"),
        "os": Struct({"name": OneOf(("linux",), Reason.NOT_SUPPORTED)}),
        "hostUsers": FLAG,
        "schedulingGates": Translated("scheduling"),
        "resourceClaims": Translated("deviceclaim"),
        "resources": containers.RESOURCES,
        "hostnameOverride": Translated("dns"),
        "schedulingGroup": Translated("podgroup"),
    }
)
_PULL_SECRETS: Final = ListOf(Struct({"name": NAME}), 100)


def to_host(virtual: Obj, view: TenantView, around: gate.Around = gate.NOTHING_AROUND) -> Obj:
    """The host pod to create for `virtual`."""
    identity = metadata.identity("Pod", virtual)
    own = schema.mapping(virtual.get("spec"), "spec")
    if alternatives.debugs_node(virtual):
        raise Untranslatable(Reason.POD_SECURITY, alternatives.DEBUGS_NODE, "spec")
    spec = schema.struct(own, POD_SPEC, "spec")
    if view.judges:
        constraints.check(own, on_host=False)
    built = _built_containers(virtual, identity, view)
    labels = schema.text_map(schema.mapping(virtual.get("metadata"), "metadata").get("labels"), "metadata.labels")
    containers.check_resources(spec.get("resources", {}), "spec.resources", view)
    _check_readiness_gates(spec)
    spec |= _fixed(spec, view) | built | dns.resolver(own, identity, view) | dns.hostname(own, identity, view)
    spec |= scheduling.classes(own, view)
    spec["terminationGracePeriodSeconds"] = _grace(own, view)
    node, away = scheduling.pinned_node(own, view), placement.avoided(own, view)
    wishes, made_for = affinity.affinity(own, labels, identity, view, node=node, away=away)
    optional = {
        "volumes": volumes.volumes(virtual, identity, view),
        "securityContext": security_contexts.of_pod(own),
        "imagePullSecrets": _pull_secrets(own, identity, view) + pulls.of_platform(built, own, view),
        "resourceClaims": deviceclaim.of_pod(virtual, identity, view),
        "hostAliases": dns.host_aliases(own, view),
        "nodeSelector": scheduling.node_selector(own, view),
        "tolerations": tolerations.of_pod(own, view),
        "schedulingGates": scheduling.gates(own),
        "schedulingGroup": podgroup.of_pod(own, identity, view),
        "affinity": wishes,
        "topologySpreadConstraints": affinity.spread(own, labels, identity, view),
    }
    deviceclaim.check_containers(built, optional["resourceClaims"])
    spec |= {key: value for key, value in optional.items() if value}
    if view.judges:
        constraints.check(spec, on_host=True)
        _judge(spec, view, droppable=is_slinky_worker(virtual))
    meta = metadata.host_metadata(
        identity,
        virtual,
        view,
        labels=metadata.namespace_labels(identity.namespace, view) | networkpolicy.isolation(labels, identity.namespace, view),
        annotations=_annotations(virtual),
    )
    if made_for:
        meta["annotations"][placement.MADE_FOR] = made_for
    if optional["schedulingGates"]:
        meta["annotations"][placement.ASKED_WITH] = placement.affinity_digest(virtual)
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    if view.judges:
        gate.close(made, virtual, view, around)
        _check_size(made, "", view)
    return made


def for_creation(virtual: Obj, view: TenantView, around: gate.Around = gate.NOTHING_AROUND) -> Obj:
    """The host pod as it is created: without ephemeral containers, and without the annotation of a generation that has some.

    How large it may be by its class is asked here alone: what runs stays when its class becomes tighter (`for_patch`).
    """
    desired = to_host(virtual, view, around)
    users.separate(desired["spec"], schema.mapping(virtual.get("spec"), "spec"), view)
    podsize.shared(desired["spec"], view)
    podsize.check(desired, view)
    if (virtual.get("spec") or {}).get("ephemeralContainers"):
        desired["metadata"]["annotations"].pop(GENERATION, None)
    return desired


def for_patch(virtual: Obj, host: Obj, view: TenantView) -> Obj:
    """The host pod as it should be, for one that is there.

    What its class withdrew since it came does not stop its labels: Services and network policies select by them. Only what
    makes it larger is held against how large a host pod may be: labels, annotations, images and tolerations, which may change.
    """
    desired = to_host(virtual, view.standing())
    grown, before = desired["metadata"], schema.mapping(host.get("metadata"), "metadata")
    if sum(_bytes(grown[field]) - _bytes(before.get(field) or {}) for field in ("labels", "annotations")) > 0:
        _check_size(desired, "metadata", view)
    if _images(desired["spec"]) > _images(schema.mapping(host.get("spec"), "spec")):
        _check_size(desired, "spec", view)
    _check_tolerations(desired, schema.mapping(host.get("spec"), "spec"), view)
    return desired


def _check_tolerations(desired: Obj, there: Mapping[str, Any], view: TenantView) -> None:
    """Hold tolerations that a tenant adds to a pod that is there against what a new one may have: the scheduler reads each."""
    held = there.get("tolerations") or []
    known = [*held, *(toleration.to_obj() for toleration in view.enforced_tolerations)]
    if more := [toleration for toleration in desired["spec"].get("tolerations", ()) if toleration not in known]:
        constraints.check({**there, "tolerations": [*held, *more]}, on_host=True)
        _check_size(desired, "spec.tolerations", view)


def ephemeral_containers(virtual: Obj, view: TenantView, there: Collection[str] = ()) -> list[Obj]:
    """The pod's ephemeral containers that are not `there` on the host, checked as part of the whole pod.

    Those that are were judged when they came. A profile of the pod's own was as well, and they may have it.
    """
    identity = metadata.identity("Pod", virtual)
    own = schema.mapping(virtual.get("spec"), "spec")
    listed = schema.items(own.get("ephemeralContainers"), "spec.ephemeralContainers", containers.MOST_CONTAINERS)
    new = [(at, entry) for at, entry in listed if entry.get("name") not in there]
    if not new:
        return []
    place = _place(own, identity, view)
    found = [containers.container(entry, at, place, containers.EPHEMERAL_CONTAINER) for at, entry in new]
    context = security_contexts.of_pod(own)
    added: Obj = {"ephemeralContainers": found, "securityContext": context}
    added["hostUsers"] = not view.user_namespaces and own.get("hostUsers") is not False
    _check_block_devices(added)
    podsecurity.check(added, view.pod_security)
    security_contexts.check_profiles({"ephemeralContainers": found}, view)
    old = [entry for _at, entry in listed if entry.get("name") in there]
    pulls.check_added(found, own, view)
    _check_size([*old, *found], "spec.ephemeralContainers", view)
    return found


def _place(spec: Mapping[str, Any], identity: Identity, view: TenantView) -> containers.Place:
    links = schema.flag(spec.get("enableServiceLinks"), "spec.enableServiceLinks") is not False
    return containers.Place(identity.namespace, environment.injected(identity.namespace, links, view), view)


def _built_containers(virtual: Obj, identity: Identity, view: TenantView) -> Obj:
    own = schema.mapping(virtual.get("spec"), "spec")
    place = _place(own, identity, view)
    built = {field: containers.containers(own, field, place) for field in ("initContainers", "containers")}
    if not built["containers"]:
        raise Untranslatable(Reason.MALFORMED, "a pod needs a container", "spec.containers")
    return {field: found for field, found in built.items() if found}


def _fixed(spec: Mapping[str, Any], view: TenantView) -> Obj:
    """What is the same on every host pod."""
    fixed: Obj = {
        "serviceAccountName": WORKLOAD_SERVICE_ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
    }
    if view.user_namespaces and spec.get("hostUsers") and view.judges:
        message = "every pod of this tenant runs in a user namespace of its own: leave hostUsers out, or set it to false"
        raise Untranslatable(Reason.NOT_ALLOWED, message, "spec.hostUsers")
    if view.user_namespaces:
        fixed["hostUsers"] = False
    return fixed


def _judge(spec: Mapping[str, Any], view: TenantView, *, droppable: bool) -> None:
    """Refuse a pod that the class's isolation does not allow."""
    _check_block_devices(spec)
    podsecurity.check(spec, view.pod_security, droppable=droppable)
    security_contexts.check_profiles(spec, view)


def _check_block_devices(spec: Mapping[str, Any]) -> None:
    """No API server takes them beside a user namespace, which the pod may have without having asked for it."""
    if spec.get("hostUsers") is not False:
        return
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for index, entry in enumerate(spec.get(field) or ()):
            if entry.get("volumeDevices"):
                message = "block devices are not available in a user namespace, in which this pod runs"
                raise Untranslatable(Reason.NOT_SUPPORTED, message, f"spec.{field}[{index}].volumeDevices")


def _check_size(made: Any, field: str, view: TenantView) -> None:
    """Refuse a pod that is too large: the host's store keeps it again with every change of a label or of its status."""
    size = _bytes(made)
    if size > view.max_pod_bytes:
        hint = "; text belongs into a ConfigMap, and enableServiceLinks: false leaves out the variables of Services"
        message = f"{size} bytes on the host, at most {view.max_pod_bytes} are mirrored{hint}"
        raise Untranslatable(Reason.TOO_LARGE, message, field)


def _images(spec: Mapping[str, Any]) -> int:
    """The bytes of all images of a host pod."""
    return sum(_bytes(entry.get("image")) for field in ("initContainers", "containers") for entry in spec.get(field) or ())


def _bytes(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))


def _grace(spec: Mapping[str, Any], view: TenantView) -> int:
    field = "spec.terminationGracePeriodSeconds"
    wanted = schema.number(spec.get("terminationGracePeriodSeconds"), field)
    # Without a second the host would forget the pod at once, and give its devices to others while its containers run.
    return min(30 if wanted is None else max(wanted, 1), view.max_grace_seconds)


def shortened(virtual: Mapping[str, Any], view: TenantView) -> str:
    """What the tenant reads of a grace period that is longer than its class allows; empty if it is not."""
    wanted, most = virtual.get("terminationGracePeriodSeconds"), view.max_grace_seconds
    if not isinstance(wanted, int) or wanted <= most:
        return ""
    bound = f"spec.terminationGracePeriodSeconds must be at most {most}, not {wanted}"
    return f"{bound}; the pod runs, and has {most} s to end once it is deleted"


def _pull_secrets(spec: Mapping[str, Any], identity: Identity, view: TenantView) -> list[Obj]:
    path = "spec.imagePullSecrets"
    named = schema.copy(spec.get("imagePullSecrets") or [], _PULL_SECRETS, path)
    return [environment.renamed(entry, SECRET, path, identity.namespace, view) for entry in named if entry.get("name")]


def _check_readiness_gates(spec: Mapping[str, Any]) -> None:
    for index, readiness_gate in enumerate(spec.get("readinessGates", [])):
        if readiness_gate.get("conditionType", "") in NATIVE_CONDITIONS:
            raise Untranslatable(
                Reason.NOT_ALLOWED, "the kubelet writes this condition itself", f"spec.readinessGates[{index}].conditionType"
            )


def _annotations(virtual: Obj) -> dict[str, str]:
    meta = schema.mapping(virtual.get("metadata"), "metadata")
    _check_apparmor_notes(meta)
    found = downward.annotations(virtual)
    owners = [
        {key: schema.text(owner.get(key), at, 253) for key in ("apiVersion", "kind", "name", "uid")}
        | {"controller": owner.get("controller") is True}
        for at, owner in schema.items(meta.get("ownerReferences"), "metadata.ownerReferences")[:_MOST_OWNERS]
    ]
    if owners:
        found[OWNERS] = json.dumps(owners, separators=(",", ":"), sort_keys=True)
    controllers = [owner["kind"] for owner in owners if owner["controller"]]
    generation = schema.number(meta.get("generation"), "metadata.generation")
    if generation is not None:
        found[GENERATION] = str(generation)
    found[_SAFE_TO_EVICT] = "true" if controllers else "false"
    if "DaemonSet" in controllers:
        found[_DAEMON_SET_POD] = "true"
    return found


def _check_apparmor_notes(meta: Mapping[str, Any]) -> None:
    """The old form of appArmorProfile: nothing but the default may be asked for; it is not copied."""
    for key, value in schema.mapping(meta.get("annotations"), "metadata.annotations").items():
        if isinstance(key, str) and key.startswith(_APPARMOR_NOTE) and value not in ("", "runtime/default"):
            raise Untranslatable(
                Reason.POD_SECURITY,
                "only the profile runtime/default may be set here",
                schema.key_path("metadata.annotations", key),
            )
