"""Reads nodes, pods and claims of the host as the ledger sees them.

    Node ──> node_of ──> model.Node         labels, taints that keep pods away, room, Ready
    Pod  ──> pod_of  ──> model.Pod | None   requests, stage, gang, needs; None once it has ended
    ResourceClaim ──> bare_claim ──> claim_of ──> model.Claim | None   its requests of classes that stand for a resource

Objects may have any content. A field of the wrong shape reads as absent. A selector or an affinity of the wrong shape matches
no node, because without it the pod would match more nodes than the host's scheduler allows. The namespace of a pod determines
the tenant to which it belongs. Pure.
"""

import functools
import re
from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api import deviceclaims, labels, ledger, names, podresources, requirements, virtualowners
from bulkhead.api.conditions import condition_of
from bulkhead.api.podphase import has_ended, is_pending_deletion
from bulkhead.api.quantity import base_units, readable
from bulkhead.api.untrusted import mapping, mappings, sequence, text
from bulkhead.ledger.model import (
    GATED,
    HELD,
    AdmittedGang,
    Claim,
    Expression,
    Gang,
    Needs,
    Node,
    Pod,
    Stage,
    Taint,
    Tenant,
    Toleration,
)

_KEEPING: Final = frozenset({"NoSchedule", "NoExecute"})
_MOST_TAINTS: Final = 256
# Needs with more requirements than this are not shared between pods: looking them up costs too much.
SHARED_REQUIREMENTS: Final = 64
NOWHERE: Final = Needs(terms=((),))
# Fields of volumes that every node can mount.
_ANYWHERE: Final = frozenset(
    {"name", "configMap", "secret", "emptyDir", "projected", "downwardAPI", "hostPath", "nfs", "image"},
)
_SLURM: Final = {"app.kubernetes.io/part-of": "slurm", "app.kubernetes.io/name": "slurmd"}
_NUMBER: Final = re.compile(r"-?[0-9]{1,10}")
_INT32: Final = 2**31
DEFAULT_GRACE_SECONDS: Final = 30  # if a pod sets none
_LONGEST_NAME: Final = 253


def node_of(obj: Mapping[str, Any]) -> Node:
    """A host node."""
    meta, spec, status = mapping(obj.get("metadata")), mapping(obj.get("spec")), mapping(obj.get("status"))
    room = ((name, readable(value)) for name, value in mapping(status.get("allocatable")).items())
    taints = (
        Taint(text(taint.get("key")), text(taint.get("value")), text(taint.get("effect")))
        for taint in mappings(spec.get("taints"), _MOST_TAINTS)
    )
    # A node without a Ready condition counts as ready: until its kubelet reports, it has a taint that keeps pods away.
    ready = condition_of(obj, "Ready").get("status", "True") == "True"
    return Node(
        name=text(meta.get("name")),
        allocatable={name: base_units(name, number, "down") for name, number in room if number is not None},
        labels={key: value for key, value in mapping(meta.get("labels")).items() if isinstance(value, str)},
        taints=tuple(taint for taint in taints if taint.effect in _KEEPING),
        usable=spec.get("unschedulable") is not True and ready,
        lost=not ready,
    )


