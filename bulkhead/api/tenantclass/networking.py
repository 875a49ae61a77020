"""What pods may reach beyond their tenant, and what tenants may publish. Types only."""

from typing import Annotated, Final

from pydantic import AfterValidator, Field

from bulkhead.api.fields import CIDRS, ApiModel, Cidr, DnsLabel, DnsName, Rule, rules
from bulkhead.api.tenant import Network


class ClassNetwork(Network):
    """What the pods may reach beyond their own tenant, and what tenants may choose."""

    allowed_egress_cidrs: Annotated[list[Cidr], Field(max_length=32)] | None = Field(
        None,
        alias="allowedEgressCIDRs",
        description="Addresses outside the cluster that tenants may list themselves, besides egressCIDRs; none unless listed.",
        json_schema_extra=rules(CIDRS) | {"x-kubernetes-list-type": "set"},
    )
    reach_reserved: Annotated[list[Cidr], Field(max_length=32)] | None = Field(
        None,
        description="Addresses of the host itself, or of a metadata service, that egressCIDRs may open on purpose; none unless "
        "listed. Otherwise egressCIDRs opens no link-local addresses and none of the host's nodes, pods and services.",
        json_schema_extra=rules(CIDRS) | {"x-kubernetes-list-type": "set"},
    )


def _apart(domains: list[str]) -> list[str]:
    """`domains`, if none lies below another: where `x.org` and `a.x.org` are given, tenant `a` would own what is `b`'s."""
    for one in domains:
        for other in domains:
            if one.endswith(f".{other}"):
                raise ValueError(f"{one} lies below {other}: one tenant's hosts would lie below another's")
    if len(set(domains)) < len(domains):
        raise ValueError("a domain is given twice")
    return domains


_APART: Final[Rule] = {
    "rule": "self.all(one, !self.exists(other, one.endsWith('.' + other)))",
    "message": "no domain may lie below another: one tenant's hosts would lie below another's",
}


class ClassIngress(ApiModel):
    """What tenants may publish with Ingresses, through controllers that run on the host."""

    classes: Annotated[list[DnsName], Field(min_length=1, max_length=16)] = Field(
        description="IngressClasses of the host that Ingresses may name; one that names none gets the only one.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    domains: Annotated[
        list[Annotated[DnsName, Field(max_length=190)]], Field(min_length=1, max_length=16), AfterValidator(_apart)
    ] = Field(
        description="Domains of tenants' hosts: for example.org, a tenant named t may use t.example.org and its subdomains.",
        json_schema_extra={"x-kubernetes-list-type": "set", **rules(_APART)},
    )
    controller_namespaces: Annotated[list[DnsLabel], Field(max_length=16)] | None = Field(
        None,
        description="Namespaces of the host whose pods, the ingress controllers, may reach the tenants' pods.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
