"""What a snapshot is taken of, as a reconcile orders it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from bulkhead.api.objects import Obj
from controller.plane.secrets import KeyMaterial
from controller.plane.spec import PlaneSpec


@dataclass(frozen=True, slots=True, repr=False)
class Order:
    """One TenantSnapshot, and the plane at the time of the last reconcile. It has no text form, because of its keys.

    record: the plane's record, as it is signed.
    secrets: the keys from which all others are made, by Secret and file; leaf certificates are issued again.
    addresses: of the plane's pods, by name.
    """

    request: Obj
    tenant: Obj
    spec: PlaneSpec
    keys: KeyMaterial
    record: str
    secrets: Mapping[str, Mapping[str, bytes]]
    addresses: Mapping[str, str]

    @property
    def name(self) -> str:
        """The name of the TenantSnapshot."""
        return str(self.request["metadata"]["name"])

    @property
    def place(self) -> str:
        """The name of the target; empty for that of the installation."""
        return self.spec.backup.target

    @property
    def uid(self) -> str:
        """Its UID."""
        return str(self.request["metadata"]["uid"])
