"""Reads the credentials with which planes sign in to the receivers of their audit trails, from host Secrets that classes name.

    reconcile ── credential(tenant, receiver) ──> the present Secret, or the credential that the plane has, and why
    the Secret changes (`controller.shares.sources`) ──> every tenant that uses it is enqueued at once

The Secrets are in the namespace of shared objects, and have a type that is never shared (`controller.shares.content`).
"""

from collections.abc import Callable
from dataclasses import replace

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, NotFound
from controller.pki.receivers import TYPE, ReceiverUnusableError, credential_of
from controller.plane.auditreceiver import kept
from controller.plane.trail import Receiver


class AuditReceivers:
    """Reads the credential of each tenant's receiver, and enqueues the tenants that use a Secret when it changes."""

    def __init__(self, client: Client, namespace: str, on_change: Callable[[str], object]) -> None:
        self._client = client
        self._namespace = namespace
        self._on_change = on_change
        self._looked: dict[str, str] = {}

    async def signed_in(self, tenant: str, receiver: Receiver | None, copy: Obj | None) -> Receiver | None:
        """The receiver with its credential. If that cannot be read, the plane keeps the credential in its `copy`."""
        if receiver is None:
            self._looked.pop(tenant, None)
            return None
        self._looked[tenant] = receiver.secret
        where = f"Secret {receiver.secret} in namespace {self._namespace} of the host"
        if not self._namespace:
            trouble = "the installation has no namespace for the Secret of the receiver; set chart value shares.namespace"
            return replace(receiver, credential=kept(copy), trouble=trouble)
        try:
            secret = await self._client.get(kinds.SECRETS, receiver.secret, self._namespace)
            return replace(receiver, credential=credential_of(secret))
        except NotFound:
            trouble = f"{where} does not exist; create it with type {TYPE}"
        except ReceiverUnusableError as error:
            trouble = f"{where}: {error}"
        except KubeError as error:
            trouble = f"{where} could not be read: {error}"
        return replace(receiver, credential=kept(copy), trouble=trouble)

    def changed(self, secret: str) -> None:
        """A Secret of the namespace was listed, has changed or is gone."""
        for tenant, looked in list(self._looked.items()):
            if looked == secret:
                self._on_change(tenant)

    def forget(self, tenant: str) -> None:
        """Drop a deleted tenant."""
        self._looked.pop(tenant, None)
