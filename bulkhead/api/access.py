"""Who may use a tenant's API: its admins, the identity providers that it believes, and whom of theirs it does not. Types only.

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
        description="Groups, as the issuer calls them, of which a user must be in one to sign in to this tenant.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )


class Revocation(ApiModel):
    """A user or group whose tokens are refused, however long they are valid."""

    kind: Literal["User", "Group"] = Field("User", description="Whether the name is a user's or a group's.")
    name: Subject = Field(
        description="Name of the user or group as the tenant's API server sees it, with the prefix of its issuer: corp:ada.",
        json_schema_extra=rules(_NOT_OURS),
    )
    before: Moment | None = Field(
        None, description="Tokens issued before this moment are refused, later ones are not; all of them unless given."
    )


class Access(ApiModel):
    """Who may use the tenant's API."""

    admins: Annotated[list[Admin], Field(max_length=64)] | None = Field(
        None,
        description="Users and groups with full rights inside the tenant.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["kind", "name"]},
    )
    oidc: Annotated[list[Oidc], Field(max_length=8)] | None = Field(
        None,
        description="Identity providers of the class whose users may sign in, besides those that the class has for all its "
        "tenants. Whoever signs in has no rights but those that RBAC in the tenant gives.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["issuer"]},
    )
    revoked: Annotated[list[Revocation], Field(max_length=128)] | None = Field(
        None,
        description="Users and groups whose tokens are refused, from at most three minutes after they stand here.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["kind", "name"]},
    )
    revoked_users: Annotated[list[Annotated[str, text(253)]], Field(max_length=256)] | None = Field(
        None,
        description="Users of the host, by the names that its API server gives them, who get no more certificates.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    certificates_revoked: Annotated[str, text(63, r"^[!-~]+$")] | None = Field(
        None,
        description="Any other text than before, such as the time, revokes every certificate that was issued to a person.",
    )
