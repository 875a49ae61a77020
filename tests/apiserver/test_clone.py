"""A clone beside its live original: the data that the filling program makes of a real store, under real API servers.

original: etcd, API server, controller manager, with objects that point at itself
clone:    the same store, filled with another identity, slice and keys, under a plane of its own
"""

import asyncio
import base64
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, Final

import pytest

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Gone, KubeError, NotFound
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.objects import Resource
from bulkhead.snapshots import cloning, contents
from bulkhead.snapshots.cloning import CloneError, Cloning, Own
from controller.plane.sections import Cloned, Restoring
from controller.plane.spec import API_PORT, API_SERVER
from controller.slurm.objects.render import render
from controller.slurm.spec import NAMESPACE
from tests.kit.applying import apply_all
from tests.kit.filling import Filling
from tests.kit.planeprocess import ETCD, KCM, PlaneProcesses
from tests.kit.servers import binary
from tests.kit.slurmsamples import CASES, KEYS, slurm_spec
from tests.kit.storecopy import store_of
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import plane_spec

pytestmark = [pytest.mark.apiserver, pytest.mark.stores]
RED: Final = plane_spec(tenant="red", identity="99999999-8888-7777-6666-555555555555", service_slice="10.112.4.0/22")
RED2: Final = plane_spec(tenant="red2", identity="22222222-8888-7777-6666-555555555555", service_slice="10.112.64.0/22")
UID: Final = "11111111-2222-3333-4444-555555555555"
CLUSTER: Final = "33333333-2222-3333-4444-555555555555"
BUMP: Final = 1_000_000_000
REVIEWS: Final = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False)
CONTAINER: Final = {"name": "a", "image": "a"}
# What the controller puts into the plane for the daemons to read: settings, users, keys.
SLURM: Final = [
    obj for obj in render(slurm_spec(CASES["everything"]), KEYS) if obj["kind"] in {"Namespace", "ConfigMap", "Secret"}
]


def meta(name: str, **more: Any) -> Obj:
    return {"name": name, "namespace": "default", **more}


def service(name: str, **spec: Any) -> Obj:
    return {"metadata": meta(name), "spec": {"ports": [{"port": 80}], **spec}}


def client_of(config: KubeConfig) -> Client:
    return Client(config, user_agent="tests", field_manager="tests")


async def fill_in(client: Client) -> None:
    """Objects that point at the plane that they are in, and some that are only the tenant's."""

    async def has_account() -> bool:
        return bool((await client.list(kinds.SERVICE_ACCOUNTS, "default")).items)

    await until(has_account, "the service account of the namespace")
    await client.create(kinds.NODES, {"metadata": {"name": "virtual-1"}})
    await client.create(kinds.SERVICES, service("web", selector={"app": "web"}))
    await client.create(kinds.SERVICES, service("headless", selector={"app": "web"}, clusterIP="None"))
    await client.create(kinds.SERVICES, service("outside"))
    await client.create(kinds.SERVICES, service("balanced", selector={"app": "web"}, type="LoadBalancer"))
    balanced = {"status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.9"}]}}}
    await client.patch(kinds.SERVICES, "balanced", balanced, "default", subresource="status")
    outside = {"metadata": meta("outside-1", labels={"kubernetes.io/service-name": "outside"}), "addressType": "IPv4"}
    await client.create(
        kinds.ENDPOINT_SLICES, outside | {"endpoints": [{"addresses": ["203.0.113.7"]}], "ports": [{"port": 80}]}
    )
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [CONTAINER]}}
    wanted = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    await client.create(kinds.DEPLOYMENTS, {"metadata": meta("web"), "spec": wanted})
    await client.create(kinds.PODS, {"metadata": meta("alone"), "spec": {"containers": [CONTAINER]}})
    volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    await client.create(kinds.PERSISTENT_VOLUMES, {"metadata": {"name": "of-red"}, "spec": volume})
    noted = {"pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": "virtual-1", "mine": "kept"}
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "volumeName": "of-red",
        "storageClassName": "fast",
        "dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "nightly"},
    }
    await client.create(kinds.PERSISTENT_VOLUME_CLAIMS, {"metadata": meta("data", annotations=noted), "spec": claim})
    bound = {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
    await client.patch(kinds.PERSISTENT_VOLUME_CLAIMS, "data", bound, "default", subresource="status")
    secret = {"metadata": meta("password"), "type": "Opaque", "data": {"a": base64.b64encode(b"of the tenant").decode()}}
    await client.create(kinds.SECRETS, secret)
    token = meta("robot", annotations={"kubernetes.io/service-account.name": "default"})
    await client.create(kinds.SECRETS, {"metadata": token, "type": "kubernetes.io/service-account-token"})
    await client.create(kinds.LEASES, {"metadata": meta("leader"), "spec": {"holderIdentity": "alone"}})
    await apply_all(client, SLURM)
    # Any user of a plane writes labels.
    marked = {"namespace": NAMESPACE, "labels": {labels.MANAGED_BY: labels.MANAGED_BY_BULKHEAD}}
    await client.create(kinds.CONFIG_MAPS, {"metadata": {"name": "of-a-user"} | marked, "data": {"a": "b"}})
    await client.create(kinds.SECRETS, {"metadata": {"name": "of-a-user"} | marked, "data": {"a": "Yg=="}})


async def token_of(client: Client) -> str:
    async def there() -> str | None:
        found = await client.get(kinds.SECRETS, "robot", "default")
        return (found.get("data") or {}).get("token")

    return base64.b64decode(await until(there, "a token")).decode()


async def is_valid(client: Client, token: str) -> bool:
    found = await client.create(REVIEWS, {"metadata": {}, "spec": {"token": token}})
    return bool(found["status"].get("authenticated"))


async def uids(client: Client) -> dict[str, str]:
    found = {}
    for kind in (kinds.PODS, kinds.SERVICES, kinds.PERSISTENT_VOLUME_CLAIMS, kinds.SECRETS, kinds.NODES, kinds.LEASES):
        for obj in (await client.list(kind)).items:
            found[f"{kind.kind} {obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"] = obj["metadata"]["uid"]
    return found


@dataclass
class Pair:
    """Both planes, and the store that the clone was made of."""

    red: PlaneProcesses
    red2: PlaneProcesses
    filling: Filling
    store: bytes = b""
    before: dict[str, str] = field(default_factory=dict)
    token: str = ""


def start(plane: PlaneProcesses) -> None:
    plane.start(ETCD, API_SERVER)
    plane.wait()
    # It gives up on an API server that needs longer than 30 s.
    plane.start(KCM)


def write_keys(pair: Pair) -> None:
    pair.filling.keys.mkdir(exist_ok=True)
    (pair.filling.keys / "from").write_text(pair.red.keys.encryption_key)
    (pair.filling.keys / "to").write_text(pair.red2.keys.encryption_key)


async def once(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), 1 << 16):
        yield data[at : at + (1 << 16)]


