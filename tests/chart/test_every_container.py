"""Every container of the platform has bounds: those of the chart, of planes, of Slurm clusters, and of preflight's probes.

A container or a volume that no list here knows is red: say what bounds it, and why. Kubernetes has no field for the processes
of a pod; the kubelet's `podPidsLimit` bounds them, which `bulkhead preflight` reads (`nodes.pids`).
"""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from bulkhead.api import containerlogs
from bulkhead.api.objects import Obj
from bulkhead.api.quantity import mebibytes, parse
from controller.plane.render import render
from tests.controller.plane.test_rendering import CASES as PLANES
from tests.controller.slurm.test_rendering import everything as slurm_objects
from tests.kit.helmchart import rendered
from tests.kit.slurmsamples import CASES as CLUSTERS
from tests.kit.tenantsamples import material, plane_for, plane_spec, tenant, tenant_class
from workstation.preflight.probes import objects as probes

MEMORY: Final = frozenset({"requests.cpu", "requests.memory", "limits.memory"})
DISK: Final = MEMORY | {"requests.ephemeral-storage", "limits.ephemeral-storage"}
CPU: Final = DISK | {"limits.cpu"}
# What bounds each container, by its name. Those of Slurm are pods of a tenant: the tenant's quota and its class's
# `containerDefaults` bound their disk, as they do for each other pod of the tenant.
CONTAINERS: Final = {
    "chart": {"controller": DISK, "haproxy": DISK, "routes": DISK, "routes-keeper": DISK},
    "plane": {
        "etcd": CPU,
        "kube-apiserver": CPU,
        "kube-controller-manager": CPU,
        "audit": CPU,
        "syncer": CPU,
        "coredns": CPU,
    },
    "slurm": dict.fromkeys(("slurmctld", "slurmdbd", "slurmrestd", "mariadb", "login"), MEMORY)
    | {"slurmd": MEMORY | {"limits.cpu"}},
    "preflight": {"probe": DISK},
}
# emptyDirs without a size, with the reason.
UNSIZED: Final = {("slurm", "spool"): "scripts and output of jobs: how large they become, the tenant's quota of disk says"}
VALUES: Final = {
    "default": (),
    "proxy": ("--set", "exposure.domains={tenants.example.org}"),
    "replicas": ("--set", "controller.replicas=3", "--set", "exposure.domains={a.example.org}"),
    "monitoring": ("--set", "monitoring.enabled=true"),
    "own-resources": ("--set", "controller.resources.limits.memory=2Gi"),
}


def pod_specs(listed: list[Obj]) -> Iterator[Obj]:
    """The pods of objects, wherever in them a pod's template stands: of kinds that are added later too."""
    for value in listed:
        yield from _found(value)


def _found(value: Any) -> Iterator[Obj]:
    if isinstance(value, dict):
        if isinstance(value.get("containers"), list) and all("image" in entry for entry in value["containers"]):
            yield value
        for inner in value.values():
            yield from _found(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _found(inner)


def containers(pod: Obj) -> list[Obj]:
    return [*pod.get("initContainers", []), *pod["containers"]]


def lacking(source: str, pod: Obj) -> list[str]:
    """What a pod's containers and volumes lack, as text."""
    found = []
    for container in containers(pod):
        name, resources = container["name"], container.get("resources", {})
        wanted = CONTAINERS[source].get(name)
        if wanted is None:
            found.append(f"{source}: container {name} stands in no list: say in CONTAINERS what bounds it")
            continue
        has = {f"{part}.{resource}" for part, amounts in resources.items() for resource in amounts}
        found += [f"{source}: container {name} has no {bound}" for bound in sorted(wanted - has)]
    for volume in pod.get("volumes", []):
        if "emptyDir" in volume and not volume["emptyDir"].get("sizeLimit") and (source, volume["name"]) not in UNSIZED:
            found.append(f"{source}: emptyDir {volume['name']} has no sizeLimit")
    return found


def planes() -> dict[str, list[Obj]]:
    specs = {name: plane_spec(**changes) for name, changes in PLANES.items()}
    specs["of a class"] = plane_for(tenant(), tenant_class())
    return {name: list(render(spec, material(spec)).everything()) for name, spec in specs.items()}


def sources() -> dict[str, list[Obj]]:
    """The pods of each source."""
    probe = probes.pod(probes.Shape("image", "IfNotPresent", (), {}, ()), "open", {})
    return {
        "chart": [pod for values in VALUES.values() for pod in pod_specs(rendered(*values))],
        "plane": [pod for listed in planes().values() for pod in pod_specs(listed)],
        "slurm": [pod for name in CLUSTERS for pod in pod_specs(slurm_objects(name))],
        "preflight": list(pod_specs([probe])),
    }


def test_every_container_and_every_emptydir_has_its_bounds() -> None:
    assert sorted({text for source, pods in sources().items() for pod in pods for text in lacking(source, pod)}) == []


def test_every_container_of_the_lists_is_there() -> None:
    found = {source: {entry["name"] for pod in pods for entry in containers(pod)} for source, pods in sources().items()}
    assert found == {source: set(named) for source, named in CONTAINERS.items()}


def test_a_container_that_no_list_knows_is_red() -> None:
    pod = next(pod_specs([{"spec": {"template": {"spec": {"containers": [{"name": "late", "image": "x"}]}}}}]))
    assert lacking("plane", pod) == ["plane: container late stands in no list: say in CONTAINERS what bounds it"]
    bare = {"containers": [{"name": "etcd", "image": "x"}], "volumes": [{"name": "data", "emptyDir": {}}]}
    assert len(lacking("plane", bare)) == len(CPU) + 1


@pytest.mark.parametrize("source", ["chart", "plane"])
def test_a_limit_of_disk_holds_the_output_and_every_emptydir_on_disk(source: str) -> None:
    """A kubelet evicts a pod that takes more than the limits of its containers together."""
    for pod in sources()[source]:
        limits = [mebibytes(entry["resources"]["limits"]["ephemeral-storage"]) for entry in pod["containers"]]
        dirs = [volume["emptyDir"] for volume in pod.get("volumes", []) if "emptyDir" in volume]
        files = sum(mebibytes(found["sizeLimit"]) for found in dirs if found.get("medium") != "Memory")
        assert min(limits) >= containerlogs.LIMIT_MIB
        assert sum(limits) >= len(limits) * containerlogs.LIMIT_MIB + files


def test_no_limit_is_below_its_request() -> None:
    for pods in sources().values():
        for entry in (entry for pod in pods for entry in containers(pod)):
            limits, requests = entry["resources"]["limits"], entry["resources"]["requests"]
            assert all(parse(limits[name]) >= parse(requests[name]) for name in limits.keys() & requests.keys()), entry["name"]
