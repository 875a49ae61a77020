"""How hard tenants are kept apart. Types only."""

from typing import Annotated, Final, Literal

from pydantic import Field

from bulkhead.api.fields import DROPS, ApiModel, DnsName, DropPrivileges, Rule, rules, text
from bulkhead.api.tenantclass.networking import ClassNetwork

# No empty parts and none that begin with a dot: a path stays inside the folder, and has one spelling. No commas either.
SeccompProfile = Annotated[str, text(253, r"^[A-Za-z0-9_][-A-Za-z0-9._]*(/[A-Za-z0-9_][-A-Za-z0-9._]*)*$")]
AppArmorProfile = Annotated[str, text(253, r"^[A-Za-z0-9_/][-A-Za-z0-9._/]*$")]
_CONFINED: Final[Rule] = {
    "rule": "self.all(one, one != 'unconfined')",
    "message": "must name a profile, not unconfined",
}


class ClassIsolation(ApiModel):
    """How strictly tenants are isolated."""

    pod_security: Literal["baseline", "restricted"] = Field(
        "baseline", description="Pod Security level that the host enforces on pods."
    )
    user_namespaces: bool | None = Field(None, description="Whether every pod runs in a user namespace of its own.")
    prefer_user_namespaces: bool | None = Field(
        None,
        description="Whether pods run in a user namespace of their own where that is sure to work: all nodes of the tenant "
        "report it, and the pod has no claim, no device, no runtime class and no user above 65535. Other pods get an event.",
    )
    drop_privileges: DropPrivileges | None = Field(None, description=DROPS)
    allowed_seccomp_profiles: Annotated[list[SeccompProfile], Field(max_length=16)] | None = Field(
        None,
        description="Seccomp profiles on the nodes that pods may name (type Localhost), as paths below the kubelet's seccomp "
        "folder; none by default. Pods that name none run with the container runtime's default.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    allowed_app_armor_profiles: Annotated[list[AppArmorProfile], Field(max_length=16)] | None = Field(
        None,
        description="AppArmor profiles loaded on the nodes that pods may name (type Localhost); none by default.",
        json_schema_extra={"x-kubernetes-list-type": "set", **rules(_CONFINED)},
    )
    runtime_class_name: DnsName | None = Field(None, description="RuntimeClass that every pod runs with.")
    allowed_runtime_classes: Annotated[list[DnsName], Field(max_length=16)] | None = Field(
        None,
        description="RuntimeClasses of the host that pods may name, and that a tenant may choose instead of the class's.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    network: ClassNetwork | None = Field(None, description="What the pods may reach beyond their own tenant.")
