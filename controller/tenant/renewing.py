"""Renews the certificates of planes whose Tenant is refused as it is: paused, or of an unknown class. Nothing else changes.

    at two thirds of its life ──> the same certificate again, in its Secret ──> read only at a start: its Deployment restarts

A pause lets people work without interference; it must not end a plane. Each step patches one existing object and names the
version that was read. What exists decides what is left to do, so after a crash between two steps the second one is repeated.
The controller acts only in a namespace of this Tenant, and only on a plane that was built.
"""

import logging
from base64 import b64encode
from typing import Final

from bulkhead.api import names
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Conflict, KubeError, NotFound
from controller import metrics
from controller.host.owned import SELECTOR
from controller.pki import standing
from controller.pki.issue import Known
from controller.pki.renewals import Renewals
from controller.plane.spec import DNS, LEAF_ANNOTATION, PLANE, SYNCER
from controller.tenant.observe import Observed, owned_by

_log = logging.getLogger(__name__)
# The Secrets whose certificates are read only at a start, and the Deployments that read them.
_READ_ONCE: Final = {"pki-syncer": SYNCER, "pki-dns": DNS}


class Renewing:
    """Renews certificates in planes that are not reconciled otherwise."""

    def __init__(self, client: Client, renewals: Renewals) -> None:
        self._client = client
        self._renewals = renewals

    async def reach(self, observed: Observed, known: Known) -> str:
        """Renew the certificates that are due, if there is a plane; returns what went wrong or soon will, empty if nothing."""
        namespace = _plane_of(observed)
        if namespace is None:
            return ""
        try:
            listed = await self._client.list(kinds.SECRETS, namespace, label_selector=SELECTOR)
            secrets = {str(obj["metadata"]["name"]): obj for obj in listed.items}
            put_off = await self._secrets(observed, secrets, known)
            metrics.report_certificates(observed.name, standing.ends(secrets, known))
            await self._deployments(observed, namespace, secrets)
        except (KubeError, TimeoutError) as error:
            _log.warning("cannot renew the plane's certificates: %s", error, extra={"tenant": observed.name})
            return f"certificates are due and could not be renewed; the controller tries again: {error}"
        if put_off:
            return f"certificates are due and not renewed yet: {self._renewals.why_not}"
        ends = standing.ending(secrets, observed.now, known)
        named = ", ".join(f"{name} ({end:%Y-%m-%d})" for name, end in sorted(ends.items()))
        return f"CAs of the plane are replaced only while its Tenant is reconciled, and these expire: {named}" if named else ""

    async def _secrets(self, observed: Observed, secrets: dict[str, Obj], known: Known) -> bool:
        """Renew what is due, one Secret at a time; returns whether a renewal was put off."""
        due = standing.due(secrets, observed.now, known)
        if not due:
            return False
        if not self._renewals.take():
            return True
        for name in sorted({certificate.secret for certificate in due}):
            obj, files = secrets[name], dict[str, bytes]()
            for certificate in (certificate for certificate in due if certificate.secret == name):
                files |= standing.renewed(certificate, secrets, observed.now, known)
                metrics.certificates_issued.inc()
                extra = {
                    "tenant": observed.name,
                    "certificate": f"{name}/{certificate.file}",
                    "why": "at two thirds of its life",
                }
                _log.info("issuing", extra=extra)
            meta = obj["metadata"]
            version = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
            body = {"metadata": version, "data": {file: b64encode(content).decode() for file, content in files.items()}}
            secrets[name] = await self._client.patch(kinds.SECRETS, name, body, str(meta["namespace"]))
        return False

    async def _deployments(self, observed: Observed, namespace: str, secrets: dict[str, Obj]) -> None:
        """Restart the Deployments that run with other certificates than their Secret now contains."""
        for secret, name in _READ_ONCE.items():
            wanted, running = standing.loaded(secret, secrets), observed.get(kinds.DEPLOYMENTS, name, namespace)
            if wanted is None or running is None:
                continue
            meta = running["spec"]["template"]["metadata"]
            # An upgrade that computes the digest otherwise restarts nothing: the process runs with the present certificate.
            same = {None, wanted, standing.loaded_formerly(secret, secrets)}
            if (meta.get("annotations") or {}).get(LEAF_ANNOTATION) in same:
                continue
            template = {"metadata": {"annotations": {LEAF_ANNOTATION: wanted}}}
            body = {"metadata": {"uid": running["metadata"]["uid"]}, "spec": {"template": template}}
            try:
                await self._client.patch(kinds.DEPLOYMENTS, name, body, namespace)
            except (NotFound, Conflict):
                continue  # gone or replaced by another of its name: its informer enqueues the tenant again


def _plane_of(observed: Observed) -> str | None:
    """The namespace of the tenant's plane; None if there is none, or if it is not the tenant's own."""
    try:
        namespace = names.plane_namespace(observed.name)
    except names.InvalidTenantNameError:
        return None
    there = observed.get(kinds.NAMESPACES, namespace)
    own = there is not None and owned_by(there, observed.name, str(observed.tenant["metadata"]["uid"]))
    return namespace if own and observed.get(kinds.STATEFUL_SETS, PLANE, namespace) is not None else None
