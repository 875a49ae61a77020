"""The audit log of a plane: its level, where it is written, and how much of it is kept. Types only."""

from typing import Annotated, Final, Literal

from pydantic import Field

from bulkhead.api.fields import CERTIFICATES, ApiModel, DnsLabel, DnsName, Rule, StorageSize, model_rules, rules, text

_SIZE: Final[Rule] = {
    "rule": "quantity(self).compareTo(quantity('16Mi')) >= 0 && quantity(self).compareTo(quantity('1Gi')) <= 0",
    "message": "from 16Mi to 1Gi",
}
_OF_FILES: Final[Rule] = {
    "rule": "!has(self.sink) || self.sink == 'File' || "
    "!(has(self.retain) || has(self.maxSize) || has(self.maxBackups) || has(self.maxAgeDays))",
    "message": "maxSize, maxBackups, maxAgeDays and retain are of files: take them out, or choose sink File",
}
_NAMED: Final[Rule] = {
    "rule": "!has(self.sink) || self.sink != 'Webhook' || has(self.webhook)",
    "message": "sink Webhook needs a webhook: where its receiver is",
    "fieldPath": ".webhook",
}
# No user, no password, no query; the tenant's name is one whole step of the path, and no step leads upwards.
_STEP: Final = r"/[A-Za-z0-9_~][-A-Za-z0-9._~]*"
_URL: Final = rf"^https://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(:[1-9][0-9]{{0,4}})?({_STEP})*/\{{tenant\}}({_STEP})*$"
_PORT: Final[Rule] = {
    "rule": "!self.matches('^https://[^/]*:(6553[6-9]|655[4-9][0-9]|65[6-9][0-9][0-9]|6[6-9][0-9]{3}|[7-9][0-9]{4})/')",
    "message": "a port is at most 65535",
}
# The name is the receiver's in the whole pod of the plane, which looks up these itself.
_OWN_NAMES: Final[Rule] = {
    "rule": "!self.matches('^https://(localhost[:/]|([^/]*[.])?(plane-peers|kubernetes)[.])')",
    "message": "a name that planes use themselves cannot be the receiver's",
}
_ADDRESS: Final[Rule] = {
    "rule": "isIP(self) && ip.isCanonical(self) && ip(self).isGlobalUnicast()",
    "message": "one address such as 203.0.113.7, and no loopback, link-local or multicast one",
}
_SAME: Final[Rule] = {
    "rule": "!self.url.matches('^https://[0-9.]+[:/]') || self.url.startsWith('https://' + self.address + ':') || "
    "self.url.startsWith('https://' + self.address + '/')",
    "message": "the url names an address, and address is another one",
    "fieldPath": ".address",
}
_FOREIGN: Final[Rule] = {
    "rule": "!self.startsWith('bh-') && !self.startsWith('kube-') && self != 'bulkhead-system'",
    "message": "not a namespace of tenants or of the host's own parts: planes reach nothing there",
}


class ClassAuditWebhook(ApiModel):
    """Where events are sent: a receiver of audit.k8s.io/v1 EventLists over TLS."""

    model_config = model_rules(_SAME)
    url: Annotated[str, text(512, _URL)] = Field(
        description="Where events are posted; https only. One segment of the path is `{tenant}`, for the tenant's name, so "
        "that the receiver can tell tenants apart.",
        json_schema_extra=rules(_PORT, _OWN_NAMES),
    )
    address: Annotated[str, text(45)] = Field(
        description="The IP address of the url's host, because planes resolve no outside names. With namespace, the ClusterIP "
        "of the receiver's Service.",
        json_schema_extra=rules(_ADDRESS),
    )
    namespace: DnsLabel | None = Field(
        None,
        description="Namespace of the host in which the receiver's pods run, listening on the url's port. If empty, the "
        "receiver is outside of the host, at address.",
        json_schema_extra=rules(_FOREIGN),
    )
    certificate_authority: Annotated[str, Field(min_length=1, max_length=16384)] = Field(
        description="Certificate authorities of the receiver, PEM.", json_schema_extra=rules(CERTIFICATES)
    )
    secret_name: DnsName = Field(
        description="Secret of type bulkhead.dev/audit-receiver in the namespace of shared objects, with token, or tls.crt and "
        "tls.key: the credential of planes at the receiver. A change takes effect without a restart."
    )


class ClassAudit(ApiModel):
    """The audit trail of the planes."""

    model_config = model_rules(_OF_FILES, _NAMED)
    level: Literal["Metadata", "Request"] = Field(
        "Metadata",
        description="Metadata: user, request, time, source address and response code. Request: also the request body, for "
        "Kubernetes' own kinds except Secrets, ConfigMaps, tokens and certificate requests.",
    )
    sink: Literal["File", "Stdout", "Webhook"] = Field(
        "File",
        description="File: in the plane's pod, where bulkhead audit reads it. Stdout: in the log of the API server's "
        "container, for the host's log collector. Webhook: only to the receiver.",
    )
    webhook: ClassAuditWebhook | None = Field(
        None, description="A receiver that gets every event besides the sink; with sink Webhook it is the only one."
    )
    max_size: StorageSize | None = Field(
        None, description="Size at which a new file begins: 16Mi to 1Gi, 32Mi by default.", json_schema_extra=rules(_SIZE)
    )
    max_backups: Annotated[int, Field(ge=1, le=20)] | None = Field(
        None, description="How many former files are kept; 2 by default."
    )
    max_age_days: Annotated[int, Field(ge=1, le=3650)] | None = Field(
        None, description="Days for which former files are kept at most; 30 by default."
    )
    retain: bool | None = Field(
        None,
        description="Whether the files are on the volume of the plane's etcd and so outlive the pod. They take at most a "
        "quarter of it, whatever maxSize and maxBackups say.",
    )
