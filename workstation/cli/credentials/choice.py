"""The identity provider by which a user logs in to a tenant. Only the Tenant is read: its status has what the class sets.

Tenant ──> its providers ──> the named one, or the first ──> Issuer; None: log in with a certificate of the host
"""

from dataclasses import dataclass

from bulkhead.api.objects import Obj
from bulkhead.api.providers import Provider, providers
from bulkhead.api.untrusted import mapping
from workstation.cli.credentials.provider import Issuer
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import plain


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of a command that choose how to sign in."""

    # The name of a provider; None for the first one.
    issuer: str | None = None
    # A certificate of the host, even if there is a provider.
    certificate: bool = False
    scopes: tuple[str, ...] = ()


def of_tenant(tenant: Obj, wanted: Wanted) -> Issuer | None:
    """The provider to sign in to; None if there is none or the command asks for a certificate."""
    name = str(tenant["metadata"]["name"])
    applied = mapping(mapping(mapping(tenant.get("status")).get("class")).get("spec"))
    found = providers(name, mapping(mapping(tenant.get("spec")).get("access")), mapping(applied.get("access")))
    named = [provider for provider in found if provider.audiences and wanted.issuer in {None, provider.name}]
    if wanted.issuer and not named:
        known = ", ".join(plain(issuer.name, 60) for issuer in found) or "none"
        raise CliError(
            f"tenant {name} has no identity provider {wanted.issuer!r}; it has {known}",
            next_step="name one of these, or log in as an admin of the host: --certificate",
            code=Exit.NOT_FOUND,
        )
    return None if wanted.certificate or not named else _issuer(named[0], wanted.scopes)


def _issuer(provider: Provider, scopes: tuple[str, ...]) -> Issuer:
    source = provider.source
    return Issuer(source.url, provider.audiences[0], source.discovery_url, source.certificate_authority, scopes)
