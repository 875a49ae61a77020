"""Computes from a Tenant and its class the Slurm cluster to build, or the reason why it cannot be built.

Pure. The API server has checked shapes and bounds (CRD schema and CEL). This module checks what needs the class, the settings,
or a parsed text: which keys of Slurm the tenant may set, whether features and QOS refer to each other, whether the quota has
room for the workers that always run.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from bulkhead.api.conditions import Reason
from bulkhead.api.objects import Obj
from bulkhead.api.quantity import mebibytes, parse
from bulkhead.api.slurmmode import has_slurm
from bulkhead.api.untrusted import mappings
from controller import allotment
from controller.refusal import Refusal
from controller.sections import section_of, text_or_none
from controller.settings import Settings
from controller.slurm.config import extra, known
from controller.slurm.decide import ssh
from controller.slurm.decide.podsizes import PodSizes, pod_sizes
from controller.slurm.objects import users
from controller.slurm.objects.ssh import trust
from controller.slurm.objects.workers import resources
from controller.slurm.spec import (
    DATABASE_VOLUME,
    HOME_VOLUME,
    LOGIN,
    MARIADB,
    SLURMCTLD,
    SLURMDBD,
    SLURMRESTD,
    STANDARD_QOS,
    STATE_VOLUME,
    AccountingSpec,
    Allotment,
    Forwarding,
    LeaseSpec,
    LoginSpec,
    NodeSetSpec,
    Pairs,
    PartitionSpec,
    QosSpec,
    SlurmImages,
    SlurmSpec,
    TopologySpec,
    Volume,
)

_AT = "spec.scheduling.slurm"
# A ConfigMap holds 1 MiB, of which the public keys that sign certificates need a little.
_LOGIN_FILES_BYTES = 1024 * 1024 - 1024


class UnresolvableError(ValueError):
    """The cluster cannot be built as specified; has the reason and the message."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.refusal = Refusal(reason, message)


def resolve(tenant: Obj, tenant_class: Obj, settings: Settings) -> SlurmSpec | None:
    """The cluster to build; None when the tenant has none. Raises `UnresolvableError`."""
    if not has_slurm(tenant):
        return None
    spec, bounds = section_of(tenant, "spec"), section_of(tenant_class, "spec")
    _check_class(spec, bounds)
    asked = section_of(section_of(spec, "scheduling"), "slurm")
    version = _version(asked, settings)
    gpu_resources = allotment.gpu_resources(bounds)
    node_sets = tuple(_node_set(entry, gpu_resources) for entry in _list(asked, "nodeSets"))
    _check_features(node_sets)
    _check_quota(node_sets, spec, bounds)
    lines = _taken_apart(extra.slurm_conf_lines, asked.get("extraConf"), f"{_AT}.extraConf")
    sizes = pod_sizes(bounds)
    accounting = _accounting(section_of(asked, "accounting"), sizes)
    _check_accounting(lines, accounting)
    controller, login, rest_api = section_of(asked, "controller"), section_of(asked, "login"), section_of(asked, "restApi")
    made = SlurmSpec(
        tenant=str(tenant["metadata"]["name"]),
        cluster_name=str(asked.get("clusterName") or tenant["metadata"]["name"]),
        version=version,
        images=SlurmImages(slurm=settings.image(settings.image_slurm, version), mariadb=settings.image_mariadb),
        image_pull_policy=settings.image_pull_policy,
        node_sets=node_sets,
        controller=sizes.allotment(controller, SLURMCTLD),
        state=_volume(section_of(controller, "storage"), STATE_VOLUME),
        home=_volume(section_of(asked, "homeStorage"), HOME_VOLUME),
        login=_login(login, sizes, tenant, bounds) if login.get("enabled", True) else None,
        rest_api=sizes.allotment(rest_api, SLURMRESTD) if rest_api.get("enabled", True) else None,
        accounting=accounting,
        users=ssh.users_of(tenant),
        extra_conf=lines,
        topology=TopologySpec(str(asked.get("topology") or "Tree").lower()),
        lease=_lease(section_of(asked, "lease"), bounds),
        cluster_domain=settings.cluster_domain,
    )
    _check_sizes(made, sizes)
    if made.login is not None:
        _check_doors(made, made.login)
    return made


