"""The policy by which a plane takes privileges from Slinky's workers, on a real API server: from them and no other pod."""

import copy
import secrets
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.api.privileges import BASELINE_CAPABILITIES, SLINKY_WORKERS
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Forbidden, NotFound
from bulkhead.kube.resources import (
    MUTATING_ADMISSION_POLICIES,
    MUTATING_ADMISSION_POLICY_BINDINGS,
    NAMESPACES,
    PODS,
)
from bulkhead.work.clock import SystemClock
from controller.inside.access import PlaneAccess
from controller.inside.budget import Budget
from controller.inside.objects import unprivileged
from tests.kit.applying import apply_all
from tests.kit.servers import ApiServer, by_token
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import plane_spec
from tests.kit.yamlfiles import load
from tests.syncer.translate.golden import CASES

STOCK: Final[Obj] = load(CASES / "pod" / "slinky-worker.virtual.yaml")
BARE: Final[Obj] = load(CASES / "pod" / "slinky-worker-unprivileged.virtual.yaml")
ON, OFF = plane_spec(isolation={"drop_privileges": SLINKY_WORKERS}), plane_spec()
KINDS = (MUTATING_ADMISSION_POLICIES, MUTATING_ADMISSION_POLICY_BINDINGS)
FULL: Final[Obj] = {"privileged": True, "capabilities": {"add": ["SYS_ADMIN"]}}


@pytest.fixture
async def plane(lone_server: ApiServer) -> AsyncIterator[Client]:
    async with Client(by_token(lone_server.admin), user_agent="tests", field_manager="tests") as client:
        yield client


@pytest.fixture
async def policed(plane: Client) -> Client:
    """A plane in which the policy is in force."""
    await apply_all(plane, unprivileged.objects(ON))

    async def known() -> bool:
        return not await privileged(plane, STOCK)

    await until(known, "the policy to be in force")
    return plane


async def made(plane: Client, pod: Obj, namespace: str = "default") -> Obj:
    """The pod as the plane makes it, gone again."""
    meta = {key: value for key, value in pod["metadata"].items() if key != "uid"}
    meta |= {"name": f"w-{secrets.token_hex(6)}", "namespace": namespace}
    created = await plane.create(PODS, pod | {"metadata": meta}, namespace)
    await plane.delete(PODS, created["metadata"]["name"], namespace, grace_seconds=0)
    return created


async def privileged(plane: Client, pod: Obj) -> bool:
    spec = (await made(plane, pod))["spec"]
    return any((container.get("securityContext") or {}).get("privileged") for container in spec["containers"])


def with_context(context: Obj, *, owner: Obj | None = None, kind: str = "containers") -> Obj:
    """The stock worker with another context in one of its containers, and another owner."""
    pod = copy.deepcopy(BARE)
    pod["spec"][kind][0]["securityContext"] = context
    pod["metadata"]["ownerReferences"][0] |= owner or {}
    return pod


async def test_a_stock_worker_becomes_one_that_the_host_takes(policed: Client) -> None:
    stock, bare = (await made(policed, STOCK))["spec"], (await made(policed, BARE))["spec"]
    assert stock == bare
    assert stock["containers"][0]["securityContext"] == {"capabilities": {}}


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
async def test_only_what_the_host_refuses_is_taken(policed: Client, kind: str) -> None:
    kept: Obj = {"runAsUser": 0, "readOnlyRootFilesystem": True, "allowPrivilegeEscalation": True}
    allowed = sorted(BASELINE_CAPABILITIES)
    asked = kept | {"privileged": True, "capabilities": {"add": ["SYS_ADMIN", *allowed, "ALL"], "drop": ["NET_RAW"]}}
    spec = (await made(policed, with_context(asked, kind=kind)))["spec"]
    assert spec[kind][0]["securityContext"] == kept | {"capabilities": {"add": allowed, "drop": ["NET_RAW"]}}


async def test_each_container_by_itself(policed: Client) -> None:
    pod = copy.deepcopy(STOCK)
    base = pod["spec"]["containers"][0]
    plain = {key: base[key] for key in ("image", "args")}
    pod["spec"]["containers"] = [
        plain | {"name": "plain"},
        base,
        plain | {"name": "drops", "securityContext": {"privileged": False, "capabilities": {"drop": ["ALL"]}}},
        plain | {"name": "second", "securityContext": {"capabilities": {"add": ["KILL", "BPF"]}}},
    ]
    contexts = [container.get("securityContext") for container in (await made(policed, pod))["spec"]["containers"]]
    assert contexts == [
        None,
        {"capabilities": {}},
        {"privileged": False, "capabilities": {"drop": ["ALL"]}},
        {"capabilities": {"add": ["KILL"]}},
    ]


@pytest.mark.parametrize(
    "owner",
    [
        {"kind": "StatefulSet", "apiVersion": "apps/v1"},
        {"kind": "LoginSet"},
        {"apiVersion": "slinky.slurm.net.example.com/v1"},
        {"apiVersion": "slurm.bulkhead.dev/v1alpha1"},
        {"controller": False},
    ],
)
async def test_no_other_pod_is_changed(policed: Client, owner: Obj) -> None:
    spec = (await made(policed, with_context(FULL, owner=owner)))["spec"]
    assert spec["containers"][0]["securityContext"] == FULL


async def test_a_pod_without_an_owner_is_not_changed(policed: Client) -> None:
    pod = copy.deepcopy(STOCK)
    del pod["metadata"]["ownerReferences"]
    assert await privileged(policed, pod)


async def test_namespaces_that_enforce_baseline_take_such_workers(policed: Client) -> None:
    name = f"strict-{secrets.token_hex(4)}"
    await policed.create(NAMESPACES, {"metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": "baseline"}}})
    assert await made(policed, STOCK, name)
    with pytest.raises(Forbidden, match="violates PodSecurity"):
        await made(policed, with_context(FULL, owner={"kind": "LoginSet"}), name)


async def there(plane: Client) -> list[Any]:
    found = []
    for kind in KINDS:
        try:
            found.append(await plane.get(kind, unprivileged.NAME))
        except NotFound:
            found.append(None)
    return found


class _Held:
    def __init__(self, client: Client) -> None:
        self.client = client


async def bootstrap(plane: Client, spec: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    access = PlaneAccess(SystemClock(), lambda _: None, Budget())
    monkeypatch.setitem(access._connections, spec.tenant, _Held(plane))
    uid, whole = await access.bootstrap(spec, unprivileged.objects(spec), unprivileged.withdrawn(spec))
    assert uid
    assert whole


async def test_the_controller_puts_it_in_and_takes_it_out(plane: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    await bootstrap(plane, ON, monkeypatch)
    assert all(labels.is_platforms(obj) for obj in await there(plane))
    for _ in range(2):
        await bootstrap(plane, OFF, monkeypatch)
        assert await there(plane) == [None, None]


async def test_one_that_the_tenant_brought_under_that_name_stays(plane: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    own = [obj | {"metadata": {"name": unprivileged.NAME}} for obj in unprivileged.objects(ON)]
    await bootstrap(plane, OFF, monkeypatch)
    await apply_all(plane, own)
    await bootstrap(plane, OFF, monkeypatch)
    assert all(await there(plane))
    for kind in KINDS:
        await plane.delete(kind, unprivileged.NAME)


def test_planes_before_1_36_have_no_such_policies_without_a_flag() -> None:
    assert [version for version in ("v1.34.4", "v1.35.9", "v1.36.0", "v1.37.1") if unprivileged.served_by(version)] == [
        "v1.36.0",
        "v1.37.1",
    ]