def order(store: bytes) -> Restoring:
    return Restoring(UID, len(store), BUMP, cloned=Cloned(RED.service_slice, CLUSTER, slurm=True))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("clone")
    red, red2 = PlaneProcesses(folder / "red", RED), PlaneProcesses(folder / "red2", RED2)
    made = Pair(red, red2, Filling(red2, Restoring(UID, 0, BUMP)))
    write_keys(made)
    try:
        start(red)
        asyncio.run(_prepare(made))
        # Not in a thread of that loop: processes of a thread end with it (`die_with_parent`).
        start(red2)
        yield made
    finally:
        made.filling.stop(signal.SIGKILL)
        red.stop()
        red2.stop()


async def _prepare(pair: Pair) -> None:
    async with client_of(pair.red.admin) as client:
        await fill_in(client)
        pair.token = await token_of(client)

        async def pods() -> list[Obj] | None:
            found = (await client.list(kinds.PODS)).items
            return found if len(found) == 3 else None

        for pod in await until(pods, "the pods of the Deployment"):
            target = {"kind": "Node", "name": "virtual-1"}
            binding = {"metadata": {"name": pod["metadata"]["name"]}, "target": target}
            await client.create_subresource(kinds.PODS, pod["metadata"]["name"], "binding", binding, "default")
            running = {"status": {"phase": "Running", "podIP": "203.0.113.20", "podIPs": [{"ip": "203.0.113.20"}]}}
            await client.patch(kinds.PODS, pod["metadata"]["name"], running, "default", subresource="status")
        pair.before = await uids(client)
        pair.store = await store_of(pair.red)
        pair.filling.order = order(pair.store)
        pair.filling.start()
        await pair.filling.send(once(pair.store))
        await pair.filling.filled()
        pair.filling.stop()


@pytest.fixture
async def red(pair: Pair) -> AsyncIterator[Client]:
    async with client_of(pair.red.admin) as client:
        yield client


@pytest.fixture
async def red2(pair: Pair) -> AsyncIterator[Client]:
    async with client_of(pair.red2.admin) as client:
        yield client


async def test_what_is_the_tenants_is_there_and_the_original_is_whole(pair: Pair, red: Client, red2: Client) -> None:
    secret = await red2.get(kinds.SECRETS, "password", "default")
    assert base64.b64decode(secret["data"]["a"]) == b"of the tenant"
    assert secret["metadata"]["uid"] == pair.before["Secret default/password"]
    assert (await red2.get(kinds.DEPLOYMENTS, "web", "default"))["spec"]["replicas"] == 2
    assert await uids(red) == pair.before