def logins(tenant: Obj, tenant_class: Obj) -> SlurmSpec | None:
    """Of a cluster that is refused: its users, and what opens its login nodes; None if they cannot be built.

    Login nodes that are switched off may still run, from before the refusal: nothing opens them.
    """
    asked = section_of(section_of(section_of(tenant, "spec"), "scheduling"), "slurm")
    login = section_of(asked, "login")
    if not has_slurm(tenant):
        return None
    name, people = str(tenant["metadata"]["name"]), ssh.users_of(tenant)
    closed = LoginSpec(keys=False, revoked=frozenset(identity for user in people for identity in user.identities))
    made = SlurmSpec(
        tenant=name,
        cluster_name=str(asked.get("clusterName") or name),
        version="",
        images=SlurmImages(slurm="", mariadb=""),
        login=_login(login, PodSizes(), tenant, section_of(tenant_class, "spec")) if login.get("enabled", True) else closed,
        users=people,
    )
    try:
        if made.login is not None:
            _check_doors(made, made.login)
    except UnresolvableError:
        return None
    return made


def _check_class(spec: Mapping[str, Any], bounds: Mapping[str, Any]) -> None:
    modes = section_of(bounds, "scheduling").get("modes")
    if modes and "Slurm" not in modes:
        raise UnresolvableError(Reason.OUT_OF_BOUNDS, "spec.scheduling: the class does not offer Slurm")
    level = section_of(spec, "isolation").get("podSecurity") or section_of(bounds, "isolation").get("podSecurity")
    if level == "restricted":
        raise UnresolvableError(
            Reason.NOT_SUPPORTED,
            "spec.isolation.podSecurity: must be baseline with Slurm, not restricted: its daemons need root to start jobs",
        )


def _version(asked: Mapping[str, Any], settings: Settings) -> str:
    offered = settings.slurm_versions
    version = str(asked.get("version") or (offered[0] if offered else "none"))
    # 26.05 means the newest available 26.05.
    found = next((known for known in offered if known == version or known.startswith(f"{version}.")), None)
    if found is None:
        have = ", ".join(offered) or "none"
        raise UnresolvableError(Reason.VERSION_UNAVAILABLE, f"{_AT}.version: {version} is not available; available: {have}")
    return found


def _node_set(asked: Mapping[str, Any], gpu_resources: list[str]) -> NodeSetSpec:
    name = str(asked["name"])
    at = f"{_AT}.nodeSets[{name}]"
    resource = str(asked.get("gpuResource") or gpu_resources[0])
    if resource not in gpu_resources:
        known = ", ".join(gpu_resources)
        raise UnresolvableError(
            Reason.OUT_OF_BOUNDS, f"{at}.gpuResource: the class knows no GPU resource {resource}, only {known}"
        )
    maximum = int(asked.get("max") or asked.get("replicas") or 0)
    minimum = int(asked.get("min") or 0) if asked.get("max") else maximum
    partition, requests = section_of(asked, "partition"), section_of(asked, "requests")
    return NodeSetSpec(
        name=name,
        replicas=int(asked.get("replicas", minimum)),
        minimum=minimum,
        maximum=maximum,
        cpus=int(asked.get("cpus", 1)),
        memory_mib=mebibytes(asked.get("memory", "1Gi")),
        gpus=int(asked.get("gpus", 0)),
        gpu_type=str(asked.get("gpuType") or ""),
        gpu_resource=resource,
        cpu_request=text_or_none(requests, "cpu"),
        memory_request=text_or_none(requests, "memory"),
        partition=PartitionSpec(
            enabled=bool(partition.get("enabled", True)),
            config=_taken_apart(extra.partition_words, partition.get("config"), f"{at}.partition.config"),
            is_default=bool(partition.get("default", False)),
        ),
        features=tuple(str(feature) for feature in asked.get("features") or ()),
        extra_conf=_taken_apart(extra.node_words, asked.get("extraConf"), f"{at}.extraConf"),
        node_selector=_pairs(asked, "nodeSelector"),
    )


