"""What people see of quotas by the chart's roles: all of it with the one that is made for it, and cohorts' sums to log in."""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bulkhead.api import names
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Forbidden, KubeError
from tests.kit.background import background
from tests.kit.commandline import Outcome, finish, start
from tests.kit.kubeconfigs import to_yaml
from tests.kit.ledgerhost import GPU, LedgerHost
from tests.kit.servers import ApiServer
from tests.kit.syncerbed import until
from workstation.cli.console.live import Live
from workstation.console.board import Board

pytestmark = [pytest.mark.apiserver, pytest.mark.charts]
RBAC = "rbac.authorization.k8s.io"
LOGIN = "bulkhead-login"


class Person:
    """A user with one of the chart's roles."""

    def __init__(self, server: ApiServer, folder: Path) -> None:
        self.name = f"p-{secrets.token_hex(4)}"
        self.config = server.config_for(self.name)
        self._file = folder / "kubeconfig"
        self._file.write_bytes(to_yaml(self.config))

    async def given(self, admin: Client, role: str, namespace: str | None = None) -> None:
        subjects = [{"kind": "User", "apiGroup": RBAC, "name": self.name}]
        kind = "ClusterRole" if namespace is None else "Role"
        binding = {"subjects": subjects, "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role}}
        resource = kinds.CLUSTER_ROLE_BINDINGS if namespace is None else kinds.ROLE_BINDINGS
        await admin.create(resource, binding | {"metadata": {"name": self.name}}, namespace)

        async def may() -> bool:
            async with Client(self.config, user_agent="tests", field_manager="tests") as client:
                try:
                    await client.list(kinds.TENANTS if namespace is None else kinds.CONFIG_MAPS, namespace)
                except KubeError:
                    return False
            return True

        await until(may, f"{self.name} to have {role}")

    async def run(self, *words: str) -> Outcome:
        return await finish(await start(*words, environment={"KUBECONFIG": str(self._file)}))


@pytest.fixture
def person(server: ApiServer, tmp_path: Path) -> Person:
    return Person(server, tmp_path)


@pytest.fixture
async def host(admin: Client) -> AsyncIterator[LedgerHost]:
    async with LedgerHost.open(admin) as made:
        yield made


async def commands(host: LedgerHost) -> dict[str, list[str]]:
    """Every command that shows quotas, and a tenant with a pod that waits for them to be about."""
    cohort = await host.cohort("research")
    tenant = await host.tenant("seen", 4, cohort)
    spec = {"class": "standard", "quota": {"cohort": cohort, "resources": {GPU: {"nominal": 4}}}}
    await host.client.apply(kinds.TENANTS, {"metadata": {"name": tenant}, "spec": spec})
    host.tenants.append(tenant)
    await host.run(tenant, "waits", 4)
    return {
        "top": ["top"],
        "cohort": ["cohort", cohort],
        "why": ["why", tenant, "waits"],
        "quota try": ["quota", "try", tenant, f"{GPU}=2"],
        "usage": ["usage"],
    }


async def test_the_role_for_quotas_is_all_that_the_commands_need(admin: Client, host: LedgerHost, person: Person) -> None:
    await person.given(admin, names.QUOTA_ROLE)
    await person.given(admin, names.QUOTA_ROLE, "bulkhead-system")
    for name, words in (await commands(host)).items():
        done = await person.run(*words)
        # Nothing was metered here, which only a user with the right to look can know.
        assert (done.code, done.err) == (0, "") or (name == "usage" and "there is no stored usage" in done.err), (
            name,
            done.err,
        )
    async with Client(person.config, user_agent="tests", field_manager="tests") as client:
        for resource in (kinds.SECRETS, kinds.CONFIG_MAPS):
            with pytest.raises(Forbidden, match="cannot list resource"):
                await client.list(resource)
        with pytest.raises(Forbidden, match="cannot create resource"):
            await client.create(kinds.CERTIFICATE_SIGNING_REQUESTS, {"metadata": {"name": "x"}})


async def test_the_role_for_quotas_keeps_the_console_current(admin: Client, host: LedgerHost, person: Person) -> None:
    await person.given(admin, names.QUOTA_ROLE)
    await commands(host)
    async with Client(person.config, user_agent="tests", field_manager="tests") as client:
        live = Live(client, "tests", Board())

        async def shown() -> set[str]:
            return {row.name for row in live.picture.tenants} if live.picture and not live.picture.reading else set()

        async with background(live.run()):
            before = await until(shown, "the picture")
            later = await host.tenant("later", 4, host.cohorts[0])
            await host.client.apply(kinds.TENANTS, {"metadata": {"name": later}, "spec": {"class": "standard"}})
            host.tenants.append(later)

            async def seen() -> bool:
                return later in await shown()

            await until(seen, "a tenant that was made later")
            assert later not in before
            assert live.picture is not None
            unread = {what.partition(":")[0] for what in live.picture.unread}
            assert unread <= {"whether the controller runs", "when certificates end"}, live.picture.unread


async def test_a_login_user_sees_cohorts_and_reads_which_role_shows_the_rest(
    admin: Client, host: LedgerHost, person: Person
) -> None:
    await person.given(admin, LOGIN)
    for name, words in (await commands(host)).items():
        done = await person.run(*words)
        assert done.code == 1, name
        assert "you may not read on the host" in done.err, name
        assert names.QUOTA_ROLE in done.err, name
        assert "kubectl get cohorts" in done.err, name
    async with Client(person.config, user_agent="tests", field_manager="tests") as client:
        assert host.cohorts[0] in {each["metadata"]["name"] for each in (await client.list(kinds.COHORTS)).items}
        with pytest.raises(Forbidden, match="cannot patch resource"):
            await client.patch(kinds.COHORTS, host.cohorts[0], {"status": {"waiting": 0}}, subresource="status")
