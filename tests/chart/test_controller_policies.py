"""What the controller may do on the host, on a real API server: by the chart's roles alone, and whatever its code believes.

One client is the controller as RBAC sees it; it builds, repairs and takes down a tenant. The other has every right besides, so
that only the policies can say no.
"""

import asyncio
import base64
import copy
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bulkhead.api import names
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError, Forbidden, KubeError, Unprocessable
from bulkhead.kube.objects import Obj
from bulkhead.kube.resources import resource_of
from bulkhead.work.clock import SystemClock
from controller.host.accelerators import Accelerators
from controller.host.logins import Logins
from controller.host.secretwatch import SecretWatch
from controller.shares.content import Absent, Content
from controller.shares.sources import Sources
from controller.shares.spec import Item
from controller.shares.volumes.objects import host_claim, host_volume
from tests.apiserver.bed import until
from tests.apiserver.servers import ApiServer, running
from tests.background import background
from tests.chart import volume_samples
from tests.chart.helmchart import rendered
from tests.controller.samples import tenant_class
from tests.controller.tenant.world import World, ask, kinds_of, ready, take_down
from tests.crds import install

pytestmark = pytest.mark.apiserver
CONTROLLER = "system:serviceaccount:bulkhead-system:bulkhead-controller"
MARKS = {"app.kubernetes.io/managed-by": "bulkhead", "bulkhead.dev/tenant": "team-a"}
LEVEL = {"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/enforce-version": "v1.36"}
TIGHT = LEVEL | {"pod-security.kubernetes.io/enforce": "restricted"}
RBAC = "rbac.authorization.k8s.io"
INSTALLED = {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with running("controlled", tmp_path_factory.mktemp("controlled")) as made:
        yield made


def space(name: str, tenant: str = "team-a", uid: str = "u-1", **labels: str) -> Obj:
    marks = MARKS | {"bulkhead.dev/tenant": tenant}
    meta = {"name": name, "labels": marks | labels, "annotations": {"bulkhead.dev/tenant-uid": uid}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


@pytest.fixture
async def admin(server: ApiServer) -> AsyncIterator[Client]:
    async with Client(server.admin, user_agent="tests", field_manager="tests") as client:
        await install(client)
        await client.apply(kinds.TENANT_CLASSES, tenant_class() | {"metadata": {"name": "standard"}})
        for name in ("bulkhead-system", "bulkhead-shared", "somebodys", "bh-somebodys"):
            await client.apply(kinds.NAMESPACES, {"metadata": {"name": name}})
        for tenant in ("team-a", "team-b"):
            await client.apply(kinds.NAMESPACES, space(f"bh-{tenant}", tenant, **TIGHT))
            await client.apply(kinds.NAMESPACES, space(f"bh-{tenant}-work", tenant, **LEVEL))
        for obj in rendered():
            if obj["kind"] in INSTALLED or obj["kind"].startswith("ValidatingAdmissionPolicy"):
                await client.apply(resource_of(obj["apiVersion"], obj["kind"]), obj)
        yield client


@pytest.fixture
async def limited(server: ApiServer, admin: Client) -> AsyncIterator[Client]:
    """The controller with its own rights."""
    async with Client(server.config_for(CONTROLLER), user_agent="tests", field_manager="bulkhead-controller") as client:
        yield client


@pytest.fixture
async def mighty(server: ApiServer, admin: Client) -> AsyncIterator[Client]:
    """The controller with every right: only policies say no."""
    async with Client(server.config_for(CONTROLLER, "system:masters"), user_agent="tests", field_manager="tests") as client:
        await in_force(client, admin)
        yield client


async def refusal(client: Client, obj: Obj) -> str:
    """Why a create is refused by a policy of ours; empty when it is not. Nothing is made."""
    resource = resource_of(obj["apiVersion"], obj["kind"])
    place = obj["metadata"].get("namespace")
    try:
        await client.transport.request("POST", resource.path(place), params={"dryRun": "All"}, body=json.dumps(obj).encode())
    except ApiError as error:
        if "ValidatingAdmissionPolicy 'bulkhead-controller-" not in str(error):
            raise
        return str(error).partition("denied request: ")[2]
    return ""


async def in_force(client: Client, admin: Client) -> None:
    async def bite() -> bool:
        samples = [
            REFUSED["a ClusterRoleBinding to a syncer's rights"],
            REFUSED["a namespace of somebody"],
            REFUSED["elsewhere"],
        ]
        return all([await refusal(client, obj) for obj in samples])

    await until(bite, "the policies in force")


def binding(role: str, place: str | None = "bh-team-a-work", *, name: str = "x", **more: Any) -> Obj:
    kind = "RoleBinding" if place else "ClusterRoleBinding"
    meta: Obj = {"name": name, "labels": dict(MARKS)} | ({"namespace": place} if place else {})
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    made: Obj = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": meta, "roleRef": ref}
    return made | {"subjects": [account("syncer", "bh-team-a")]} | more


def account(name: str, place: str) -> Obj:
    return {"kind": "ServiceAccount", "name": name, "namespace": place}


def config_map(place: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": place, "labels": dict(MARKS)}}


def way_in(place: str) -> Obj:
    meta = {"name": "plane-public", "namespace": place, "labels": dict(MARKS)}
    spec = {"type": "LoadBalancer", "selector": dict(MARKS), "ports": [{"port": 443}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def service_cidr(name: str, labels: dict[str, str]) -> Obj:
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": meta, "spec": {"cidrs": ["10.113.0.0/22"]}}


NODES = "bh-team-a-syncer-nodes"
OWN = {"subjects": [account("bulkhead-controller", "bulkhead-system")]}
WORK_ROLES = ("bulkhead-syncer-work", "bulkhead-syncer-ingress", "bulkhead-syncer-podgroups", "bulkhead-syncer-snapshots")

REFUSED: dict[str, Obj] = {
    "a ClusterRoleBinding to a syncer's rights": binding("bulkhead-syncer-work", None, name="bh-team-a-syncer-nodes"),
    "one of another name": binding("bulkhead-syncer-work", None, name="bh-x"),
    "one to read Secrets": binding("bulkhead-controller-secrets", None, name=NODES, **OWN),
    "one to everything": binding("cluster-admin", None, name=NODES),
    "the node reader under another name": binding("bulkhead-syncer-nodes", None, name="bh-team-a"),
    "the node reader for another tenant": binding("bulkhead-syncer-nodes", None, name="bh-team-b-syncer-nodes"),
    "the node reader to another's syncer": binding(
        "bulkhead-syncer-nodes", None, name=NODES, subjects=[account("syncer", "bh-team-b")]
    ),
    "the node reader to a workload": binding(
        "bulkhead-syncer-nodes", None, name=NODES, subjects=[account("workload", "bh-team-a")]
    ),
    "the node reader to nobody": binding("bulkhead-syncer-nodes", None, name=NODES, subjects=[]),
    "a namespace's role of everything": binding("cluster-admin"),
    "a role and no ClusterRole": binding(
        "x", roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "bulkhead-syncer-work"}
    ),
    "work for a second subject": binding(
        "bulkhead-syncer-work", subjects=[account("syncer", "bh-team-a"), account("x", "somebodys")]
    ),
    "work for another's syncer": binding("bulkhead-syncer-work", subjects=[account("syncer", "bh-team-b")]),
    "work for a user of that name": binding(
        "bulkhead-syncer-work",
        subjects=[{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "system:serviceaccount:bh-team-a:syncer"}],
    ),
    "work for the controller": binding("bulkhead-syncer-work", **OWN),
    "work in another tenant's namespace": binding("bulkhead-syncer-work", "bh-team-b-work"),
    "work in the plane's namespace": binding("bulkhead-syncer-work", "bh-team-a"),
    "work in somebody's namespace": binding("bulkhead-syncer-work", "somebodys"),
    "the plane's in the work namespace": binding("bulkhead-syncer-plane"),
    "Secrets of the work namespace": binding("bulkhead-controller-secrets", **OWN),
    "the pull secret for a syncer": binding("bulkhead-controller-pulls"),
    "the pull secret elsewhere": binding("bulkhead-controller-pulls", "bulkhead-system", **OWN),
    "the pull secret everywhere": binding("bulkhead-controller-pulls", None, name=NODES, **OWN),
    "Secrets of somebody": binding("bulkhead-controller-secrets", "bh-somebodys", **OWN),
    "Secrets of the system": binding("bulkhead-controller-secrets", "kube-system", **OWN),
    "Secrets for a syncer": binding("bulkhead-controller-secrets", "bh-team-a"),
    "elsewhere": config_map("somebodys"),
    "in the namespace of what is shared": config_map("bulkhead-shared"),
    "in a namespace that only looks like a tenant's": config_map("bh-somebodys"),
    "a way in for somebody": way_in("somebodys"),
    "a way in for the system": way_in("bulkhead-system"),
    "a namespace of somebody": space("somebody-else", **LEVEL),
    "a namespace named after another": space("bh-team-c", **TIGHT),
    "a namespace that is not marked": space("bh-team-a-work-2", **LEVEL),
    "a namespace without a level": space("bh-team-d-work", "team-d"),
    "a namespace that allows everything": space(
        "bh-team-d-work", "team-d", **LEVEL | {"pod-security.kubernetes.io/enforce": "privileged"}
    ),
    "a level of a former version": space(
        "bh-team-d-work", "team-d", **LEVEL | {"pod-security.kubernetes.io/enforce-version": "v1.24"}
    ),
    "a level without a version": space("bh-team-d-work", "team-d", **{"pod-security.kubernetes.io/enforce": "baseline"}),
    "a plane's namespace at the workloads' level": space("bh-team-d", "team-d", **LEVEL),
    "a namespace with a label that others act on": space("bh-team-d-work", "team-d", **LEVEL, **{"istio-injection": "enabled"}),
    "a range that is nobody's": service_cidr("bh-x", {}),
    "a range of another's name": service_cidr("bh-team-b", MARKS),
    **volume_samples.REFUSED,
}

ALLOWED: dict[str, Obj] = {
    "the node reader": binding("bulkhead-syncer-nodes", None, name=NODES),
    **{role: binding(role) for role in WORK_ROLES},
    "the plane's": binding("bulkhead-syncer-plane", "bh-team-a"),
    "Secrets of the plane": binding("bulkhead-controller-secrets", "bh-team-a", **OWN),
    "the pull secret of the work namespace": binding("bulkhead-controller-pulls", **OWN),
    "in the plane's namespace": config_map("bh-team-a"),
    "in the work namespace": config_map("bh-team-a-work"),
    "a way in": way_in("bh-team-a"),
    "a plane's namespace": space("bh-team-d", "team-d", **TIGHT),
    "a work namespace": space("bh-team-d-work", "team-d", **LEVEL),
    "a work namespace at the tighter level": space("bh-team-d-work", "team-d", **TIGHT),
    "a range": service_cidr("bh-team-d", MARKS | {"bulkhead.dev/tenant": "team-d"}),
    **volume_samples.ALLOWED,
}


async def test_the_policies_refuse_what_the_controller_must_not_write(mighty: Client) -> None:
    assert [name for name, obj in REFUSED.items() if not await refusal(mighty, obj)] == []


async def test_the_policies_let_through_what_it_writes(mighty: Client) -> None:
    assert {name: said for name, obj in ALLOWED.items() if (said := await refusal(mighty, obj))} == {}


CHANGES: dict[str, tuple[str, Obj, str]] = {
    "a level removed": ("bh-team-a-work", {"labels": {"pod-security.kubernetes.io/enforce": None}}, "Pod Security is enforced"),
    "a level loosened": ("bh-team-a-work", {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}, "baseline or"),
    "a plane's level loosened": (
        "bh-team-a",
        {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}},
        "at restricted of",
    ),
    "a version lowered": ("bh-team-a-work", {"labels": {"pod-security.kubernetes.io/enforce-version": "v1.0"}}, "of v1.36"),
    "somebody's adopted": ("bh-somebodys", {"labels": MARKS | LEVEL | {"bulkhead.dev/tenant": "somebodys"}}, "never adopted"),
    "one's given to another": ("bh-team-a-work", {"labels": {"bulkhead.dev/tenant": "team-b"}}, "named after it"),
    "another tenant of the name": ("bh-team-a", {"annotations": {"bulkhead.dev/tenant-uid": "u-2"}}, "never adopted"),
    "a label that others act on": ("bh-team-a-work", {"labels": {"istio-injection": "enabled"}}, "no labels but its own"),
    "the system's": ("kube-system", {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}, "named after it"),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_no_namespace_is_loosened_adopted_or_given_away(name: str, mighty: Client) -> None:
    place, meta, why = CHANGES[name]
    with pytest.raises(ApiError, match=why):
        await mighty.patch(kinds.NAMESPACES, place, {"metadata": meta})


async def test_a_namespaces_level_is_tightened_and_a_class_may_take_that_back(mighty: Client, admin: Client) -> None:
    await admin.patch(kinds.NAMESPACES, "bh-team-b-work", {"metadata": {"labels": {"of-the-admin": "x"}}})
    for level in ("restricted", "baseline"):
        body = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}, "annotations": {"bulkhead.dev/x": level}}}
        await mighty.patch(kinds.NAMESPACES, "bh-team-b-work", body)
    with pytest.raises(ApiError, match="no labels but its own"):
        await mighty.patch(kinds.NAMESPACES, "bh-team-b-work", {"metadata": {"labels": {"of-the-admin": None}}})


async def test_what_is_not_a_tenants_is_not_deleted(mighty: Client, admin: Client) -> None:
    for place in ("somebodys", "bh-somebodys", "bh-team-a-work"):
        spec = {"containers": [{"name": "x", "image": "x"}]}
        await admin.create(kinds.PODS, {"metadata": {"name": "x", "namespace": place}, "spec": spec})
    await mighty.delete(kinds.PODS, "x", "bh-team-a-work", grace_seconds=0)
    for place in ("somebodys", "bh-somebodys"):
        with pytest.raises(ApiError, match="controller: "):
            await mighty.delete(kinds.PODS, "x", place)
    for resource, name, place in (
        (kinds.NAMESPACES, "bh-somebodys", None),
        (kinds.NAMESPACES, "bulkhead-system", None),
        (kinds.CLUSTER_ROLE_BINDINGS, "cluster-admin", None),
        (kinds.CLUSTER_ROLE_BINDINGS, "bulkhead-controller", None),
        (kinds.SERVICE_CIDRS, "kubernetes", None),
        (kinds.ROLE_BINDINGS, "bulkhead-controller", "bulkhead-system"),
    ):
        with pytest.raises(ApiError, match="controller: "):
            await mighty.delete(resource, name, place)


async def test_rights_that_are_there_are_not_widened(mighty: Client, admin: Client) -> None:
    await mighty.apply(kinds.ROLE_BINDINGS, binding("bulkhead-syncer-work", name="syncer"))
    body = {"subjects": [account("syncer", "bh-team-a"), account("default", "somebodys")]}
    with pytest.raises(ApiError, match="that tenant's syncer alone"):
        await mighty.patch(kinds.ROLE_BINDINGS, "syncer", body, "bh-team-a-work")
    await mighty.delete(kinds.ROLE_BINDINGS, "syncer", "bh-team-a-work")


# -- by its own rights


class Limited(World):
    """A controller with the chart's rights alone; what is asked of the host beside it is the admin's."""

    def __init__(self, admin: Client, limited: Client) -> None:
        super().__init__(limited)
        self.client = admin


async def test_a_tenant_is_built_repaired_and_taken_down_by_the_controllers_own_rights(admin: Client, limited: Client) -> None:
    await ask(admin, "own-rights")
    async with Limited(admin, limited) as world:
        tenant = await world.settle("own-rights")
        assert ready(tenant) == ("False", "Provisioning") or ready(tenant)[1] in {"WaitingForPlane", "Provisioning"}
        made = await kinds_of(admin, "own-rights")
        assert ("Secret", "bh-own-rights", "kubeconfig") not in made
        for name in ("pki-etcd", "pki-ca-users", "pki-ca-client"):
            await admin.delete(kinds.SECRETS, name, "bh-own-rights")
        # As in an installation from before the right was bound: it binds it first.
        await admin.delete(kinds.ROLE_BINDINGS, "controller-secrets", "bh-own-rights")
        await world.settle("own-rights")
        assert await kinds_of(admin, "own-rights") == made
        await take_down(world, "own-rights")
        assert await kinds_of(admin, "own-rights") == set()


@pytest.mark.parametrize("place", ["kube-system", "somebodys", "bh-somebodys", "bh-team-a-work", "bulkhead-system", None])
async def test_it_reads_no_secret_of_the_host(place: str | None, admin: Client, limited: Client) -> None:
    with pytest.raises(Forbidden):
        await limited.list(kinds.SECRETS, place)
    if place:
        with pytest.raises(Forbidden):
            await limited.get(kinds.SECRETS, "x", place)
        with pytest.raises(Forbidden):
            await limited.create(kinds.SECRETS, {"metadata": {"name": "x"}}, place)


async def test_it_reads_what_is_shared_and_writes_nothing_there(admin: Client, limited: Client) -> None:
    there = {"name": "registry", "namespace": "bulkhead-shared"}
    for r in (kinds.SECRETS, kinds.CONFIG_MAPS):
        await admin.apply(r, {"metadata": there, "data": {"a": "Yg=="}})
    sources = Sources(limited, "bulkhead-shared", lambda _: None)

    async def reads() -> bool:
        found = await sources.of([Item("Secret", "registry"), Item("ConfigMap", "none")])
        return [type(each) for each in found.values()] == [Content, Absent]

    async with background(sources.run()):
        await until(reads, "what is shared")
    # Secrets by its rights, ConfigMaps by the policy.
    for r, refusal in ((kinds.SECRETS, Forbidden), (kinds.CONFIG_MAPS, Unprocessable)):
        with pytest.raises(refusal):
            await limited.patch(r, "registry", {"data": {"a": "Yw=="}}, "bulkhead-shared")
        with pytest.raises(refusal):
            await limited.delete(r, "registry", "bulkhead-shared")


async def test_it_makes_shared_volumes_by_its_rights_and_no_others(admin: Client, limited: Client) -> None:
    given = volume_samples.grant()
    await limited.create(kinds.PERSISTENT_VOLUMES, host_volume(given))
    await limited.create(kinds.PERSISTENT_VOLUME_CLAIMS, host_claim(given))
    await admin.apply(kinds.PERSISTENT_VOLUMES, volume_samples.volume(name="of-the-host", marks={}))
    with pytest.raises(Forbidden):
        await limited.patch(kinds.PERSISTENT_VOLUMES, given.volume, {"spec": {"mountOptions": []}})
    with pytest.raises(Unprocessable, match="marked as a tenant's"):
        await limited.delete(kinds.PERSISTENT_VOLUMES, "of-the-host")
    await limited.delete(kinds.PERSISTENT_VOLUME_CLAIMS, given.claim, "bh-team-a-work")
    await limited.delete(kinds.PERSISTENT_VOLUMES, given.volume)


async def test_its_standing_informers_need_no_more_than_its_rights(admin: Client, limited: Client) -> None:
    async with background(Accelerators(limited).run()) as accelerators, Limited(admin, limited) as world:
        assert all(informer.last_error is None for informer in world.owned._informers.values() if informer.served)
        assert {resource.kind for resource, each in world.owned._informers.items() if not each.served} == {"TLSRoute"}
        assert kinds.SECRETS not in world.owned._informers
        assert not accelerators.done()


async def test_a_changed_secret_is_noticed_without_a_watch(admin: Client, limited: Client) -> None:
    await admin.apply(kinds.ROLE_BINDINGS, copy.deepcopy(ALLOWED["Secrets of the plane"]))
    meta = {"name": "pki-x", "namespace": "bh-team-a", "labels": MARKS}
    await admin.apply(kinds.SECRETS, {"metadata": meta, "stringData": {"a": "b"}})
    said: list[str] = []
    watch = SecretWatch(limited, lambda: ["team-a", "team-b", "gone"], said.append, SystemClock(), period=0.1)

    async def readable() -> bool:
        try:
            await limited.list(kinds.SECRETS, "bh-team-a")
        except KubeError:
            return False
        return True

    await until(readable, "the right to be known")
    for name in ("team-a", "team-b", "gone", "team-a"):
        await watch.look(name)
    assert said == []
    await admin.patch(kinds.SECRETS, "pki-x", {"stringData": {"a": "c"}}, "bh-team-a")

    async def once() -> bool:
        return said == ["team-a"]

    async def twice() -> bool:
        return said == ["team-a", "team-a"]

    async with background(watch.run()):
        await until(once, "the change noticed")
        await admin.delete(kinds.SECRETS, "pki-x", "bh-team-a")
        await until(twice, "the deletion noticed")


# -- requests for people's certificates


def request_for(signer: str, tenant: str = "own-login") -> Obj:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    spec = {
        "request": base64.b64encode(pem.public_bytes(serialization.Encoding.PEM)).decode(),
        "signerName": signer,
        "usages": ["client auth", "digital signature"],
    }
    return {"metadata": {"generateName": "x-", "labels": {"bulkhead.dev/tenant": tenant}}, "spec": spec}


async def test_it_signs_in_a_person_by_its_own_rights_and_its_role_lets_people_ask(
    server: ApiServer, admin: Client, limited: Client
) -> None:
    await ask(admin, "own-login")
    binding = {"metadata": {"name": "people"}, "subjects": [{"kind": "User", "apiGroup": RBAC, "name": "alice"}]}
    await admin.apply(
        kinds.CLUSTER_ROLE_BINDINGS, binding | {"roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "bulkhead-login"}}
    )
    async with (
        Limited(admin, limited) as world,
        background(Logins(limited, SystemClock()).run()),
        Client(server.config_for("alice"), user_agent="tests", field_manager="tests") as alice,
    ):
        await world.settle("own-login")

        async def signed() -> bool:
            filed = await alice.create(kinds.CERTIFICATE_SIGNING_REQUESTS, request_for(names.LOGIN_SIGNER))
            for _ in range(50):
                status = (await alice.get(kinds.CERTIFICATE_SIGNING_REQUESTS, filed["metadata"]["name"])).get("status") or {}
                if status.get("certificate") or status.get("conditions"):
                    return bool(status.get("certificate"))
                await asyncio.sleep(0.1)
            return False

        await until(signed, "a certificate")
        await take_down(world, "own-login")


@pytest.mark.parametrize("subresource", ["", "approval", "status"])
async def test_it_answers_requests_of_no_other_signer(subresource: str, mighty: Client, admin: Client) -> None:
    for signer, refused in (("kubernetes.io/kube-apiserver-client", True), (names.LOGIN_SIGNER, False)):
        made = await admin.create(kinds.CERTIFICATE_SIGNING_REQUESTS, request_for(signer))
        name = str(made["metadata"]["name"])
        condition = {"type": "Approved" if subresource == "approval" else "Failed", "status": "True", "reason": "x"}
        changed = made | {"status": {"conditions": [condition]}}

        async def write(name: str = name, changed: Obj = changed) -> None:
            if subresource:
                await mighty.replace(kinds.CERTIFICATE_SIGNING_REQUESTS, changed, subresource=subresource)
            else:
                await mighty.delete(kinds.CERTIFICATE_SIGNING_REQUESTS, name)

        if not refused:
            await write()
            continue
        with pytest.raises(ApiError, match="of its own signer"):
            await write()
