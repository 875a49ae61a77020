"""A class is a bound: which values a Tenant may set instead of its class's, one small policy for each field. Pure.

A Tenant may tighten what its class sets, choose from what the class lists, and nothing else. Each policy looks at one field and
yields its fault: the field, the Tenant's value and what the class allows. All policies are asked, so that an admin who has
tightened a class sees at once everything that stands in the way. Each finding has its path and the part that the class allows,
so that the rest of a Tenant can be built without the fault (`within`).

`POLICIES` is the whole list. Quotas of resources, versions and the Slurm cluster are checked by policies of `admit`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from typing import Any, Final, TypeAlias

from bulkhead.api import deviceclaims
from bulkhead.api.quantity import Amount, InvalidQuantityError, mebibytes, parse, readable
from bulkhead.api.untrusted import mappings
from controller import cohorts
from controller.decide import backup, deletion, exposure
from controller.plane.budgets import COMPONENTS, Budget, usual_budget, usual_cpu_limit
from controller.plane.sections import STORAGE_SIZE
from controller.plane.sizing import STORE_QUOTA_MIB, VOLUME_SHARE, quota_of_volume
from controller.sections import over, put, section_of, text_or_none
from controller.shares.spec import FIELDS, offered

Section: TypeAlias = Mapping[str, Any]

# From the loosest to the tightest.
_POD_SECURITY: Final = ("baseline", "restricted")
# The object counts of a tenant whose class sets none: enough to work with, and too few to fill the host.
_OBJECTS: Final = {
    "pods": 1000,
    "services": 200,
    "configmaps": 1000,
    "secrets": 1000,
    "persistentvolumeclaims": 100,
    "count/networkpolicies.networking.k8s.io": 200,
    "count/poddisruptionbudgets.policy": 200,
    "count/ingresses.networking.k8s.io": 100,
    "services.nodeports": 0,
    "services.loadbalancers": 0,
}
_DEDICATED: Final = ("nodes", "dedicated")
# Pods that have ended stay in the host's etcd until they are deleted. A plane deletes its oldest ended pods beyond 500
# (`--terminated-pod-gc-threshold`), so with this much on top of the running pods no tenant is kept from running any.
_ALL_PODS: Final = "count/pods"
_MAX_ENDED_PODS: Final = 1000


@dataclass(frozen=True, slots=True)
class Question:
    """What a Tenant requests, and what its class and the installation offer."""

    asked: Section
    offer: Section
    storage_class: str = ""  # the installation's, if the class names none
    tenant: str = ""
    domains: tuple[str, ...] = ()  # the installation's domains, in which tenants have names
    has_proxy: bool = False


@dataclass(frozen=True, slots=True)
class Excess:
    """One field that exceeds the class: its path in the spec, and the message with both values."""

    path: tuple[str, ...]
    message: str
    # The part that the class allows; None if it allows nothing, and then the class's value applies.
    instead: Any = None


Policy: TypeAlias = Callable[[Question], Iterator[Excess]]


def beyond(question: Question) -> tuple[Excess, ...]:
    """Everything that a Tenant requests beyond its class; empty if it stays within."""
    return tuple(finding for policy in POLICIES for finding in policy(question))


def within(asked: Section, excess: Iterable[Excess]) -> dict[str, Any]:
    """What a Tenant requests, without what exceeds its class."""
    spec = dict(asked)
    for finding in excess:
        spec = put(spec, finding.path, finding.instead)
    return spec


def object_counts(offer: Section) -> dict[str, Amount]:
    """The most objects of each kind for a tenant of a class: the class's numbers, else the built-in ones."""
    built_in = dict(_OBJECTS)
    # Kinds that a host may not know are counted only if they are offered.
    if section_of(offer, "scheduling").get("podGroups") is True:
        built_in["count/podgroups.scheduling.k8s.io"] = 200
    if offer.get("allowedDeviceClasses"):
        built_in[deviceclaims.COUNT] = 200
    if offer.get("allowedSnapshotClasses"):
        built_in["count/volumesnapshots.snapshot.storage.k8s.io"] = 100
    known = {name: Amount.of(number) for name, number in built_in.items()}
    listed = section_of(section_of(offer, "quota"), "objects")
    # An unreadable number is a fault of the class, which `allotment.refuse_class` reports.
    known |= {str(name): Amount.read(number) for name, number in listed.items() if readable(number) is not None}
    pods = known["pods"]
    return {_ALL_PODS: Amount(pods.number + _MAX_ENDED_PODS) if pods.is_whole else pods} | known