async def test_services_have_the_same_place_in_a_slice_of_their_own(red: Client, red2: Client) -> None:
    def place(address: str, service_slice: str) -> int:
        return int(ip_address(address)) - int(ip_network(service_slice).network_address)

    for name in ("kubernetes", "web", "outside", "balanced"):
        theirs, ours = await red.get(kinds.SERVICES, name, "default"), await red2.get(kinds.SERVICES, name, "default")
        address = ours["spec"]["clusterIP"]
        assert ours["spec"]["clusterIPs"] == [address]
        assert place(address, RED2.service_slice) == place(theirs["spec"]["clusterIP"], RED.service_slice)
        assert 0 < place(address, RED2.service_slice) < 1024
        assert ours["spec"]["ports"] == theirs["spec"]["ports"]

        async def allocated(address: str = address) -> bool:
            try:
                await red2.get(kinds.IP_ADDRESSES, address)
            except NotFound:
                return False
            return True

        await until(allocated, f"the address of {name}")
    assert (await red2.get(kinds.SERVICES, "headless", "default"))["spec"]["clusterIP"] == "None"
    assert not (await red2.get(kinds.SERVICES, "balanced", "default"))["status"]["loadBalancer"]
    made = await red2.create(kinds.SERVICES, service("another"))
    assert 0 < place(made["spec"]["clusterIP"], RED2.service_slice) < 1024
    await red2.delete(kinds.SERVICES, "another", "default")
    for found in (await red2.list(kinds.IP_ADDRESSES)).items:
        assert place(found["metadata"]["name"], RED2.service_slice) < 1024


async def test_nothing_of_nodes_volumes_leases_and_pods_of_the_original_is_there(pair: Pair, red2: Client) -> None:
    for kind in (kinds.NODES, kinds.PERSISTENT_VOLUMES, kinds.CERTIFICATE_SIGNING_REQUESTS):
        assert (await red2.list(kind)).items == [], kind
    assert "leader" not in {lease["metadata"]["name"] for lease in (await red2.list(kinds.LEASES, "default")).items}
    claim = await red2.get(kinds.PERSISTENT_VOLUME_CLAIMS, "data", "default")
    assert claim["metadata"]["uid"] == pair.before["PersistentVolumeClaim default/data"]
    assert claim["status"] == {"phase": "Pending"}
    assert "volumeName" not in claim["spec"]
    assert "dataSource" not in claim["spec"]
    assert "dataSourceRef" not in claim["spec"]
    assert (claim["spec"]["storageClassName"], claim["metadata"]["annotations"]) == ("fast", {"mine": "kept"})

    async def created_again() -> list[Obj] | None:
        found = (await red2.list(kinds.PODS)).items
        return found if len(found) == 2 else None

    for pod in await until(created_again, "the pods of the Deployment"):
        assert pod["metadata"]["uid"] not in pair.before.values()
        assert "nodeName" not in pod["spec"]

    async def no_old_endpoints() -> bool:
        found = (await red2.list(kinds.ENDPOINT_SLICES, "default")).items
        addresses = {address for obj in found for entry in obj.get("endpoints") or () for address in entry["addresses"]}
        return "203.0.113.20" not in addresses and "203.0.113.7" in addresses

    assert await no_old_endpoints()


async def test_tokens_and_certificates_of_each_are_worth_nothing_at_the_other(pair: Pair, red: Client, red2: Client) -> None:
    theirs = pair.token
    ours = await token_of(red2)
    assert ours != theirs
    assert (await is_valid(red, theirs), await is_valid(red2, ours)) == (True, True)
    assert (await is_valid(red2, theirs), await is_valid(red, ours)) == (False, False)
    for mine, other in ((pair.red, pair.red2), (pair.red2, pair.red)):
        # With the other's CA, so that only the client's certificate decides.
        server = f"https://127.0.0.1:{other.ports[API_PORT]}"
        config = mine.admin
        stranger = KubeConfig(server, other.admin.ca, client_cert=config.client_cert, client_key=config.client_key)
        async with client_of(stranger) as client:
            with pytest.raises(KubeError) as refused:
                await client.list(kinds.NAMESPACES)
        assert getattr(refused.value, "status", 0) == 401
    root = await red2.get(kinds.CONFIG_MAPS, "kube-root-ca.crt", "default")
    assert root["data"]["ca.crt"].strip().encode() == pair.red2.keys.authorities["serving"].certificate.strip()
    trusted = await red2.get(kinds.CONFIG_MAPS, "extension-apiserver-authentication", "kube-system")
    former = pair.red.keys.authorities["client"].certificate.decode().strip()
    assert former not in trusted["data"]["client-ca-file"]