def _check_features(node_sets: tuple[NodeSetSpec, ...]) -> None:
    """A feature with the set's name makes a worker a member of the set, so no other set's workers may have it."""
    names = {node_set.name for node_set in node_sets}
    for node_set in node_sets:
        foreign = sorted(names.intersection(node_set.features) - {node_set.name})
        if foreign:
            raise UnresolvableError(
                Reason.INVALID_CONFIGURATION,
                f"{_AT}.nodeSets[{node_set.name}].features: {foreign[0]} is the name of another node set",
            )


def _check_quota(node_sets: tuple[NodeSetSpec, ...], spec: Mapping[str, Any], bounds: Mapping[str, Any]) -> None:
    """The quota must have room for workers that always run: workers that can never start would look like a fault of Slurm."""
    most_nodes = section_of(section_of(bounds, "scheduling"), "slurm").get("maxNodes")
    nodes = sum(node_set.maximum for node_set in node_sets)
    if most_nodes is not None and nodes > int(most_nodes):
        raise UnresolvableError(
            Reason.OUT_OF_BOUNDS, f"{_AT}.nodeSets: {nodes} workers are more than the {most_nodes} that the class allows"
        )
    limits = allotment.limits(spec, bounds)
    asked = [(node_set, resources(node_set)["requests"]) for node_set in node_sets]
    for name in sorted({name for _, requests in asked for name in requests} & limits.keys()):
        least = sum((node_set.minimum * parse(requests.get(name, "0")) for node_set, requests in asked), Decimal(0))
        if least > limits[name].number:
            raise UnresolvableError(
                Reason.IMPOSSIBLE_QUOTA,
                f"{_AT}.nodeSets: workers that always run need {replace(limits[name], number=least)} {name}, but the "
                f"tenant has {limits[name]}; raise spec.quota.resources, or lower replicas or min",
            )


def _check_sizes(spec: SlurmSpec, sizes: PodSizes) -> None:
    """Refuse pods that the host would always refuse, with the field."""
    daemons: dict[str, Allotment | None] = {
        "controller.resources": spec.controller,
        "login.resources": spec.login.allotment if spec.login else None,
        "restApi.resources": spec.rest_api,
        "accounting: slurmdbd": spec.accounting.slurmdbd if spec.accounting else None,
        "accounting: mariadb": spec.accounting.mariadb if spec.accounting else None,
    }
    asked = {f"nodeSets[{node_set.name}]": resources(node_set) for node_set in spec.node_sets}
    asked |= {at: daemon.resources() for at, daemon in daemons.items() if daemon is not None}
    for at, given in asked.items():
        fault = sizes.fault(given)
        if fault is not None:
            raise UnresolvableError(Reason.OUT_OF_BOUNDS, f"{_AT}.{at}.{fault}")


def _check_doors(spec: SlurmSpec, login: LoginSpec) -> None:
    """Refuse keys and identities that the login nodes' files cannot hold: otherwise they keep the earlier ones."""
    try:
        keys = sum(map(len, users.authorized_keys(spec)["data"].values()))
    except users.UnsafeUserError as error:
        raise UnresolvableError(Reason.INVALID_CONFIGURATION, f"{_AT}: {error}") from error
    identities = sum(len(text.encode()) for found in trust(spec, login, ()) for text in found["data"].values())
    for what, size in (("ssh keys", keys), ("identities", identities)):
        if size > _LOGIN_FILES_BYTES:
            raise UnresolvableError(
                Reason.INVALID_CONFIGURATION,
                f"{_AT}.users: their {what} take {size} bytes on the login nodes, where at most {_LOGIN_FILES_BYTES} fit, "
                "those of admins counted twice because they are root's too; remove some",
            )


def _check_accounting(lines: Pairs, accounting: AccountingSpec | None) -> None:
    needing = next((key for key, _ in lines if key.lower() in known.NEED_ACCOUNTING), None)
    if needing is not None and accounting is None:
        raise UnresolvableError(
            Reason.INVALID_CONFIGURATION, f"{_AT}.extraConf: {needing}: needs accounting: set {_AT}.accounting.enabled"
        )


