"""The pair of API servers is real: two versions of the truth, real RBAC, certificates that work."""

from dataclasses import replace
from pathlib import Path

import pytest

from bulkhead.kube.client import Client
from bulkhead.kube.errors import Forbidden, Unauthorized
from bulkhead.kube.resources import CONFIG_MAPS, NAMESPACES, SECRETS, TENANTS
from tests.kit.applying import apply_all
from tests.kit.definitions import definitions
from tests.kit.servers import Pair, running

pytestmark = pytest.mark.planes


async def test_both_serve_and_share_nothing(host_client: Client, plane_client: Client, namespace: str) -> None:
    await host_client.create(CONFIG_MAPS, {"metadata": {"name": "only-here"}}, namespace)
    assert (await plane_client.version())["major"] == "1"
    assert [each["metadata"]["name"] for each in (await plane_client.list(CONFIG_MAPS, namespace)).items] == []


async def test_rbac_is_real(apiservers: Pair, namespace: str) -> None:
    config = apiservers.plane.config_for("nobody-in-particular", "nothing")
    async with Client(config, user_agent="tests", field_manager="tests") as client:
        with pytest.raises(Forbidden):
            await client.list(SECRETS, namespace)


async def test_certificates_of_one_plane_are_nothing_to_the_other(apiservers: Pair) -> None:
    stranger = apiservers.host.admin
    config = replace(stranger, server=apiservers.plane.url)
    async with Client(
        type(config)(
            server=config.server,
            ca=apiservers.plane.authority.pem,
            client_cert=config.client_cert,
            client_key=config.client_key,
        ),
        user_agent="tests",
        field_manager="tests",
    ) as client:
        with pytest.raises(Unauthorized):
            await client.list(SECRETS)


async def test_servers_of_the_same_options_are_two_clusters_and_know_nothing_of_each_other(
    apiservers: Pair, host_client: Client, tmp_path: Path
) -> None:
    with running("host", tmp_path, apiservers.host.options) as other:
        async with Client(other.admin, user_agent="tests", field_manager="tests") as client:
            # Our definitions are of what it begins with, as if a test had installed them: no test has to apply them again.
            assert (await client.list(TENANTS)).items == []
            assert not await apply_all(client, definitions())
            found = await client.get(CONFIG_MAPS, "extension-apiserver-authentication", "kube-system")
            ours, theirs = [(await asked.get(NAMESPACES, "kube-system"))["metadata"]["uid"] for asked in (host_client, client)]
    assert ours != theirs
    assert found["data"]["client-ca-file"] == other.authority.pem.decode()