async def test_no_key_and_no_setting_of_the_originals_slurm_cluster_is_there(pair: Pair, red: Client, red2: Client) -> None:
    """The daemons' pods wait until the controller has made the clone's own."""
    for kind in (kinds.SECRETS, kinds.CONFIG_MAPS):
        names = {obj["metadata"]["name"] for obj in SLURM if obj["kind"] == kind.kind}
        assert names
        theirs = {obj["metadata"]["name"] for obj in (await red.list(kind, NAMESPACE)).items}
        ours = {obj["metadata"]["name"] for obj in (await red2.list(kind, NAMESPACE)).items}
        assert (names - theirs, names & ours) == (set(), set())
    assert (await red2.get(kinds.CONFIG_MAPS, "of-a-user", NAMESPACE))["data"] == {"a": "b"}
    assert (await red2.get(kinds.SECRETS, "of-a-user", NAMESPACE))["data"] == {"a": "Yg=="}
    data = (pair.filling.volume / "data" / "member" / "snap" / "db").read_bytes()
    assert (b"ClusterName=" in pair.store, b"ClusterName=" in data) == (True, False)


async def test_the_cluster_has_a_uid_of_its_own_and_no_watch_sees_the_past(red: Client, red2: Client) -> None:
    ours, theirs = await red2.get(kinds.NAMESPACES, "kube-system"), await red.get(kinds.NAMESPACES, "kube-system")
    assert (ours["metadata"]["uid"], theirs["metadata"]["uid"] == CLUSTER) == (CLUSTER, False)
    version = (await red.list(kinds.CONFIG_MAPS)).resource_version
    with pytest.raises(Gone):
        async for _ in red2.watch(kinds.CONFIG_MAPS, resource_version=version, timeout_seconds=20):
            pass


def test_the_former_key_reads_nothing_of_it_and_nothing_of_the_past_is_in_the_file(pair: Pair, tmp_path: Path) -> None:
    copy = tmp_path / "db"
    copy.write_bytes((pair.filling.volume / "data" / "member" / "snap" / "db").read_bytes())
    data = copy.read_bytes()
    former, own = pair.red.keys.encryption_key, pair.red2.keys.encryption_key
    entries = [entry for entry in contents.latest(data, ("secrets/",)) if entry[1].endswith("default/password")]
    assert len(entries) == 1
    for key, readable in ((own, True), (former, False)):
        cloner = Cloning(Own(RED2.service_slice, RED2.service_slice, CLUSTER, key=own, former_key=key, slurm=False))
        if readable:
            assert not cloner.judge(*entries[0]).keep
        else:
            with pytest.raises(CloneError, match="cannot be decrypted"):
                cloner.judge(*entries[0])
    # Neither in an earlier revision nor on a free page.
    assert b"/registry/minions/virtual-1" not in data
    assert b"/registry/minions/virtual-1" in pair.store


def hash_of(db: Path) -> str:
    done = subprocess.run([str(binary("etcdutl")), "hashkv", str(db)], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def worked_on(filling: Filling) -> Callable[[], Awaitable[bool]]:
    async def is_there() -> bool:
        return (filling.volume / f"restore-{UID}" / "own" / "member").is_dir()

    return is_there


async def test_members_of_a_clone_are_alike_also_if_one_died_meanwhile(pair: Pair, tmp_path: Path) -> None:
    hashes = set()
    for number in range(2):
        plane = PlaneProcesses(tmp_path / str(number), RED2)
        filling = Filling(plane, order(pair.store))
        write_keys(Pair(pair.red, pair.red2, filling))
        filling.start()
        await filling.send(once(pair.store))
        if number:
            await until(worked_on(filling), "the data to be worked on")
            filling.stop(signal.SIGKILL)
            filling.start()
        await filling.filled()
        filling.stop()
        db = filling.volume / "data" / "member" / "snap" / "db"
        hashes.add(await asyncio.to_thread(hash_of, db))
    assert len(hashes) == 1, hashes


def test_every_rule_names_a_key_that_a_plane_has(pair: Pair) -> None:
    """A resource that is stored under another key would come along unseen."""
    found = {scope for scope, _, _ in contents.latest(pair.store, (*cloning.WHOLE, *cloning.JUDGED))}
    for scope in ("pods/", "minions/", "leases/", "persistentvolumes/", "ipaddresses/", "servicecidrs/", "masterleases/"):
        assert scope in found, scope
    for scope in ("services/specs/", "services/endpoints/", "endpointslices/", "persistentvolumeclaims/", "secrets/"):
        assert scope in found, scope
    assert {"configmaps/", "namespaces/kube-system"} <= found
