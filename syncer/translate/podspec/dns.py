"""Names of and around a pod: its hostname, and a resolver that asks the tenant's DNS as a cluster of its own would.

The host's DNS never serves a tenant: ClusterFirst becomes `None` with the tenant's address and search domains, and so does
`Default`, which would be the node's resolver. `subdomain` stays off the host, where it would spell the host's namespace; the
full name is answered by the tenant's DNS from the plane's endpoints.
"""

import ipaddress
from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api.objects import Obj
from syncer.translate import metadata, schema
from syncer.translate.metadata import Identity
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.view import TenantView

_HOSTNAME_LIMIT: Final = 63
_FULL_NAME_LIMIT: Final = 64  # of the kernel
_MOST_SEARCHES: Final = 32
_MOST_SEARCH_CHARACTERS: Final = 2048

_POLICIES: Final = schema.OneOf(("", "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"))
_CONFIG: Final = schema.Struct(
    {
        "nameservers": schema.ListOf(schema.Text(64), 3),
        "searches": schema.ListOf(schema.Text(253), _MOST_SEARCHES),
        "options": schema.ListOf(schema.Struct({"name": schema.Text(253), "value": schema.Text(253)}), 64),
    }
)
_ALIASES: Final = schema.ListOf(schema.Struct({"ip": schema.Text(64), "hostnames": schema.ListOf(schema.Text(253), 100)}), 200)


def resolver(spec: Mapping[str, Any], identity: Identity, view: TenantView) -> Obj:
    """`dnsPolicy` and `dnsConfig` on the host."""
    policy = schema.copy(spec.get("dnsPolicy") or "ClusterFirst", _POLICIES, "spec.dnsPolicy")
    own = schema.struct(spec.get("dnsConfig"), _CONFIG, "spec.dnsConfig")
    for address in own.get("nameservers", []):
        _address(address, "spec.dnsConfig.nameservers")
    if policy == "None":
        return {"dnsPolicy": "None", "dnsConfig": own}
    if not view.dns_address and view.judges:
        raise Untranslatable(Reason.WAITING_FOR_DNS, "the DNS service of this cluster has no address yet", "spec.dnsPolicy")
    domain = view.cluster_domain
    searches = [f"{identity.namespace}.svc.{domain}", f"svc.{domain}", domain, *own.get("searches", [])]
    options = own.get("options", [])
    if not any(option.get("name") == "ndots" for option in options):
        options = [*options, {"name": "ndots", "value": "5"}]
    config: Obj = {
        "nameservers": list(dict.fromkeys([view.dns_address, *own.get("nameservers", [])]))[:3],
        "searches": _bounded(list(dict.fromkeys(searches))),
        "options": options,
    }
    return {"dnsPolicy": "None", "dnsConfig": config}


def hostname(spec: Mapping[str, Any], identity: Identity, view: TenantView) -> Obj:
    """`hostname`, or `hostnameOverride` where the tenant wants the full name to be the hostname."""
    override = schema.text(spec.get("hostnameOverride"), "spec.hostnameOverride", _FULL_NAME_LIMIT)
    if override:
        return {"hostnameOverride": metadata.object_name(override, "spec.hostnameOverride")}
    short = schema.text(spec.get("hostname"), "spec.hostname", _HOSTNAME_LIMIT)
    if short:
        metadata.dns_label(short, "spec.hostname")
    else:
        short = identity.name.replace(".", "-")[:_HOSTNAME_LIMIT].rstrip("-")
    subdomain = schema.text(spec.get("subdomain"), "spec.subdomain", _HOSTNAME_LIMIT)
    if subdomain:
        metadata.dns_label(subdomain, "spec.subdomain")
    if not (schema.flag(spec.get("setHostnameAsFQDN"), "spec.setHostnameAsFQDN") and subdomain):
        return {"hostname": short}
    full = f"{short}.{subdomain}.{identity.namespace}.svc.{view.cluster_domain}"
    if len(full) > _FULL_NAME_LIMIT and view.judges:
        raise Untranslatable(
            Reason.TOO_LARGE,
            f"{full!r} is longer than the {_FULL_NAME_LIMIT} characters of a hostname",
            "spec.setHostnameAsFQDN",
        )
    return {"hostnameOverride": full}


def host_aliases(spec: Mapping[str, Any], view: TenantView) -> list[Obj]:
    """`hostAliases`, less the names of the tenant's API server, which a tenant's pod must not be sent elsewhere for."""
    found: list[Obj] = []
    for alias in schema.copy(spec.get("hostAliases") or [], _ALIASES, "spec.hostAliases"):
        _address(alias.get("ip", ""), "spec.hostAliases.ip")
        names = [name for name in alias.get("hostnames", []) if not _names_the_api(name, view.cluster_domain)]
        if names:
            found.append({"ip": alias["ip"], "hostnames": names})
    return found


def _names_the_api(name: str, domain: str) -> bool:
    plain = name.lower().rstrip(".")
    return plain in {"kubernetes", "kubernetes.default", "kubernetes.default.svc", f"kubernetes.default.svc.{domain}"}


def _bounded(searches: list[str]) -> list[str]:
    while len(searches) > _MOST_SEARCHES or len(" ".join(searches)) > _MOST_SEARCH_CHARACTERS:
        searches = searches[:-1]
    return searches


def _address(value: str, path: str) -> None:
    try:
        ipaddress.ip_address(value)
    except ValueError as error:
        raise Untranslatable(Reason.MALFORMED, f"{value[:64]!r} is not an IP address", path) from error
