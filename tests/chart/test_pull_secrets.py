"""The platform's pull secrets on a real API server, by the controller's own rights: where they are needed, and kept so."""

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bulkhead.api import names
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Forbidden, NotFound
from bulkhead.work.clock import SystemClock
from controller.host.pullsecrets import PullSecrets
from controller.settings import Settings
from tests.chart.policed import policies
from tests.kit.applying import apply_all
from tests.kit.controllerhost import ControllerHost, ask, take_down
from tests.kit.crds import install
from tests.kit.helmchart import rendered
from tests.kit.known import all_known
from tests.kit.servers import ApiServer, running
from tests.kit.tenantsamples import tenant_class

pytestmark = [pytest.mark.apiserver, pytest.mark.helm]
SYSTEM = "bulkhead-system"
SETTINGS = Settings(pull_secrets=("registry", "other"))
INSTALLED = {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount"}
SLURM = {"mode": "Slurm", "slurm": {"nodeSets": [{"name": "a", "replicas": 1}]}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with running("pulling", tmp_path_factory.mktemp("pulling")) as made:
        yield made


def credentials(name: str, host: str, password: str) -> Obj:
    content = json.dumps({"auths": {host: {"auth": password}}}).encode()
    data = {".dockerconfigjson": base64.b64encode(content).decode()}
    meta = {"name": name, "namespace": SYSTEM}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "kubernetes.io/dockerconfigjson", "data": data}


@pytest.fixture
async def admin(server: ApiServer) -> AsyncIterator[Client]:
    async with Client(server.admin, user_agent="tests", field_manager="tests") as client:
        await install(client)
        await client.apply(kinds.TENANT_CLASSES, tenant_class() | {"metadata": {"name": "standard"}})
        await client.apply(kinds.NAMESPACES, {"metadata": {"name": SYSTEM}})
        values = ("--set", "images.pullSecrets={registry,other}")
        objects = [obj for obj in rendered(*values) if obj["kind"] in INSTALLED]
        here = [obj for obj in objects if obj["metadata"].get("namespace", SYSTEM) == SYSTEM]
        await apply_all(client, here + policies(*values))
        await all_known(client)
        await client.apply(kinds.SECRETS, credentials("registry", "r.example.org", "Zmlyc3Q="))
        await client.apply(kinds.SECRETS, credentials("other", "o.example.org", "b3RoZXI="))
        yield client


@pytest.fixture
async def limited(server: ApiServer, admin: Client) -> AsyncIterator[Client]:
    who = f"system:serviceaccount:{SYSTEM}:bulkhead-controller"
    async with Client(server.config_for(who), user_agent="tests", field_manager="bulkhead-controller") as client:
        yield client


class Pulling(ControllerHost):
    """A controller with the chart's rights alone, and pull secrets or none."""

    def __init__(self, admin: Client, limited: Client, settings: Settings = SETTINGS) -> None:
        self.pulls = PullSecrets(limited, settings.pull_secrets, SYSTEM, lambda: None, SystemClock())
        super().__init__(limited, settings=settings, pulls=self.pulls)
        self.client = admin


async def copy_in(admin: Client, namespace: str) -> dict[str, str]:
    """The credentials of the copy, by registry; empty where there is none."""
    try:
        found = await admin.get(kinds.SECRETS, names.PULL_SECRET, namespace)
    except NotFound:
        return {}
    auths = json.loads(base64.b64decode(found["data"][".dockerconfigjson"]))["auths"]
    return {host: entry["auth"] for host, entry in auths.items()}


async def test_they_are_beside_the_plane_alone_and_follow_what_the_admin_writes(admin: Client, limited: Client) -> None:
    await ask(admin, "pulls")
    async with Pulling(admin, limited) as world:
        await world.pulls.look()
        await world.settle("pulls")
        assert await copy_in(admin, "bh-pulls") == {"r.example.org": "Zmlyc3Q=", "o.example.org": "b3RoZXI="}
        assert await copy_in(admin, "bh-pulls-work") == {}
        plane = await admin.get(kinds.STATEFUL_SETS, "plane", "bh-pulls")
        assert plane["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": names.PULL_SECRET}]
        await admin.apply(kinds.SECRETS, credentials("registry", "r.example.org", "c2Vjb25k"))
        await world.pulls.look()
        await world.settle("pulls")
        assert (await copy_in(admin, "bh-pulls"))["r.example.org"] == "c2Vjb25k"
        await admin.delete(kinds.SECRETS, names.PULL_SECRET, "bh-pulls")
        await world.settle("pulls")
        assert await copy_in(admin, "bh-pulls")
    async with Pulling(admin, limited, Settings()) as world:
        await world.settle("pulls")
        assert await copy_in(admin, "bh-pulls") == {}
        await take_down(world, "pulls")


async def test_with_slurm_they_are_in_the_work_namespace_too_as_long_as_it_is_there(admin: Client, limited: Client) -> None:
    await ask(admin, "pulls-slurm", scheduling=SLURM)
    async with Pulling(admin, limited) as world:
        await world.pulls.look()
        await world.settle("pulls-slurm")
        assert await copy_in(admin, "bh-pulls-slurm-work") == await copy_in(admin, "bh-pulls-slurm") != {}
        settings = await admin.get(kinds.CONFIG_MAPS, "syncer", "bh-pulls-slurm")
        told = json.loads(settings["data"]["settings.json"])
        assert (told["pullSecret"], told["ownImages"]) == (names.PULL_SECRET, list(SETTINGS.slurm_images))
        # Nothing else of the tenant's in there.
        await admin.apply(kinds.SECRETS, {"metadata": {"name": "of-the-tenant", "namespace": "bh-pulls-slurm-work"}})
        with pytest.raises(Forbidden, match="cannot get resource"):
            await limited.get(kinds.SECRETS, "of-the-tenant", "bh-pulls-slurm-work")
        with pytest.raises(Forbidden, match="cannot list resource"):
            await limited.list(kinds.SECRETS, "bh-pulls-slurm-work")
    async with Pulling(admin, limited, Settings()) as world:
        await world.settle("pulls-slurm")
        assert await copy_in(admin, "bh-pulls-slurm-work") == {}
        with pytest.raises(NotFound):
            await admin.get(kinds.ROLE_BINDINGS, "controller-pulls", "bh-pulls-slurm-work")
        await take_down(world, "pulls-slurm")


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (None, "does not exist in bulkhead-system"),
        ({"type": "Opaque", "data": {"a": "Yg=="}}, "not Opaque"),
        ({"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "e30="}}, "with auths"),
    ],
)
async def test_one_that_cannot_be_used_is_named_and_takes_nothing_away(
    broken: Obj | None, said: str, admin: Client, limited: Client
) -> None:
    await ask(admin, "pulls-broken")
    async with Pulling(admin, limited) as world:
        await world.pulls.look()
        await world.settle("pulls-broken")
        before = await copy_in(admin, "bh-pulls-broken")
        await admin.delete(kinds.SECRETS, "other", SYSTEM)
        if broken is not None:
            await admin.create(kinds.SECRETS, {"metadata": {"name": "other", "namespace": SYSTEM}} | broken)
        await world.pulls.look()
        await world.settle("pulls-broken")
        assert said in world.pulls.trouble
        assert await copy_in(admin, "bh-pulls-broken") == before != {}
        await admin.delete(kinds.SECRETS, "other", SYSTEM) if broken is not None else None
        await take_down(world, "pulls-broken")
