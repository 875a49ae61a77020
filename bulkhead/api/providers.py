"""Which identity providers a tenant believes, and by what rules: its own words within its class's. Pure.

    Tenant's spec.access + class's spec.access ──> providers() ──> what its API server is told, and what `bulkhead login` asks

Only the class sets a provider's address, the audiences of its tokens and the prefix of its names; the tenant chooses among
them, and may only ask for more of their users.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api import durations
from bulkhead.api.untrusted import mapping, mappings

MOST_AGE: Final = 900
_TENANT: Final = "{tenant}"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a provider's keys come from, and by what its server is known."""

    url: str
    discovery_url: str = ""
    certificate_authority: str = ""

    @property
    def discovery(self) -> str:
        """The address of its discovery document."""
        return self.discovery_url or f"{self.url.rstrip('/')}/.well-known/openid-configuration"

    @property
    def digest(self) -> str:
        """A short text that is another one for any other source."""
        parts = (self.url, self.discovery_url, self.certificate_authority)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Provider:
    """One identity provider of one tenant."""

    name: str
    source: Source
    audiences: tuple[str, ...]  # the first is the client that `bulkhead login` signs in with
    prefix: str
    username_claim: str = "sub"
    groups_claim: str = ""
    required_claims: tuple[tuple[str, str], ...] = ()
    required_groups: tuple[tuple[str, ...], ...] = ()  # a user is in one of each of these
    email_domains: tuple[str, ...] = ()
    max_age: int = MOST_AGE  # seconds from when a token was issued until it expires


def providers(tenant: str, asked: Mapping[str, Any], offered: Mapping[str, Any]) -> tuple[Provider, ...]:
    """The providers of a tenant, in the order of its class; `asked` and `offered` are both sections `access`."""
    wanted = {str(choice.get("issuer")): choice for choice in mappings(asked.get("oidc"))}
    return tuple(
        _provider(tenant, issuer, wanted.get(str(issuer.get("name")), {}))
        for issuer in mappings(offered.get("issuers"))
        if issuer.get("everyTenant") is True or str(issuer.get("name")) in wanted
    )


def _provider(tenant: str, issuer: Mapping[str, Any], asked: Mapping[str, Any]) -> Provider:
    name, claims, required = str(issuer.get("name")), mapping(issuer.get("claims")), mapping(issuer.get("requiredClaims"))
    groups = (
        tuple(str(required_group).replace(_TENANT, tenant) for required_group in issuer.get("requiredGroups") or ()),
        tuple(map(str, asked.get("requiredGroups") or ())),
    )
    age = durations.seconds(issuer.get("maxTokenAge"))
    return Provider(
        name=name,
        source=Source(
            url=str(issuer.get("url")),
            discovery_url=str(issuer.get("discoveryURL") or ""),
            certificate_authority=str(issuer.get("certificateAuthority") or ""),
        ),
        audiences=tuple(dict.fromkeys(str(audience).replace(_TENANT, tenant) for audience in issuer.get("audiences") or ())),
        prefix=str(issuer.get("prefix") or f"{name}:"),
        username_claim=str(claims.get("username") or "sub"),
        groups_claim=str(claims.get("groups") or ""),
        required_claims=tuple(sorted((str(key), str(required[key]).replace(_TENANT, tenant)) for key in required)),
        required_groups=tuple(group for group in groups if group),
        email_domains=tuple(str(email_domain).lower() for email_domain in issuer.get("emailDomains") or ()),
        max_age=MOST_AGE if age is None else age,
    )