def pod_security(question: Question) -> Iterator[Excess]:
    """Pod Security may only become tighter."""
    asked, offered = _isolation(question)
    level, least = str(asked.get("podSecurity") or ""), str(offered.get("podSecurity") or _POD_SECURITY[0])
    if level and _POD_SECURITY.index(level) < _POD_SECURITY.index(least):
        message = f"spec.isolation.podSecurity: {level} is looser than the {least} of the class; leave it out"
        yield Excess(("isolation", "podSecurity"), message)


def runtime_class(question: Question) -> Iterator[Excess]:
    """The RuntimeClass must be the class's, or one that it lists."""
    asked, offered = _isolation(question)
    yield from _choice(
        ("isolation", "runtimeClassName"),
        text_or_none(asked, "runtimeClassName"),
        text_or_none(offered, "runtimeClassName"),
        offered.get("allowedRuntimeClasses"),
    )


def user_namespaces(question: Question) -> Iterator[Excess]:
    """User namespaces must stay on if the class has them on."""
    asked, offered = _isolation(question)
    if asked.get("userNamespaces") is False and offered.get("userNamespaces") is True:
        message = "spec.isolation.userNamespaces: false is not allowed: the class requires true; leave it out"
        yield Excess(("isolation", "userNamespaces"), message)


def egress(question: Question) -> Iterator[Excess]:
    """Egress CIDRs must be inside what the class sets or lists."""
    asked, offered = (section_of(side, "network") for side in _isolation(question))
    listed = [*(offered.get("egressCIDRs") or ()), *(offered.get("allowedEgressCIDRs") or ())]
    wanted = list(asked.get("egressCIDRs") or ())
    for cidr in wanted:
        if not _contained(cidr, listed):
            bound = ", ".join(map(str, listed)) or "none"
            message = f"spec.isolation.network.egressCIDRs: {cidr} is not inside what the class allows: {bound}"
            # Never left out as a whole: the class's own list could be wider than the requested one.
            yield Excess(("isolation", "network", "egressCIDRs"), message, _common(wanted, listed))


def node_selector(question: Question) -> Iterator[Excess]:
    """A tenant's selector may only narrow the pool of its class."""
    asked, offered = (section_of(section_of(side, "nodes"), "selector") for side in (question.asked, question.offer))
    for key, value in sorted(asked.items()):
        if key in offered and offered[key] != value:
            message = f"spec.nodes.selector[{key}]: must be {offered[key]!r} as in the pool of the class, not {value!r}"
            yield Excess(("nodes", "selector", key), message)


def dedicated(question: Question) -> Iterator[Excess]:
    """A dedicated pool of the class must stay dedicated; a tenant may dedicate nodes only if the class allows some."""
    asked, offer = section_of(question.asked, "nodes").get("dedicated"), section_of(question.offer, "nodes")
    if asked is False and offer.get("dedicated") is True:
        yield Excess(_DEDICATED, "spec.nodes.dedicated: false is not allowed: the class requires true; leave it out")
    if asked is True and offer.get("dedicated") is not True and not offer.get("maxDedicated"):
        most = offer.get("maxDedicated") or 0
        message = f"spec.nodes.dedicated: true is not allowed: the class allows {most} nodes (nodes.maxDedicated)"
        yield Excess(_DEDICATED, message)


def objects(question: Question) -> Iterator[Excess]:
    """Object counts must not exceed those of the class or, if it has none, the built-in ones."""
    most = object_counts(question.offer)
    for name, value in sorted(section_of(section_of(question.asked, "quota"), "objects").items()):
        field, path = f"spec.quota.objects[{name}]", ("quota", "objects", name)
        number = readable(value)
        if name in most:
            if number is None or number > most[name].number:
                yield Excess(path, f"{field}: {value} is more than the {most[name].count} that the class allows")
        elif number is None or not name.startswith("count/"):
            # `requests.nvidia.com/gpu` would replace the tenant's quota.
            known = ", ".join(sorted(most))
            yield Excess(path, f"{field}: {value} is not allowed: the class counts only {known}")


