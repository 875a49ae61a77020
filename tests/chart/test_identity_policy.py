"""The key that signs planes' records is not lost by a client that replaces its Secret, on a real API server with the policy."""

import base64
import contextlib
from collections.abc import AsyncIterator

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube import codec
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, ApiError, NotFound
from bulkhead.kube.resources import VALIDATING_ADMISSION_POLICIES as POLICIES
from bulkhead.kube.resources import VALIDATING_ADMISSION_POLICY_BINDINGS as BINDINGS
from controller.decide.identity import KEYS
from controller.pki.signingkeys import PRIVATE
from tests.kit.helmchart import of_kind, rendered
from tests.kit.known import IN_FORCE
from tests.kit.servers import ApiServer, by_token
from tests.kit.syncerbed import until

pytestmark = [pytest.mark.apiserver, pytest.mark.charts]
NAMESPACE = "bulkhead-system"
DATA = {name: base64.b64encode(name.encode()).decode() for name in (PRIVATE, "earlier.pub")}


def secret(name: str = KEYS, data: dict[str, str] | None = None) -> Obj:
    """A Secret with this data; without any it is as Helm writes it."""
    made: Obj = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": {"name": name, "namespace": NAMESPACE}}
    return made | ({"data": data} if data else {})


@pytest.fixture
async def admin(guarded_server: ApiServer) -> AsyncIterator[Client]:
    """The policy, in force, and the Secret with its keys."""
    async with Client(by_token(guarded_server.admin), user_agent="tests", field_manager="tests") as client:
        with contextlib.suppress(AlreadyExists):
            await client.create(kinds.NAMESPACES, {"metadata": {"name": NAMESPACE}})
        with contextlib.suppress(NotFound):
            await client.delete(kinds.SECRETS, KEYS, NAMESPACE)
        await client.create(kinds.SECRETS, secret(data=DATA))
        for obj in rendered():
            if obj["metadata"]["name"] == KEYS and obj["kind"] != "Secret":
                await client.apply(POLICIES if obj["kind"] == "ValidatingAdmissionPolicy" else BINDINGS, obj)

        async def kept() -> bool:
            try:
                path = kinds.SECRETS.path(NAMESPACE, KEYS)
                await client.transport.request("PUT", path, params={"dryRun": "All"}, body=codec.encode(secret()))
            except ApiError as error:
                return "keeps its signing.key" in str(error)
            return False

        await until(kept, "the policy in force", IN_FORCE)
        yield client
        await client.delete(kinds.SECRETS, KEYS, NAMESPACE)
        for resource in (BINDINGS, POLICIES):
            await client.delete(resource, KEYS)


async def test_a_client_that_replaces_the_secret_is_refused_with_the_cause(admin: Client) -> None:
    """As `helm upgrade --force` does, of Helm 3, and --force-replace of Helm 4."""
    (written,) = [found for found in of_kind("Secret") if found["metadata"]["name"] == KEYS]
    with pytest.raises(ApiError, match="--force-replace") as refused:
        await admin.replace(kinds.SECRETS, written)
    assert "nothing was written" in str(refused.value)
    with pytest.raises(ApiError, match=r"keeps its signing\.key"):
        await admin.patch(kinds.SECRETS, KEYS, {"data": {PRIVATE: None}}, NAMESPACE)
    assert (await admin.get(kinds.SECRETS, KEYS, NAMESPACE))["data"] == DATA


async def test_what_a_rotation_a_revocation_and_a_backup_write_passes(admin: Client) -> None:
    another = {PRIVATE: DATA["earlier.pub"]}
    await admin.patch(kinds.SECRETS, KEYS, {"data": another}, NAMESPACE)
    await admin.patch(kinds.SECRETS, KEYS, {"data": {"earlier.pub": None}}, NAMESPACE)
    await admin.patch(kinds.SECRETS, KEYS, {"data": DATA}, NAMESPACE)
    # Of the chart's own Secret before the controller has drawn a key, and of all others.
    await admin.delete(kinds.SECRETS, KEYS, NAMESPACE)
    await admin.create(kinds.SECRETS, secret())
    await admin.replace(kinds.SECRETS, secret())
    await admin.create(kinds.SECRETS, secret("of-others", DATA))
    await admin.replace(kinds.SECRETS, secret("of-others"))
    await admin.delete(kinds.SECRETS, "of-others", NAMESPACE)