def pod_of(obj: Mapping[str, Any], known: Needs | None = None) -> Pod | None:
    """A host pod; None if it has ended, so that its room and quota are free.

    `known` are its needs, if they were read before. The needs of a pod that never had the gate and already has a node are not
    read, because no decision uses them.
    """
    meta, spec, status = mapping(obj.get("metadata")), mapping(obj.get("spec")), mapping(obj.get("status"))
    uid, name, namespace = (text(meta.get(field)) for field in ("uid", "name", "namespace"))
    if not uid or not name or has_ended(obj):
        return None
    noted = mapping(meta.get("annotations"))
    node = text(spec.get("nodeName"))
    stage = _stage(spec, node)
    tenant = names.tenant_of_work(namespace)
    held = stage in HELD
    admitted = ledger.read_admitted(noted) if held and tenant else None
    reclaimed = ledger.read_reclaim(noted) if held and tenant else None
    lasts, since = spec.get("activeDeadlineSeconds"), ledger.seconds(status.get("startTime"))
    # At its deadline a pod is told to end, and then has its grace period.
    lasts = float(lasts) + grace_of(spec) if type(lasts) is int and 0 < lasts < _INT32 else None
    ends_at = ledger.seconds(meta.get("deletionTimestamp"))
    ends = [at for at in (None if lasts is None or since is None else since + lasts, ends_at) if at is not None]
    pin = labels.HOSTNAME if admitted is not None and admitted.pinned and not admitted.fixed else ""
    settled = bool(node) and admitted is None
    controller = virtualowners.controller_of(noted) if tenant else {}
    return Pod(
        uid=uid,
        namespace=namespace,
        name=name,
        asks=_asks(obj),
        stage=stage,
        created=ledger.seconds(meta.get("creationTimestamp")) or 0.0,
        tenant=tenant,
        node=node,
        virtual_namespace=text(noted.get(labels.VIRTUAL_NAMESPACE)),
        virtual_name=text(noted.get(labels.VIRTUAL_NAME)),
        virtual_uid=text(noted.get(labels.VIRTUAL_UID))[:_LONGEST_NAME],
        priority=_int32(spec.get("priority")),
        own_priority=_written(noted.get(ledger.OWN_PRIORITY)) or 0 if tenant else 0,
        gang=_gang(noted) if tenant else None,
        needs=Needs() if settled else known if known is not None else _needs(spec, pin),
        plain=not settled and _plain(spec),
        admitted=None if admitted is None else admitted.at,
        admitted_gang=None if admitted is None or admitted.gang is None else _shared_gang(admitted.gang),
        shape="" if admitted is None else admitted.shape,
        alone=admitted is not None and admitted.alone,
        flavor="" if admitted is None else admitted.flavor,
        pinned=admitted.node if admitted is not None and admitted.pinned else "",
        ending=is_pending_deletion(obj),
        ends_at=ends_at,
        ends_by=min(ends, default=None),
        lasts=lasts,
        reclaim_by=None if reclaimed is None else reclaimed.by,
        reclaim_cause="" if reclaimed is None else reclaimed.cause,
        slurm_worker=bool(tenant) and _says_slurm_worker(meta, noted),
        maker=text(controller.get("uid"))[:_LONGEST_NAME],
        owner=virtualowners.owner_name(controller, text(noted.get(labels.VIRTUAL_NAME)) or name) if tenant and not held else "",
    )


def without_ending(pods: tuple[Pod, ...], tenants: frozenset[str]) -> tuple[Pod, ...]:
    """The pods without those that wait at the gate for a tenant that is being deleted: its teardown removes them.

    Until its syncer has stopped, they would be admitted, take what others wait for, and have their whole grace period to end.
    """
    return tuple(pod for pod in pods if pod.tenant not in tenants or pod.stage not in GATED) if tenants else pods


