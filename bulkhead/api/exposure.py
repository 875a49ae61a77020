"""How a tenant's API server is reached from outside of the host: what a Tenant asks for, and what its class gives. Types only.

A tenant `t` has the name `t.<domain>` and what lies below it, in the domains of the installation, of which none lies below
another. So no two tenants ever have a name in common, and none has one below another's (docs/decisions/0035).
"""

from typing import Annotated, Final, Literal

from pydantic import Field

from bulkhead.api.fields import ApiModel, DnsLabel, DnsName, Rule, model_rules

ExposureType = Literal["None", "LoadBalancer", "Proxy", "Gateway"]
Domain = Annotated[DnsName, Field(max_length=190)]

MOST_HOSTNAMES: Final = 16
_NEEDS_NO_NAMES: Final[Rule] = {
    "rule": "!has(self.hostnames) || size(self.hostnames) == 0 || !has(self.type) || self.type != 'None'",
    "message": "hostnames are of an API server that is exposed: take them out, or choose another type",
    "fieldPath": ".hostnames",
}


class Exposure(ApiModel):
    """How the tenant's API server is reached from outside of the host."""

    model_config = model_rules(_NEEDS_NO_NAMES)
    type: ExposureType | None = Field(
        None,
        description="None: only by its Service address, from the host and by bulkhead connect. Proxy: by the installation's "
        "proxy, at <tenant>.<domain>. LoadBalancer: by a load balancer for this tenant. Gateway: by a TLSRoute. The class's "
        "default if empty.",
    )
    hostnames: Annotated[list[DnsName], Field(max_length=MOST_HOSTNAMES)] | None = Field(
        None,
        description="Further host names, in the class's hostnameDomains: <tenant>.<domain> and its subdomains.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )


class GatewayReference(ApiModel):
    """A Gateway of the host, with a listener for TLS that is passed through."""

    namespace: DnsLabel = Field(description="Its namespace.")
    name: DnsName = Field(description="Its name.")
    section_name: DnsName | None = Field(None, description="Its listener; by default any that accepts the route.")


class ClassExposure(ApiModel):
    """How tenants' API servers are reached, and what tenants may choose."""

    type: Literal["ClusterIP", "None", "LoadBalancer", "Proxy", "Gateway"] | None = Field(
        None,
        description="For tenants that name none. By default Proxy if there is a domain and the installation runs the proxy, "
        "None otherwise. ClusterIP is the former name of None.",
    )
    allowed_types: Annotated[list[ExposureType], Field(max_length=4)] | None = Field(
        None,
        description="What tenants may choose instead; None is always allowed.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    domain: Domain | None = Field(
        None, description="One of the installation's domains: tenant t is t.<domain>. The installation's first by default."
    )
    hostname_domains: Annotated[list[Domain], Field(max_length=16)] | None = Field(
        None,
        description="Domains of the installation in which tenant t may have further names: t.<domain> and its subdomains; "
        "none by default.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    gateway: GatewayReference | None = Field(
        None, description="The Gateway that TLSRoutes of type Gateway name; the installation's by default."
    )
