"""Access to a tenant's API: its admins, the identity providers that it trusts, and the users it has revoked. Types only.

Names of people and groups are written as the tenant's API server has them: with the prefix of their identity provider, such as
`corp:ada@example.org`. Which providers there are, a class says (`bulkhead.api.tenantclass.access`).
"""

from typing import Annotated, Final, Literal

from pydantic import Field

from bulkhead.api.fields import ApiModel, DnsLabel, Moment, Rule, Subject, rules, text

_NOT_OURS: Final[Rule] = {
    "rule": "!self.startsWith('system:') && !self.startsWith('bulkhead:')",
    "message": "names that begin with system: or bulkhead: belong to the platform",
}
IssuerName = Annotated[DnsLabel, Field(max_length=32)]


class Admin(ApiModel):
    """A user or group with full rights inside the tenant, and none on the host."""

    kind: Literal["User", "Group"] = Field("User", description="Whether the name is a user's or a group's.")
    name: Subject = Field(
        description="Name of the user or group as the tenant's API server sees it, with the prefix of its issuer: corp:ada; "
        "system: names are refused.",
        json_schema_extra=rules(_NOT_OURS),
    )


class Oidc(ApiModel):
    """An identity provider of the class whose users may sign in to the tenant."""

    issuer: IssuerName = Field(description="Name of the issuer in the class's access.issuers.")
    required_groups: Annotated[list[Annotated[str, text(253)]], Field(min_length=1, max_length=16)] | None = Field(
        None,
        description="Groups, as the issuer names them; a user must be in one of them to sign in to this tenant.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )


class Revocation(ApiModel):
    """A user or group whose tokens are refused, however long they are valid."""

    kind: Literal["User", "Group"] = Field("User", description="Whether the name is a user's or a group's.")
    name: Subject = Field(
        description="Name of the user or group as the tenant's API server sees it, with the prefix of its issuer: corp:ada.",
        json_schema_extra=rules(_NOT_OURS),
    )
    before: Moment | None = Field(None, description="Only tokens issued before this time are refused; all of them if empty.")


class Access(ApiModel):
    """Access to the tenant's API."""

    admins: Annotated[list[Admin], Field(max_length=64)] | None = Field(
        None,
        description="Users and groups with full rights inside the tenant.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["kind", "name"]},
    )
    oidc: Annotated[list[Oidc], Field(max_length=8)] | None = Field(
        None,
        description="Identity providers of the class whose users may sign in, besides those that the class has for all its "
        "tenants. Users who sign in have only the rights that RBAC in the tenant gives them.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["issuer"]},
    )
    revoked: Annotated[list[Revocation], Field(max_length=128)] | None = Field(
        None,
        description="Users and groups whose tokens are refused; it takes effect within 3 minutes.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["kind", "name"]},
    )
    revoked_users: Annotated[list[Annotated[str, text(253)]], Field(max_length=256)] | None = Field(
        None,
        description="Users of the host, named as its API server has them, who get no more certificates.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    certificates_revoked: Annotated[str, text(63, r"^[!-~]+$")] | None = Field(
        None,
        description="A change of this text, such as a new time, revokes every certificate that was issued to a person.",
    )
