"""All host objects of a plane, in the stages in which they are applied.

The order within a stage does not matter, and its objects are applied in parallel; a stage begins when the previous one is done.
Pods start in the stages after the parts, so that a kubelet never waits for a missing Secret or ConfigMap. The DNS server comes
last: if it started before the API server is ready, it would retry at growing intervals and connect seconds late.

Stages differ in what a refusal by the host means. Objects that protect (network policies, quotas, rights) or that the plane
needs block every later stage: no plane is better than an unprotected one. Extras are objects that a plane runs without, such as
its way in from outside. Each is applied independently, once everything that protects is in place, and a refused one blocks
nothing.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bulkhead.api.objects import Obj
from controller.plane import (
    apiserver,
    auditreceiver,
    authentication,
    dns,
    environment,
    exposure,
    namespaces,
    network,
    pullsecret,
    quota,
    restoring,
    rights,
    secrets,
    services,
    statefulset,
    syncer,
)
from controller.plane.secrets import KeyMaterial, digest
from controller.plane.spec import PlaneSpec


@dataclass(frozen=True, slots=True)
class Rendered:
    """The stages of one plane."""

    namespaces: tuple[Obj, ...]
    rights: tuple[Obj, ...]
    authorities: tuple[Obj, ...]
    parts: tuple[Obj, ...]
    workloads: tuple[Obj, ...]
    followers: tuple[Obj, ...]
    extras: tuple[Obj, ...]

    def everything(self) -> tuple[Obj, ...]:
        """Every object, in order."""
        return (*self.namespaces, *self.rights, *self.authorities, *self.parts, *self.workloads, *self.followers, *self.extras)


def ground(spec: PlaneSpec) -> tuple[tuple[Obj, ...], tuple[Obj, ...]]:
    """The first two stages, which need no keys: without them the controller has no right to read keys."""
    bindings = (rights.binding(spec), *rights.ledger(spec), *pullsecret.binding(spec))
    return (services.service_cidr(spec), *namespaces.namespaces(spec)), bindings


def render(spec: PlaneSpec, keys: KeyMaterial) -> Rendered:
    """The whole plane."""
    plane_config = statefulset.config_map(spec, keys.authorities["kubelet"].certificate.decode())
    read_once = apiserver.read_once(plane_config["data"]) | auditreceiver.read_once(spec.audit)
    dns_config, syncer_config = dns.config_map(spec), syncer.config_map(spec)
    first, second = ground(spec)
    return Rendered(
        namespaces=first,
        rights=second,
        authorities=tuple(secrets.authority_secrets(spec, keys)),
        parts=(
            *secrets.leaf_secrets(spec, keys),
            *auditreceiver.secrets(spec),
            plane_config,
            *authentication.config_maps(spec),
            dns_config,
            syncer_config,
            *services.services(spec),
            *syncer.accounts(spec),
            *syncer.access(spec),
            *network.policies(spec),
            *environment.config_maps(spec),
            *quota.resource_quotas(spec),
            quota.limit_range(spec),
        ),
        workloads=(
            statefulset.stateful_set(spec, trust=keys.trust, config=_digest(read_once)),
            syncer.deployment(spec, leaf=keys.read_once("pki-syncer"), config=_digest(syncer.read_once(spec))),
            *restoring.deployments(spec),
        ),
        followers=(dns.deployment(spec, leaf=keys.read_once("pki-dns"), config=_digest(dns_config["data"])),),
        extras=(*exposure.ways(spec), statefulset.disruption_budget(spec)),
    )


def _digest(told: Mapping[str, Any]) -> str:
    return digest(json.dumps(told, sort_keys=True).encode())