def cohort(question: Question) -> Iterator[Excess]:
    """The cohort must be one that the class lists."""
    asked, offer = (section_of(side, "quota") for side in (question.asked, question.offer))
    listed, wanted = list(offer.get("cohorts") or ()), text_or_none(asked, "cohort")
    if wanted and wanted not in listed:
        bound = ", ".join(map(str, listed)) or "none"
        yield Excess(
            ("quota", "cohort"), f"spec.quota.cohort: {wanted} is not one that the class allows (quota.cohorts): {bound}"
        )


def borrowing(question: Question) -> Iterator[Excess]:
    """A tenant must not borrow more than the class allows."""
    for overdraft in cohorts.overdrawn(question.asked, question.offer):
        field = f"spec.quota.resources[{overdraft.resource}].{overdraft.field}"
        message = f"{field}: {overdraft.asked} is more than the {overdraft.most} that the class allows (maxBorrowing)"
        yield Excess(("quota", "resources", overdraft.resource, overdraft.field), message, overdraft.instead)


def replicas(question: Question) -> Iterator[Excess]:
    """A plane must not have more pods than the class allows."""
    asked, offered = _control_plane(question)
    wanted = int(asked.get("replicas") or 1)
    most = max(int(offered.get("replicas") or 1), int(offered.get("maxReplicas") or 1))
    if wanted > most:
        message = f"spec.controlPlane.replicas: {wanted} is more than the {most} that the class allows (maxReplicas)"
        # A plane that was built with this number of members keeps it.
        yield Excess(("controlPlane", "replicas"), message, wanted)


def storage_size(question: Question) -> Iterator[Excess]:
    """The volume under etcd must not be larger than the class allows."""
    asked, offered = (section_of(side, "storage") for side in _control_plane(question))
    own = offered.get("size") or STORAGE_SIZE
    most = _larger(offered.get("maxSize"), own)
    if asked.get("size") and _more(asked["size"], most):
        message = (
            f"spec.controlPlane.storage.size: {asked['size']} is more than the {most} that the class allows (storage.maxSize)"
        )
        yield Excess(("controlPlane", "storage", "size"), message)


def store_quota(question: Question) -> Iterator[Excess]:
    """A store must not be larger than the class allows, nor than its volume has room for, in addition to copies and logs."""
    asked, offered = (section_of(side, "storage") for side in _control_plane(question))
    most = _most_quota(offered)
    path = ("controlPlane", "storage", "quota")
    wanted = asked.get("quota")
    if wanted and _more(wanted, most):
        message = f"{wanted} is more than the {most} that the class allows (storage.maxQuota)"
        yield Excess(path, f"spec.{'.'.join(path)}: {message}")
        return
    size = asked.get("size") or offered.get("size") or STORAGE_SIZE
    # If neither class nor Tenant sets a quota, planes on small volumes keep the built-in one.
    quota = wanted or offered.get("quota")
    if quota and quota != f"{STORE_QUOTA_MIB}Mi" and mebibytes(quota) * VOLUME_SHARE > mebibytes(size):
        room = f"is more than a quarter of the volume of {size}: raise controlPlane.storage.size, or lower the quota"
        whose = "" if wanted else " of the class"
        # If the quota is the class's, the tenant's volume is too small.
        at = path if wanted else ("controlPlane", "storage", "size")
        yield Excess(at, f"spec.{'.'.join(path)}: {quota}{whose} {room}")


def quota_mib(storage: Section) -> int:
    """The size of a plane's store in MiB, from its Tenant's section merged over its class's.

    By default it follows the volume.
    """
    try:
        if storage.get("quota"):
            return mebibytes(storage["quota"])
        most = max(STORE_QUOTA_MIB, mebibytes(storage["maxQuota"])) if storage.get("maxQuota") else None
        followed = quota_of_volume(mebibytes(storage.get("size") or STORAGE_SIZE))
    except InvalidQuantityError:
        return STORE_QUOTA_MIB
    return followed if most is None else min(followed, most)


def _most_quota(offered: Section) -> Any:
    """The largest quota that a class allows: by default its own, or what follows from the largest volume."""
    if offered.get("quota") or offered.get("maxQuota"):
        return _larger(offered.get("maxQuota"), offered.get("quota") or f"{STORE_QUOTA_MIB}Mi")
    return f"{quota_mib({'size': _larger(offered.get('maxSize'), offered.get('size') or STORAGE_SIZE)})}Mi"


