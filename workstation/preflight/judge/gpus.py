"""GPUs: whether they exist, are whole, and are hidden from containers that do not request them (0023). Pure."""

from collections.abc import Iterator

from bulkhead.api.untrusted import mapping, text
from workstation.preflight.facts import NotSeenError, Obj, Observed, need
from workstation.preflight.findings import Finding, failed, ok, skipped, warning
from workstation.preflight.values import Values

RUNTIME = "gpu"
_SIMULATED = "kwok.x-k8s.io/node"


def real_nodes(nodes: tuple[Obj, ...], resources: tuple[str, ...]) -> list[str]:
    """Nodes with such GPUs on which a pod has really run."""
    return [
        text(mapping(each.get("metadata")).get("name"))
        for each in nodes
        if _SIMULATED not in mapping(mapping(each.get("metadata")).get("annotations")) and any(_counts(each, resources))
    ]


def resources(observed: Observed, values: Values) -> Finding:
    """Whether the cluster's device plugins or drivers offer the resources of gpuResources."""
    nodes = need(observed, "nodes")
    lacking: list[str] = []
    there: list[str] = []
    for name in values.gpu_resources:
        found = [count for node in nodes for count in _counts(node, (name,))]
        (there if found else lacking).append(f"{name}: {sum(found)} on {len(found)} nodes" if found else name)
    if not lacking:
        return ok("; ".join(there))
    claimed = {text(mapping(piece.get("spec")).get("driver")) for piece in _slices(observed)}
    drivers = f" (drivers with ResourceSlices: {', '.join(sorted(claimed))})" if claimed else ""
    return warning(
        f"no node offers {', '.join(lacking)}{drivers}",
        "install the vendor's device plugin, or correct gpuResources; for the devices of a DRA driver, use deviceClasses",
        there,
    )


def runtime(observed: Observed, values: Values) -> Finding:
    """A container that requests no GPU but sets NVIDIA_VISIBLE_DEVICES=all must see none."""
    if not real_nodes(need(observed, "nodes"), values.gpu_resources):
        return skipped("there is no node with GPUs to try it on")
    probed = observed.probes.get(RUNTIME)
    if probed is None:
        raise NotSeenError("no pod was tried")
    facts = next((mapping(line["facts"]) for line in probed.said if "facts" in line), None)
    if facts is None:
        return skipped(f"the probe on a GPU node reported nothing: {probed.trouble or 'not in time'}", "try again with --image")
    seen = [text(device) for device in facts.get("devices", ()) if isinstance(device, str)]
    if seen:
        return warning(
            f"a container on node {probed.node} without a GPU request sees GPUs through NVIDIA_VISIBLE_DEVICES=all",
            "set accept-nvidia-visible-devices-envvar-when-unprivileged = false in the nodes' "
            "/etc/nvidia-container-runtime/config.toml, with the device list as volume mounts or CDI: Bulkhead blocks the "
            "variable in tenants' pods, but other pods of the host that run tenants' images are not protected",
            seen,
        )
    return ok(f"a container on node {probed.node} that requested no GPU sees none")


def sharing(observed: Observed, _values: Values) -> Finding:
    """MIG and time slicing change what one GPU of a quota means."""
    sliced, parts = [], []
    for node in need(observed, "nodes"):
        labels = mapping(mapping(node.get("metadata")).get("labels"))
        name = text(mapping(node.get("metadata")).get("name"))
        replicas = text(labels.get("nvidia.com/gpu.replicas"))
        strategy = text(labels.get("nvidia.com/gpu.sharing-strategy"))
        if (replicas.isdecimal() and int(replicas[:6]) > 1) or strategy not in {"", "none"}:
            sliced.append(f"node {name}: {replicas or '?'} replicas, {strategy or 'time-slicing'}")
        mig = text(labels.get("nvidia.com/mig.strategy"))
        if mig not in {"", "none"}:
            parts.append(f"node {name}: MIG strategy {mig}")
    if sliced:
        return warning(
            f"GPUs of {len(sliced)} nodes are shared by several pods (time slicing or MPS)",
            "a pod there takes memory and time from the others, with MPS its faults end their work and it reads their shared "
            "memory, and a quota counts the replicas: keep tenants off these nodes",
            [*sliced, *parts],
        )
    if parts:
        return warning(
            f"GPUs of {len(parts)} nodes are partitioned (MIG)",
            "with strategy `mixed` name each profile (nvidia.com/mig-1g.10gb, …) in gpuResources; with `single` one GPU of a "
            "quota is one partition",
            parts,
        )
    return ok("no node reports that it shares or partitions its GPUs")


def device_classes(observed: Observed, values: Values) -> Finding:
    """Whether the classes of deviceClasses exist."""
    if not values.device_classes:
        return skipped("deviceClasses is empty: tenants cannot claim devices")
    there = {text(mapping(device_class.get("metadata")).get("name")) for device_class in need(observed, "deviceclasses")}
    lacking = [name for name in values.device_classes if name not in there]
    if lacking:
        return failed(f"DeviceClasses do not exist: {', '.join(lacking)}", "create them, or remove them from deviceClasses")
    return ok(", ".join(values.device_classes))


def _counts(node: Obj, names: tuple[str, ...]) -> Iterator[int]:
    allocatable = mapping(mapping(node.get("status")).get("allocatable"))
    for name in names:
        found = str(allocatable.get(name, ""))
        if found.isdecimal() and int(found[:9]) > 0:
            yield int(found[:9])


def _slices(observed: Observed) -> tuple[Obj, ...]:
    found = observed.lists.get("resourceslices", ())
    return found if isinstance(found, tuple) else ()
