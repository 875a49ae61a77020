"""Whether a user without rights on the host can reach a tenant; if not, why, and what to ask of the tenant's admin.

    connect (TCP, TLS by the tenant's own CA) ──> sign in at the provider ──> ask the tenant who that is ──> a name

Each failing step becomes one sentence with a cause that the user can check, or pass on to the tenant's admin. Behind a proxy
(HTTPS_PROXY, unless NO_PROXY names the tenant) nothing is tried: kubectl goes through the proxy, and this check does not.
"""

import contextlib
import socket
import ssl
import time
from typing import Final
from urllib.parse import urlsplit

from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, text
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, Unauthorized
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.objects import Resource
from bulkhead.proxies import proxy_of_environment
from workstation.cli import eventloop
from workstation.cli.credentials import document
from workstation.cli.credentials.handed import Handed
from workstation.cli.credentials.token import Tokens, claims_of
from workstation.cli.failures import CliError
from workstation.cli.output import plain

_SECONDS: Final = 5.0
_SKEW_SECONDS: Final = 60
_ANSWER_LIMIT_BYTES: Final = 1 << 20
_REVIEWS: Final = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False)
# Error codes of OpenSSL (X509_V_ERR_CERT_NOT_YET_VALID, _HAS_EXPIRED, _HOSTNAME_MISMATCH, _IP_ADDRESS_MISMATCH).
_EARLY, _LATE = 9, 10
_OTHER_NAME: Final = (62, 64)


def proxied(tenant: Obj) -> bool:
    """Whether kubectl reaches the tenant's API server through a proxy of this machine."""
    return bool(proxy_of_environment(document.place_of(tenant)[0]))


def reach(found: Handed) -> None:
    """Raise CliError unless the tenant's API server answers."""
    server, authority = document.place_of(found.tenant)
    address = urlsplit(server)
    host = address.hostname or ""
    asked = found.tenant["status"].get("tlsServerName") or host
    with contextlib.ExitStack() as stack:
        try:
            context = ssl.create_default_context(cadata=authority)
        except (ssl.SSLError, ValueError) as error:
            raise _no(found, "its file has no certificate to verify it with", _new_file(found)) from error
        try:
            raw = stack.enter_context(socket.create_connection((host, address.port or 443), _SECONDS))
        except socket.gaierror as error:
            hint = f"check the network or VPN of this machine; otherwise ask the tenant's admin where {asked} leads"
            raise _no(found, f"the name {host} is not known here", hint) from error
        except OSError as error:
            raise _no(found, f"{address.netloc} does not answer: {plain(error, 100)}", _exposed(found)) from error
        try:
            stack.enter_context(context.wrap_socket(raw, server_hostname=asked))
        except ssl.SSLCertVerificationError as error:
            raise _mistrusted(found, asked, error) from error
        except OSError as error:
            why = f"{address.netloc} answers, but closes connections for {asked}"
            raise _no(found, f"{why}: the tenant is gone or is no longer exposed", _exposed(found)) from error


def name_of(found: Handed, tokens: Tokens) -> str:
    """The name under which the tenant knows the token's user. Raises CliError if the tenant does not accept the token."""
    server, authority = document.place_of(found.tenant)
    asked = found.tenant["status"].get("tlsServerName")
    config = KubeConfig(server=server, ca=authority.encode(), token=tokens.token, tls_server_name=asked)
    try:
        return eventloop.run(_name(config))
    except Unauthorized as error:
        apart = skew(tokens)
        clock = f"; this machine's clock and the provider's are {apart:.0f} s apart" if apart > _SKEW_SECONDS else ""
        raise _no(
            found,
            f"{plain(found.issuer.url)} signed you in, but the tenant does not accept its token{clock}",
            f"ask its admin to check IssuersReady (bulkhead tenant describe {found.name}), access.revoked, maxTokenAge and "
            "requiredGroups",
        ) from error
    except (KubeError, TimeoutError) as error:
        raise _no(found, f"its API server does not tell who you are: {plain(error, 200)}", "try again") from error


def skew(tokens: Tokens) -> float:
    """Seconds between the provider's clock and this machine's, computed from a token that was just issued; 0 if unknown."""
    issued = claims_of(tokens.token).get("iat")
    fresh = time.time() - tokens.issued < _SKEW_SECONDS
    return abs(issued - tokens.issued) if fresh and isinstance(issued, int | float) else 0.0


async def _name(config: KubeConfig) -> str:
    client = Client(
        config, user_agent="bulkhead-cli", field_manager="bulkhead-cli", timeout=_SECONDS, max_body=_ANSWER_LIMIT_BYTES
    )
    async with client:
        answer: Obj = await client.create(_REVIEWS, {"apiVersion": _REVIEWS.api_version, "kind": _REVIEWS.kind, "metadata": {}})
    return plain(text(mapping(mapping(answer.get("status")).get("userInfo")).get("username")), 200)


def _mistrusted(found: Handed, asked: str, error: ssl.SSLCertVerificationError) -> CliError:
    if error.verify_code in {_EARLY, _LATE}:
        when = "not valid yet" if error.verify_code == _EARLY else "expired"
        clock = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        hint = "set the clock; if it is right, tell the tenant's admin"
        return _no(found, f"its certificate is {when} by this machine's clock, which shows {clock}", hint)
    if error.verify_code in _OTHER_NAME:
        return _no(found, f"the server that answers has no certificate for {asked}", _new_file(found))
    return _no(found, f"the server that answers as {asked} is not the tenant of this file, or has a new CA", _new_file(found))


def _exposed(found: Handed) -> str:
    return (
        f"ask the tenant's admin whether it is exposed (spec.exposure; bulkhead tenant describe {found.name}), and for a new "
        "file if its address has changed"
    )


def _new_file(found: Handed) -> str:
    return f"ask the tenant's admin for a new file: bulkhead kubeconfig {found.name} --oidc"


def _no(found: Handed, why: str, next_step: str) -> CliError:
    return CliError(f"tenant {found.name}: {why}", next_step=next_step)