def storage_class(question: Question) -> Iterator[Excess]:
    """The StorageClass must be that of the class or the installation, or one that the class lists."""
    asked, offered = (section_of(side, "storage") for side in _control_plane(question))
    yield from _choice(
        ("controlPlane", "storage", "className"),
        text_or_none(asked, "className"),
        text_or_none(offered, "className") or question.storage_class or None,
        offered.get("allowedClassNames"),
    )


def components(question: Question) -> Iterator[Excess]:
    """No component of the plane may request or use more than the class allows."""
    asked, offered = _control_plane(question)
    # Computed for the store that the class allows: a larger store needs more memory, which comes with its quota.
    quota = max(quota_mib(section_of(control, "storage")) for control in (offered, over(offered, asked)))
    replicas = int(asked.get("replicas") or offered.get("replicas") or 1)
    for field, attribute in COMPONENTS.items():
        wanted = section_of(section_of(asked, "resources"), field)
        own, most = (section_of(section_of(offered, part), field) for part in ("resources", "maxResources"))
        budgets = _budget(usual_budget(attribute, quota, replicas))
        if offered.get("cpuLimits") != "None":
            most_cpu = _larger(section_of(most, "requests").get("cpu"), section_of(own, "requests").get("cpu"))
            budgets["limits"]["cpu"] = usual_cpu_limit(attribute, str(most_cpu or budgets["requests"]["cpu"]))
        for kind, built_in in budgets.items():
            usual, highest = built_in | section_of(own, kind), section_of(most, kind)
            for name, value in sorted(section_of(wanted, kind).items()):
                limit = _larger(highest.get(name), usual.get(name))
                if limit is not None and _more(value, limit):
                    path = ("controlPlane", "resources", field, kind, name)
                    message = f"spec.{'.'.join(path)}: {value} is more than the {limit} that the class allows (maxResources)"
                    yield Excess(path, message)


def modes(question: Question) -> Iterator[Excess]:
    """The mode must be Slurm if the class offers nothing else; another policy checks whether the class offers Slurm."""
    offered = section_of(question.offer, "scheduling").get("modes")
    mode = section_of(question.asked, "scheduling").get("mode") or "Kubernetes"
    if offered and mode not in offered and mode != "Slurm":
        message = f"spec.scheduling.mode: {mode} is not allowed: the class offers only {', '.join(offered)}"
        yield Excess(("scheduling", "mode"), message)


def shared(question: Question) -> Iterator[Excess]:
    """Shared objects must be those that the class lists."""
    for field in FIELDS:
        known = offered(question.offer, field)
        chosen = mappings(question.asked.get(field))
        foreign = [str(issuer.get("name")) for issuer in chosen if issuer.get("name") not in known]
        if foreign:
            bound = ", ".join(known) or "none"
            message = f"spec.{field}: {', '.join(foreign)} is not what the class shares: {bound}"
            yield Excess((field,), message, [issuer for issuer in chosen if issuer.get("name") in known])


def issuers(question: Question) -> Iterator[Excess]:
    """Identity providers must be those of the class."""
    asked, offered = (section_of(side, "access") for side in (question.asked, question.offer))
    known = {str(issuer.get("name")) for issuer in mappings(offered.get("issuers"))}
    # In a Tenant of an older version the field may have another shape, which names none.
    wanted = mappings(asked.get("oidc"))
    kept = [issuer for issuer in wanted if str(issuer.get("issuer")) in known]
    for name in (str(issuer.get("issuer")) for issuer in wanted if issuer not in kept):
        message = f"not one that the class has (access.issuers): {', '.join(sorted(known)) or 'it has none'}"
        yield Excess(("access", "oidc"), f"spec.access.oidc[{name}]: {message}", kept)