def bare_claim(obj: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fields of a claim that the ledger needs; None if no syncer created it.

    The host's scheduler also creates claims, for pods that request devices as an extended resource. Those count with the pod.
    """
    namespace = text(mapping(obj.get("metadata")).get("namespace"))
    if not names.tenant_of_work(namespace) or not labels.is_mirrored(obj):
        return None
    return {"metadata": {"namespace": namespace}, "spec": deviceclaims.bare(obj)}


def claim_of(obj: Mapping[str, Any], tenants: Mapping[str, Tenant]) -> Claim | None:
    """The quota that a claim holds; None if none of its device classes counts as a resource of its tenant's quota."""
    tenant = names.tenant_of_work(text(mapping(obj.get("metadata")).get("namespace")))
    devices = tenants[tenant].devices if tenant in tenants else {}
    if not devices:
        return None
    counted = deviceclaims.charged(obj, devices)
    asks = {resource: number for resource, number in counted.items() if resource in devices.values()}
    return Claim(tenant, asks) if asks else None


def _stage(spec: Mapping[str, Any], node: str) -> Stage:
    gates = [gate.get("name") for gate in mappings(spec.get("schedulingGates"))]
    if node:
        return Stage.BOUND
    if ledger.GATE in gates:
        return Stage.WAITING if len(gates) == 1 else Stage.BLOCKED
    return Stage.ADMITTED


def grace_of(spec: Mapping[str, Any]) -> int:
    """How many seconds a pod may take to end, by its own spec."""
    grace = spec.get("terminationGracePeriodSeconds")
    return min(grace, _INT32) if type(grace) is int and grace >= 0 else DEFAULT_GRACE_SECONDS


def _asks(obj: Mapping[str, Any]) -> dict[str, int]:
    reserved = podresources.reserved(obj)
    return {name: base_units(name, number, "up") for name, number in reserved.items() if number > 0}


def _gang(noted: Mapping[str, Any]) -> Gang | None:
    name, size = text(noted.get(ledger.GANG)), _written(noted.get(ledger.GANG_SIZE))
    if not 0 < len(name) <= _LONGEST_NAME or size is None or not 1 <= size <= ledger.MOST_PODS:
        return None
    return Gang(name, size, ledger.read_topology(text(noted.get(ledger.GANG_TOPOLOGY))))


@functools.lru_cache(maxsize=4096)
def _shared_gang(gang: AdmittedGang) -> AdmittedGang:
    """One object for all pods of a gang."""
    return gang


def _says_slurm_worker(meta: Mapping[str, Any], noted: Mapping[str, Any]) -> bool:
    """Whether a pod looks like a Slurm worker of the platform; other operators use the same labels.

    A tenant can write all of this, so the controller decides whether it is one (`controller.dispatch.workers`).
    """
    marks = mapping(meta.get("labels"))
    if noted.get(labels.VIRTUAL_NAMESPACE) != names.SLURM_NAMESPACE:
        return False
    return all(marks.get(key) == value for key, value in _SLURM.items()) and any(
        owner.get("controller") is True and text(owner.get("apiVersion")).startswith(f"{names.SLURM_GROUP}/")
        for owner in virtualowners.owners_of(noted)
    )


def _plain(spec: Mapping[str, Any]) -> bool:
    """Whether the pod has no placement rule, required or preferred, that the ledger does not check."""
    wishes = mapping(spec.get("affinity"))
    if wishes.get("podAffinity") or wishes.get("podAntiAffinity"):
        return False
    if spec.get("topologySpreadConstraints") or spec.get("resourceClaims"):
        return False
    if any(not _ANYWHERE.issuperset(volume) for volume in mappings(spec.get("volumes"))):
        return False
    return not any(
        port.get("hostPort")
        for container in podresources.containers({"spec": spec})
        for port in mappings(container.get("ports"))
    )


def _needs(spec: Mapping[str, Any], pin: str) -> Needs:
    """Where a pod may go, by its own spec: the label `pin`, by which the ledger pinned it, does not count."""
    selector = {key: value for key, value in mapping(spec.get("nodeSelector")).items() if key != pin}
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    tolerations = sequence(spec.get("tolerations"))
    listed = mappings(mapping(required).get("nodeSelectorTerms"))
    # Checked before anything is built from it; the host's admission policy allows no more.
    size = len(selector) + len(tolerations) + sum(map(requirements.of_node_term, listed))
    if size > requirements.MOST or not all(isinstance(value, str) for value in selector.values()):
        return NOWHERE
    # A required affinity without terms matches no node.
    terms = () if required is None else tuple(map(_term, listed)) or ((),)
    needs = Needs(tuple(sorted(selector.items())), terms, _tolerations(mappings(tolerations)))
    return _shared(needs) if size <= SHARED_REQUIREMENTS else needs


def weight(needs: Needs) -> int:
    """How many terms, expressions and values these needs have; each takes a few hundred bytes of memory."""
    return (
        len(needs.selector)
        + len(needs.tolerations)
        + sum(1 + len(expression.values) for term in needs.terms for expression in term)
    )


def _term(term: Mapping[str, Any]) -> tuple[Expression, ...]:
    asked = [(expression, False) for expression in mappings(term.get("matchExpressions"))]
    asked += [(expression, True) for expression in mappings(term.get("matchFields"))]
    return tuple(_expression(expression, of_name=of_name) for expression, of_name in asked)


def _expression(asked: Mapping[str, Any], *, of_name: bool) -> Expression:
    values = sequence(asked.get("values"))
    known = all(isinstance(value, str) for value in values) and (not of_name or asked.get("key") == "metadata.name")
    # An expression that no API server accepts gets no operator, so that it matches no node.
    return Expression(
        text(asked.get("key")), text(asked.get("operator")) if known else "", tuple(values) if known else (), of_name
    )


def _tolerations(listed: list[Mapping[str, Any]]) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(
            text(toleration.get("key")),
            text(toleration.get("value")),
            text(toleration.get("effect")),
            exists=toleration.get("operator") == "Exists",
        )
        for toleration in listed
        # `in (…)` and not a set: the operator may be a value that has no hash.
        if toleration.get("operator") in (None, "", "Equal", "Exists")
    )


@functools.lru_cache(maxsize=4096)
def _shared(needs: Needs) -> Needs:
    """One object for equal needs: ten thousand pods have few different ones."""
    return needs


def _written(value: Any) -> int | None:
    return _bounded(int(value)) if isinstance(value, str) and _NUMBER.fullmatch(value) else None


def _int32(value: Any) -> int:
    return (_bounded(value) or 0) if type(value) is int else 0


def _bounded(number: int) -> int | None:
    return number if -_INT32 <= number < _INT32 else None
