"""Delivers revocations to a plane whose Tenant is refused as it is: paused, or of an unknown class. Nothing else changes.

    access.certificatesRevoked ──> Secret pki-ca-users, a new CA ──> Secret pki-apiserver, file client-ca.crt
    access.revoked ──> ConfigMap plane-config, file authentication.json: more rules that refuse
    both ──> a touch of the plane's pods, so that their kubelets do not wait (`presenting.py`)

A revocation outranks a pause: a pause lets people work without interference, but must not keep doors open. Each step patches
one file of an existing object and names the version that was read, so it creates nothing and overwrites no other change. What
exists decides what is left to do, so after a crash between two steps the second one is repeated. The controller acts only in a
namespace of this Tenant.
"""

import json
import logging
from base64 import b64decode, b64encode

from bulkhead.api import names
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, NotFound
from bulkhead.kube.objects import Resource
from bulkhead.work.clock import Clock
from controller import metrics
from controller.decide.planespec import revoked_of
from controller.pki import issue
from controller.plane import authentication
from controller.plane.pki import USERS, authority_secret
from controller.plane.secrets import API_SERVER, REVOKED_FILE
from controller.plane.statefulset import CONFIG_MAP
from controller.sections import section_of, text_or_none
from controller.tenant import presenting
from controller.tenant.observe import Observed, owned_by

_log = logging.getLogger(__name__)
_TRUSTED = "client-ca.crt"


class Revoking:
    """Revokes access in planes that are not reconciled otherwise."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def reach(self, observed: Observed) -> str:
        """Deliver every revocation to the plane, if there is one; returns what went wrong, empty if nothing."""
        spec = section_of(observed.tenant, "spec")
        wanted = text_or_none(section_of(spec, "access"), "certificatesRevoked")
        try:
            namespace = names.plane_namespace(observed.name)
        except names.InvalidTenantNameError:
            return ""
        there = observed.get(kinds.NAMESPACES, namespace)
        if there is None or not owned_by(there, observed.name, str(observed.tenant["metadata"]["uid"])):
            return ""
        try:
            if wanted:
                await self._certificates(observed.name, namespace, wanted)
            await self._tokens(observed, namespace)
            if wanted or revoked_of(spec):
                await self._present(observed, namespace)
        except NotFound:
            return ""  # no plane was built yet, and a new one starts with all revocations
        except (KubeError, TimeoutError) as error:
            _log.warning("cannot revoke in the plane: %s", error, extra={"tenant": observed.name})
            return f"the revocation did not reach the plane; the controller tries again: {error}"
        except (KeyError, TypeError, ValueError):
            _log.warning("cannot revoke in the plane: its configuration is malformed", extra={"tenant": observed.name})
            return f"tokens are not revoked in the plane: {authentication.FILE} of ConfigMap {CONFIG_MAP} was changed by hand"
        return ""

    async def _certificates(self, tenant: str, namespace: str, wanted: str) -> None:
        people = await self._client.get(kinds.SECRETS, authority_secret(USERS), namespace)
        if _file(people, REVOKED_FILE).decode("ascii", "replace") != wanted:
            pair = issue.new_authority(f"bulkhead:{tenant}:{USERS}", self._clock.now())
            files = {"tls.crt": pair.certificate, "tls.key": pair.key, REVOKED_FILE: wanted.encode()}
            people = await self._change(kinds.SECRETS, people, {key: b64encode(value).decode() for key, value in files.items()})
            metrics.certificates_issued.inc()
            _log.info("all certificates are revoked", extra={"tenant": tenant})
        components = await self._client.get(kinds.SECRETS, authority_secret("client"), namespace)
        api_server = await self._client.get(kinds.SECRETS, API_SERVER, namespace)
        trusted = _file(components, "tls.crt") + _file(people, "tls.crt")
        if _file(components, "tls.crt") and _file(api_server, _TRUSTED) != trusted:
            await self._change(kinds.SECRETS, api_server, {_TRUSTED: b64encode(trusted).decode()})

    async def _tokens(self, observed: Observed, namespace: str) -> None:
        revoked = revoked_of(section_of(observed.tenant, "spec"))
        if not revoked:
            return
        config = await self._client.get(kinds.CONFIG_MAPS, CONFIG_MAP, namespace)
        running = json.loads(config["data"][authentication.FILE])
        stricter = authentication.with_revoked(running, revoked)
        if stricter != running:
            await self._change(
                kinds.CONFIG_MAPS, config, {authentication.FILE: json.dumps(stricter, indent=1, sort_keys=True) + "\n"}
            )
            _log.info("tokens are revoked", extra={"tenant": observed.name})

    async def _present(self, observed: Observed, namespace: str) -> None:
        files = [
            await self._client.get(kinds.SECRETS, API_SERVER, namespace),
            await self._client.get(kinds.CONFIG_MAPS, CONFIG_MAP, namespace),
        ]
        pods = observed.in_plane(kinds.PODS).values()
        await presenting.present(self._client, observed.name, namespace, presenting.version_of(files), pods)

    async def _change(self, resource: Resource, there: Obj, data: dict[str, str]) -> Obj:
        meta = there["metadata"]
        version = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        return await self._client.patch(
            resource, str(meta["name"]), {"metadata": version, "data": data}, str(meta["namespace"])
        )


def _file(secret: Obj, name: str) -> bytes:
    """One file of a Secret; empty if it has none that can be read."""
    try:
        return b64decode((secret.get("data") or {}).get(name) or "", validate=True)
    except ValueError:
        return b""