def exposed(question: Question) -> Iterator[Excess]:
    """The type must be one that the class offers, and the names must be the tenant's."""
    asked, offer = (section_of(side, "exposure") for side in (question.asked, question.offer))
    own = exposure.default_type(offer, question.domains, has_proxy=question.has_proxy)
    allowed = dict.fromkeys([own, *(offer.get("allowedTypes") or ()), "None"])
    wanted = text_or_none(asked, "type")
    if wanted and wanted not in allowed:
        message = f"spec.exposure.type: {wanted} is not one that the class allows: {', '.join(allowed)}"
        yield Excess(("exposure", "type"), message)
    stems = [f"{question.tenant}.{domain}" for domain in offer.get("hostnameDomains") or () if domain in question.domains]
    names = list(asked.get("hostnames") or ())
    own_names = [name for name in names if any(name == stem or name.endswith(f".{stem}") for stem in stems)]
    for name in names:
        if name not in own_names:
            bound = ", ".join(f"{stem} and below" for stem in stems) or "none"
            message = f"spec.exposure.hostnames: {name} is not one of this tenant's names: {bound}"
            yield Excess(("exposure", "hostnames"), message, own_names)


def backups(question: Question) -> Iterator[Excess]:
    """Snapshots may be taken as often and kept as long as the class says."""
    for path, message, instead in backup.beyond(*(section_of(side, "backup") for side in (question.asked, question.offer))):
        yield Excess(("backup", *path), message, instead)


def kept_planes(question: Question) -> Iterator[Excess]:
    """A plane may be kept only if the class says for how long."""
    for message in deletion.beyond(question.asked, question.offer):
        yield Excess(("deletionPolicy",), message)


POLICIES: Final[tuple[Policy, ...]] = (
    pod_security,
    runtime_class,
    user_namespaces,
    egress,
    node_selector,
    dedicated,
    objects,
    cohort,
    borrowing,
    replicas,
    storage_size,
    store_quota,
    storage_class,
    components,
    modes,
    shared,
    issuers,
    exposed,
    backups,
    kept_planes,
)


def _isolation(question: Question) -> tuple[Section, Section]:
    return section_of(question.asked, "isolation"), section_of(question.offer, "isolation")


def _control_plane(question: Question) -> tuple[Section, Section]:
    return section_of(question.asked, "controlPlane"), section_of(question.offer, "controlPlane")


def _choice(path: tuple[str, ...], asked: str | None, own: str | None, listed: Any) -> Iterator[Excess]:
    """A name must be the class's own, or one that it lists."""
    allowed = [*((own,) if own else ()), *(listed or ())]
    if asked and asked not in allowed:
        known = ", ".join(allowed) or "none may be named"
        yield Excess(path, f"spec.{'.'.join(path)}: {asked} is not one that the class allows: {known}")


def _budget(usual: Budget) -> dict[str, dict[str, str]]:
    requests = {"cpu": usual.cpu, "memory": usual.memory}
    return {"requests": requests, "limits": {"memory": f"{usual.memory_limit_mib}Mi"}}


def _more(asked: Any, allowed: Any) -> bool:
    """Whether one quantity exceeds another; one that cannot be compared counts as too large."""
    try:
        return parse(asked) > parse(allowed)
    except InvalidQuantityError:
        return True


def _larger(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    return one if _more(one, other) else other


def _network(cidr: Any) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(str(cidr), strict=False)
    except ValueError:
        return None


def _contained(cidr: Any, allowed: list[Any]) -> bool:
    """Whether a network is inside others. Neighbours are joined first: two halves allow a network across their border."""
    asked = _network(cidr)
    return asked is not None and any(_inside(asked, range_) for range_ in _joined(allowed))


def _common(asked: list[Any], allowed: list[Any]) -> list[str]:
    """The common part of two lists of networks. Of two networks one is inside the other, or they are disjoint."""
    ours, theirs = _joined(asked), _joined(allowed)
    found = {one if _inside(one, other) else other for one in ours for other in theirs if _meet(one, other)}
    return [str(range_) for range_ in _joined(sorted(map(str, found)))]


def _joined(listed: list[Any]) -> list[IPv4Network | IPv6Network]:
    networks = [_network(cidr) for cidr in listed]
    four = collapse_addresses(range_ for range_ in networks if isinstance(range_, IPv4Network))
    six = collapse_addresses(range_ for range_ in networks if isinstance(range_, IPv6Network))
    return [*four, *six]


def _inside(one: IPv4Network | IPv6Network, other: IPv4Network | IPv6Network) -> bool:
    if isinstance(one, IPv4Network):
        return isinstance(other, IPv4Network) and one.subnet_of(other)
    return isinstance(other, IPv6Network) and one.subnet_of(other)


def _meet(one: IPv4Network | IPv6Network, other: IPv4Network | IPv6Network) -> bool:
    return _inside(one, other) or _inside(other, one)
