"""What tests of the ways in ask of a tenant: what its status says, and what its certificate."""

from base64 import b64decode

from cryptography import x509

from bulkhead.api.conditions import condition_of
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from tests.kit.controllerhost import ControllerHost


def exposed(tenant: Obj) -> tuple[str, str, str]:
    """The condition Exposed: status, reason and message."""
    found = condition_of(tenant, "Exposed")
    return str(found.get("status")), str(found.get("reason")), str(found.get("message"))


async def settles(world: ControllerHost, name: str, status: str, words: str) -> Obj | None:
    """The tenant, once its condition says so; to be polled, as another process has its part in it."""
    tenant = await world.settle(name)
    found = exposed(tenant)
    return tenant if found[0] == status and words in " ".join(found) else None


async def files(client: Client, tenant: str, secret: str) -> dict[str, bytes]:
    """What a Secret of a plane holds."""
    found = await client.get(kinds.SECRETS, secret, f"bh-{tenant}")
    return {name: b64decode(value) for name, value in found["data"].items()}


async def certified(client: Client, tenant: str) -> tuple[set[str], set[str]]:
    """The names and addresses in the certificate of a plane's API server."""
    pem = (await files(client, tenant, "pki-apiserver"))["server.crt"]
    made = x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return set(made.get_values_for_type(x509.DNSName)), {str(each) for each in made.get_values_for_type(x509.IPAddress)}
