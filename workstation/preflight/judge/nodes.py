"""Nodes: the defaults of their kubelets, as far as they can be read, and what a probe pod saw of itself. Pure."""

from collections.abc import Mapping

from bulkhead.api import containerlogs
from bulkhead.api.conditions import condition_of
from bulkhead.api.quantity import InvalidQuantityError, mebibytes
from bulkhead.api.untrusted import mapping, text
from workstation.preflight.facts import NotSeenError, Obj, Observed, Probed, Unseen
from workstation.preflight.findings import Finding, failed, ok, warning
from workstation.preflight.values import Values

FACTS = "open"  # the probe pod that reports what it sees of itself
USER_NAMESPACE = "userns"
_SIMULATED = "kwok.x-k8s.io/node"
_PULLS = "imagePullCredentialsVerificationPolicy"
_FILTERED = 2  # Seccomp of /proc/self/status: a filter is loaded


def real(nodes: tuple[Obj, ...]) -> list[str]:
    """Nodes that accept pods and have really run one."""
    return [text(mapping(each.get("metadata")).get("name")) for each in nodes if is_real(each)]


def is_real(node: Obj) -> bool:
    """Whether a node accepts pods and really runs them."""
    return (
        _SIMULATED not in mapping(mapping(node.get("metadata")).get("annotations"))
        and condition_of(node, "Ready").get("status") == "True"
        and mapping(node.get("spec")).get("unschedulable") is not True
    )


def seccomp(observed: Observed, _values: Values) -> Finding:
    """A pod that requests RuntimeDefault must get it; the result also tells what the kubelet gives to other pods."""
    facts = _facts(observed)
    if facts.get("seccomp") != _FILTERED:
        return failed(
            f"a pod with seccompProfile RuntimeDefault runs without a filter (Seccomp: {facts.get('seccomp')})",
            "use a container runtime and a kernel with seccomp: otherwise tenants' pods may use all its system calls",
        )
    told = [name for name, config in _configs(observed).items() if config.get("seccompDefault") is not True]
    if told:
        return ok(
            "RuntimeDefault filters, and Bulkhead sets it in every pod; on these nodes other pods run without (seccompDefault)",
            *told,
        )
    return ok("RuntimeDefault filters, and Bulkhead sets it in every pod")


def pids(observed: Observed, _values: Values) -> Finding:
    """A fork bomb must be limited to its own pod."""
    configs = _configs(observed)
    limit = _probe_facts(observed).get("pids")
    if not configs:
        if isinstance(limit, int):
            return ok(f"a pod may have {limit} processes")
        raise NotSeenError("kubelets' configuration cannot be read (nodes/proxy), and a pod does not see its own limit")
    open_ = [name for name, config in configs.items() if not _positive(config.get("podPidsLimit"))]
    if open_:
        return warning(
            f"{len(open_)} of {len(configs)} nodes do not limit the processes of a pod",
            "set podPidsLimit in these kubelets' configuration, such as 4096: otherwise one pod can use up a node's processes",
            open_,
        )
    least = min(config["podPidsLimit"] for config in configs.values())
    return ok(f"podPidsLimit is set on all {len(configs)} nodes that reported it, to at least {least}")


def images(observed: Observed, _values: Values) -> Finding:
    """A pod must not use a private image only because a pod of another tenant had it pulled to the node."""
    policies = {name: text(config.get(_PULLS)) for name, config in _needed_configs(observed).items()}
    open_ = [name for name, policy in policies.items() if policy in {"", "NeverVerify"}]
    if open_:
        return warning(
            f"{len(open_)} of {len(policies)} nodes let a pod use any image that they have, also private ones of others",
            f"set {_PULLS}: AlwaysVerify in these kubelets' configuration, before Kubernetes 1.35 with the feature gate "
            "KubeletEnsureSecretPulledImages; until then tenants must not keep secrets in images",
            open_,
        )
    loose = [name for name, policy in policies.items() if policy != "AlwaysVerify"]
    if loose:
        return ok("images that a kubelet pulled with a credential need it again; on these nodes preloaded ones do not", *loose)
    return ok(f"every image needs its credential again on all {len(policies)} nodes that reported it ({_PULLS}: AlwaysVerify)")


