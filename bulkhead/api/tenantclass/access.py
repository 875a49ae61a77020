"""The identity providers that tenants of a class may believe, and how their tokens become names. Types only.

The class pins everything by which a token could claim another identity: the issuer, its audiences, and the prefix of the
names that it gives. In texts that take `{tenant}` it stands for the tenant's name.
"""

from collections.abc import Iterable
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from bulkhead.api.access import IssuerName
from bulkhead.api.fields import CERTIFICATES, ApiModel, DnsName, ResourceName, Rule, model_rules, rules, text

_URL: Final = (
    r"^https://([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(:[0-9]{1,5})?(/[-A-Za-z0-9._~/@+=,;!$&'()*]*)?$"
)
_CLAIM: Final = r"^[A-Za-z_][-A-Za-z0-9_.:/]*$"
_TEXT: Final = r"^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$"
_RESERVED_PREFIXES: Final = ("system:", "bulkhead:")

Url = Annotated[str, text(512, _URL)]
Claim = Annotated[str, text(128, _CLAIM)]
Value = Annotated[str, text(253, _TEXT)]

_NOT_THE_PLANE: Final[Rule] = {
    "rule": "!self.matches('^https://[^/]*kubernetes[.]default[.]svc')",
    "message": "a plane's own service account issuer cannot be an identity provider",
}
_CLAIM_NAMES: Final[Rule] = {
    "rule": f"self.all(key, size(key) <= 128 && key.matches('{_CLAIM}'))",
    "message": "names of claims, each with the text that it must have",
}
_PREFIX: Final = "(has({0}.prefix) ? {0}.prefix : {0}.name + ':')"
_APART: Final[tuple[Rule, ...]] = (
    {
        "rule": "self.all(one, self.exists_one(other, other.url == one.url))",
        "message": "a URL stands here once: an API server knows an issuer by it",
    },
    {
        "rule": f"self.all(one, self.exists_one(other, {_PREFIX.format('other')} == {_PREFIX.format('one')}))",
        "message": "two issuers of one prefix could name each other's users",
    },
)


class Claims(ApiModel):
    """The claims of a token that name its user."""

    username: Claim = Field(
        "sub",
        description="Claim with the user's name, which must be unique at the issuer and not chosen by the user; email counts "
        "only if it is verified.",
    )
    groups: Claim | None = Field(
        None, description="Claim with the user's groups, a string or a list of strings; none by default."
    )


class Issuer(ApiModel):
    """An identity provider that speaks OpenID Connect."""

    model_config = model_rules(
        {
            "rule": "!(has(self.prefix) ? self.prefix : self.name + ':').matches('^(system|bulkhead):$')",
            "message": "names that begin with system: or bulkhead: belong to the platform",
            "fieldPath": ".name",
        },
        {
            "rule": "!has(self.discoveryURL) || self.discoveryURL != self.url",
            "message": "discoveryURL is another address than url",
            "fieldPath": ".discoveryURL",
        },
        {
            "rule": "!has(self.requiredGroups) || has(self.claims) && has(self.claims.groups)",
            "message": "requiredGroups needs claims.groups",
            "fieldPath": ".requiredGroups",
        },
    )
    name: IssuerName = Field(description="Its name in Tenants, and by default the prefix of its users' names.")
    url: Url = Field(
        description="The issuer exactly as its tokens name it (iss); https only.", json_schema_extra=rules(_NOT_THE_PLANE)
    )
    discovery_url: Url | None = Field(
        None,
        alias="discoveryURL",
        description="Where its discovery document is fetched, if not at url/.well-known/openid-configuration: for an issuer "
        "with another address inside the host's network.",
    )
    certificate_authority: Annotated[str, Field(min_length=1, max_length=16384)] | None = Field(
        None,
        description="Certificate authorities of its server, PEM; by default those of the controller's image.",
        json_schema_extra=rules(CERTIFICATES),
    )
    audiences: Annotated[list[Value], Field(min_length=1, max_length=8)] = Field(
        description="Client IDs that tokens may be for. `{tenant}` stands for the tenant's name, so that no tenant accepts "
        "tokens for another tenant. `bulkhead login` signs in with the first.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    claims: Claims | None = Field(None, description="The claims that name its users; by default sub, and no groups.")
    prefix: Annotated[str, text(63, r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?:$")] | None = Field(
        None, description="Prefix of every user and group name; by default the issuer's name and a colon."
    )
    required_claims: dict[ResourceName, Value] | None = Field(
        None,
        max_length=16,
        description="Claims that every token must have with exactly this value; `{tenant}` stands for the tenant's name.",
        json_schema_extra=rules(_CLAIM_NAMES),
    )
    required_groups: Annotated[list[Value], Field(min_length=1, max_length=16)] | None = Field(
        None,
        description="Groups, as the issuer names them; every user must be in one of them. `{tenant}` stands for the tenant's "
        "name.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    email_domains: Annotated[list[DnsName], Field(min_length=1, max_length=16)] | None = Field(
        None,
        description="Domains of which one must be that of the token's email, which the issuer must have verified.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    max_token_age: Annotated[str, text(6, r"^[1-9][0-9]{0,3}(s|m|h)$")] = Field(
        "15m",
        description="Longest lifetime of a token, from issue to expiry; tokens that live longer are refused. A user that the "
        "issuer removes loses access within this time.",
    )
    every_tenant: bool = Field(False, description="Whether its users may sign in to every tenant of the class.")


def _apart(issuers: Iterable[Issuer]) -> list[Issuer]:
    """The issuers, if none is there twice under any name and no two name each other's users."""
    listed = list(issuers)
    for what, found in (
        ("name", [issuer.name for issuer in listed]),
        ("url", [issuer.url for issuer in listed]),
        ("prefix", [issuer.prefix or f"{issuer.name}:" for issuer in listed]),
    ):
        if len(set(found)) < len(found):
            raise ValueError(f"two issuers have one {what}")
    if any((issuer.prefix or f"{issuer.name}:") in _RESERVED_PREFIXES for issuer in listed):
        raise ValueError("names that begin with system: or bulkhead: belong to the platform")
    return listed


class ClassAccess(ApiModel):
    """Access to the tenants' APIs."""

    issuers: Annotated[list[Issuer], Field(max_length=8), AfterValidator(_apart)] | None = Field(
        None,
        description="Identity providers whose users may sign in to tenants that name them (access.oidc).",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], **rules(*_APART)},
    )
