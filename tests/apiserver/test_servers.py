"""The pair of API servers is real: two versions of the truth, real RBAC, certificates that work."""

from dataclasses import replace

import pytest

from bulkhead.kube.client import Client
from bulkhead.kube.errors import Forbidden, Unauthorized
from bulkhead.kube.resources import CONFIG_MAPS, SECRETS
from tests.kit.servers import Pair


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