def pulling(observed: Observed, _values: Values) -> Finding:
    """A pod must not wait for the images of others: a registry of a tenant's own choice answers as slowly as it likes."""
    configs = _needed_configs(observed)
    one = [name for name, config in configs.items() if config.get("serializeImagePulls") is not False]
    if one:
        return warning(
            f"{len(one)} of {len(configs)} nodes pull one image at a time: a slow one holds up those of all tenants there",
            "set serializeImagePulls: false in these kubelets' configuration; its default is true",
            one,
        )
    few = {
        name: config["maxParallelImagePulls"]
        for name, config in configs.items()
        if _positive(config.get("maxParallelImagePulls"))
    }
    if few:
        least = min(few.values())
        return ok(f"nodes pull images side by side; on these nodes {least} slow ones would hold up the rest", *few)
    return ok(f"all {len(configs)} nodes that reported it pull images side by side")


def logs(observed: Observed, _values: Values) -> Finding:
    """The output that a kubelet keeps of a container must fit into the disk that the containers of the platform may take."""
    kept = {name: _kept_mib(config) for name, config in _needed_configs(observed).items()}
    much = [name for name, mib in kept.items() if mib * 2 > containerlogs.LIMIT_MIB]
    if much:
        return warning(
            f"{len(much)} of {len(kept)} nodes keep up to {max(kept.values())} MiB of a container's output, and containers of "
            f"planes may take {containerlogs.LIMIT_MIB} MiB of disk: a plane that prints much would be evicted",
            f"lower containerLogMaxSize or containerLogMaxFiles: at most {containerlogs.LIMIT_MIB // 2} MiB together",
            much,
        )
    return ok(f"kubelets keep {max(kept.values())} MiB of a container's output at most")


def cgroup(observed: Observed, _values: Values) -> Finding:
    """Version 1 works; version 2 limits memory better, and Slurm's own limits need it."""
    found = _facts(observed).get("cgroup")
    if found == 1:
        return warning(
            "nodes use cgroup v1",
            "use nodes with cgroup v2 if you can: by default, kubelets refuse v1 since Kubernetes 1.35",
        )
    return ok(f"version {found}")


def user_namespaces(observed: Observed, _values: Values) -> Finding:
    """Whether a pod with `hostUsers: false` starts, and which user its root is on the node."""
    probed = observed.probes.get(USER_NAMESPACE)
    if probed is None:
        raise NotSeenError("no pod was tried")
    cure = (
        "classes with isolation.userNamespaces need a kernel of 6.3 or newer, and containerd 2 or CRI-O with a runc or crun "
        "that maps mounts; until then, leave it off in your classes"
    )
    if not probed.ran:
        return warning(f"a pod with hostUsers: false did not start: {probed.trouble or 'not in time'}", cure)
    start = _said(probed).get("root")
    if not _positive(start):
        return warning("a pod with hostUsers: false runs as the node's own users", cure)
    return ok(f"users of a pod with hostUsers: false begin at {start} on the node")


def _facts(observed: Observed) -> Obj:
    found = _probe_facts(observed)
    if not found:
        probed = observed.probes.get(FACTS)
        raise NotSeenError(f"the probe pod reported nothing: {(probed.trouble if probed else '') or 'it was not run'}")
    return found


def _probe_facts(observed: Observed) -> Obj:
    probed = observed.probes.get(FACTS)
    return _said(probed) if probed else {}


def _said(probed: Probed) -> Obj:
    return next((mapping(line["facts"]) for line in probed.said if "facts" in line), {})


def _configs(observed: Observed) -> Mapping[str, Obj]:
    return {
        text(name): mapping(each.get("kubeletconfig"))
        for name, each in observed.kubelets.items()
        if not isinstance(each, Unseen) and isinstance(each.get("kubeletconfig"), Mapping)
    }


def _needed_configs(observed: Observed) -> Mapping[str, Obj]:
    configs = _configs(observed)
    if not configs:
        raise NotSeenError("kubelets' configuration cannot be read (nodes/proxy)")
    return configs


def _kept_mib(config: Obj) -> int:
    """The output that a kubelet keeps of one container, in MiB: its defaults are 5 files of 10 MiB."""
    try:
        size = mebibytes(config.get("containerLogMaxSize") or "10Mi")
    except InvalidQuantityError:
        size = 10
    files = config.get("containerLogMaxFiles")
    return size * (files if isinstance(files, int) and _positive(files) else 5)


def _positive(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
