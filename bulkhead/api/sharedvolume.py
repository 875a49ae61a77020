"""`SharedVolume`: a directory of the host's storage that tenants find in their planes as a claim that is bound. Types only.

Made by admins of the host. From it the controller makes a PersistentVolume and a claim of its own for each tenant; nothing
that a tenant writes is read for them.
"""

from typing import Annotated, Final

from pydantic import Field

from bulkhead.api.fields import ApiModel, DnsName, Rule, StorageSize, model_rules, text
from bulkhead.api.shares import SharedNamespaces

NAME_LIMIT: Final = 40
SUBPATH_LIMIT: Final = 512
_OPTION: Final = r"^[A-Za-z0-9][-A-Za-z0-9_.=:]*$"
_NAME: Final[Rule] = {
    "rule": f"self.metadata.name.size() <= {NAME_LIMIT} && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    "message": f"the name must be a DNS label of at most {NAME_LIMIT} characters that begins with a letter",
}
_ONE_SOURCE: Final[Rule] = {
    "rule": "has(self.nfs) != has(self.persistentVolumeName)",
    "message": "exactly one of nfs and persistentVolumeName",
}
_FOR_SOMEBODY: Final[Rule] = {"rule": "has(self.tenants) || has(self.classes)", "message": "tenants, classes or both"}
_INSIDE: Final[Rule] = {
    "rule": "!has(self.subPath) || self.subPath.split('/').all(part, part != '' && part != '.' && part != '..')",
    "message": "subPath is relative and goes downwards: no '/' at either end, no '//', no '.' and no '..'",
}
_ABSOLUTE: Final[Rule] = {
    "rule": "self.path.startsWith('/') && self.path.split('/').all(part, part != '.' && part != '..')",
    "message": "path is absolute, without '.' and '..'",
}


class NfsExport(ApiModel):
    """What an NFS server exports."""

    model_config = model_rules(_ABSOLUTE)
    server: Annotated[str, text(253, r"^[A-Za-z0-9][-A-Za-z0-9.:]*$")] = Field(
        description="Its name or address, as the host's nodes reach it."
    )
    path: Annotated[str, text(1024, r"^/[^\x00-\x1f\\]*$")] = Field(description="The exported directory.")


class SharedVolumeSpec(ApiModel):
    """What is shared, with which tenants, and where it is in their planes."""

    model_config = model_rules(_ONE_SOURCE, _FOR_SOMEBODY, _INSIDE)
    nfs: NfsExport | None = Field(None, description="An export of an NFS server.")
    persistent_volume_name: DnsName | None = Field(
        None,
        description="A PersistentVolume of the host, of type nfs, csi or local. Its data is shared; the volume itself does not "
        "change. The chart lists the types that may be shared (shares.volumeTypes).",
    )
    sub_path: Annotated[str, text(SUBPATH_LIMIT, r"^[-A-Za-z0-9_.{}/]+$")] | None = Field(
        None,
        description="The directory below the source that tenants get; by default all of it. {tenant} stands for the tenant's "
        "name. It must exist already. Not for csi.",
    )
    read_only: bool = Field(True, description="Whether tenants can only read it.")
    capacity: StorageSize = Field("1Gi", description="The size that is shown; nothing enforces it.")
    mount_options: Annotated[list[Annotated[str, text(64, _OPTION)]], Field(max_length=16)] | None = Field(
        None,
        description="Mount options; by default those of the PersistentVolume.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    tenants: Annotated[list[DnsName], Field(max_length=256)] | None = Field(
        None, description="Tenants that get it.", json_schema_extra={"x-kubernetes-list-type": "set"}
    )
    classes: Annotated[list[DnsName], Field(max_length=64)] | None = Field(
        None,
        description="Classes whose tenants all get it.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    namespaces: SharedNamespaces | None = Field(
        None, description="Namespaces of the planes that get the claim; by default all but kube-*."
    )


class SharedVolume(ApiModel):
    """A directory of the host's storage that tenants find in their planes as claim `shared.ro.<name>` or `shared.rw.<name>`."""

    model_config = model_rules(_NAME)
    spec: SharedVolumeSpec = Field(description="What is shared, with which tenants, and where it is in their planes.")