def _login(asked: Mapping[str, Any], sizes: PodSizes, tenant: Obj, bounds: Mapping[str, Any]) -> LoginSpec:
    way = section_of(section_of(section_of(bounds, "scheduling"), "slurm"), "ssh")
    return LoginSpec(
        replicas=int(asked.get("replicas", 1)),
        root_keys=tuple(str(key) for key in asked.get("rootSshAuthorizedKeys") or ()),
        keys=not (way.get("certificatesOnly") or asked.get("certificatesOnly")),
        forwarding=Forwarding(agent=bool(way.get("agentForwarding")), ports=bool(way.get("portForwarding"))),
        revoked=ssh.revoked(tenant),
        allotment=sizes.allotment(asked, LOGIN),
    )


def _accounting(asked: Mapping[str, Any], sizes: PodSizes) -> AccountingSpec | None:
    if not asked.get("enabled", False):
        return None
    qos = tuple(_qos(entry) for entry in _list(asked, "qos"))
    names = {STANDARD_QOS, *(quality.name for quality in qos)}
    for quality in qos:
        unknown = sorted(set(quality.preempts) - names)
        if unknown:
            raise UnresolvableError(
                Reason.INVALID_CONFIGURATION, f"{_AT}.accounting.qos[{quality.name}].preempt: there is no QOS {unknown[0]}"
            )
    looped = _looped(qos)
    if looped:
        raise UnresolvableError(
            Reason.INVALID_CONFIGURATION,
            f"{_AT}.accounting.qos[{looped[0]}].preempt: slurmdbd takes no loop, and these preempt "
            f"each other: {', '.join(looped)}",
        )
    return AccountingSpec(
        storage=_volume(section_of(asked, "storage"), DATABASE_VOLUME),
        qos=qos,
        enforce=bool(asked.get("enforce", True)),
        slurmdbd=sizes.allotment({}, SLURMDBD),
        mariadb=sizes.allotment({}, MARIADB),
    )


def _looped(qos: tuple[QosSpec, ...]) -> list[str]:
    """The QOS that preempt each other in a loop, or preempt one of a loop; empty if there is none."""
    left = {quality.name: set(quality.preempts) for quality in qos}
    while free := [name for name, preempts in left.items() if not preempts & left.keys()]:
        left = {name: preempts for name, preempts in left.items() if name not in free}
    return sorted(left)


def _qos(asked: Mapping[str, Any]) -> QosSpec:
    wall = asked.get("maxWallMinutes")
    return QosSpec(
        name=str(asked["name"]),
        priority=int(asked.get("priority", 0)),
        preempts=tuple(str(name) for name in asked.get("preempt") or ()),
        preempt_mode=text_or_none(asked, "preemptMode"),
        max_wall_minutes=int(wall) if wall is not None else None,
        group_tres=_pairs(asked, "grpTres"),
        user_tres=_pairs(asked, "maxTresPerUser"),
    )


def _taken_apart(parse: Callable[[str], Pairs], text: Any, at: str) -> Pairs:
    try:
        return parse(str(text or ""))
    except extra.ExtraConfError as error:
        raise UnresolvableError(Reason.INVALID_CONFIGURATION, f"{at}: {error}") from error


def _lease(asked: Mapping[str, Any], bounds: Mapping[str, Any]) -> LeaseSpec:
    idle, grace = asked.get("idleSeconds"), asked.get("graceSeconds")
    usual, most = LeaseSpec(), section_of(section_of(bounds, "scheduling"), "slurm").get("maxGraceSeconds")
    if grace is not None and most is not None and int(grace) > int(most):
        raise UnresolvableError(
            Reason.OUT_OF_BOUNDS, f"{_AT}.lease.graceSeconds: {grace} is more than the {most} that the class allows"
        )
    given = usual.grace if grace is None else timedelta(seconds=int(grace))
    return LeaseSpec(
        idle=usual.idle if idle is None else timedelta(seconds=int(idle)),
        grace=given if most is None else min(given, timedelta(seconds=int(most))),
    )


def _volume(asked: Mapping[str, Any], usual: Volume) -> Volume:
    return Volume(str(asked.get("size") or usual.size), text_or_none(asked, "className"))


def _pairs(value: Mapping[str, Any], field: str) -> Pairs:
    return tuple(sorted((str(key), str(item)) for key, item in section_of(value, field).items()))


def _list(value: Mapping[str, Any], field: str) -> list[dict[str, Any]]:
    return [dict(item) for item in mappings(value.get(field))]
