"""Which certificates a plane needs, which existing ones are still good, and how they become Secrets.

Only decisions: this module names certificates and judges facts about them; `controller.pki` creates keys, signs and parses.

    authorities + leaves (wanted) ─┐
    CertFacts (there)  ────────────┴─> due() ─> what to issue ─> controller.pki ─> bundles ─> secrets()
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from controller.plane.spec import METRICS, PEERS, PLANE, SHIM, PlaneSpec

AUTHORITY_LIFE: Final = timedelta(days=5 * 365)
LEAF_LIFE: Final = timedelta(days=90)
BACKDATE: Final = timedelta(minutes=5)
# People have their own CA, so that all their certificates can be revoked at once without any component's.
USERS: Final = "users"
AUTHORITIES: Final = ("etcd", "client", "serving", "front-proxy", "kubelet", USERS)
# The longest life of a person's certificate.
PERSON_LIFE: Final = timedelta(hours=1)
CONTROLLER_USER: Final = "bulkhead:controller"
SYNCER_USER: Final = "bulkhead:syncer"
DNS_USER: Final = "bulkhead:dns"
# Before the first ClusterRoleBinding exists, only the API server's built-in rules grant anything; see decision 0010.
BOOTSTRAP_GROUP: Final = "system:masters"


class Usage(StrEnum):
    """The only extended key usage of a leaf; etcd's members are both client and server."""

    SERVER = "server"
    CLIENT = "client"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class CertSpec:
    """A leaf certificate as it should be."""

    authority: str
    user: str
    usage: Usage
    groups: tuple[str, ...] = ()
    dns: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    life: timedelta = LEAF_LIFE


@dataclass(frozen=True, slots=True)
class CertFacts:
    """The content of an existing certificate, and whether its key and its issuer match; parsed by `controller.pki`."""

    user: str
    groups: tuple[str, ...]
    usage: Usage
    dns: tuple[str, ...]
    addresses: tuple[str, ...]
    not_before: datetime
    not_after: datetime
    authority: str
    key_fits: bool


@dataclass(frozen=True, slots=True, repr=False)
class Pair:
    """A certificate and its private key, both PEM. It has no text form, so that no key gets into a log."""

    certificate: bytes
    key: bytes


def authority_secret(authority: str) -> str:
    """The Secret that holds a CA's key; no pod mounts it."""
    return f"pki-ca-{authority}"


def leaves(spec: PlaneSpec) -> dict[str, CertSpec]:
    """Every leaf certificate of a plane, by `<secret>/<name>`."""
    members = tuple(f"{PLANE}-{i}.{PEERS}.{spec.namespace}.svc" for i in range(spec.control_plane.replicas))
    local = ("127.0.0.1",)
    api_names = (
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        f"kubernetes.default.svc.{spec.installation.cluster_domain}",
        spec.issuer_name,
        *spec.service_names(PLANE),
    )
    return {
        "pki-etcd/server": CertSpec("etcd", "bulkhead:etcd", Usage.BOTH, dns=("localhost", *members), addresses=local),
        "pki-apiserver/server": CertSpec(
            "serving",
            "bulkhead:apiserver",
            Usage.SERVER,
            dns=(*api_names, *spec.exposure.names),
            addresses=(*local, spec.api_address, *spec.exposure.certified_addresses),
        ),
        "pki-apiserver/etcd-client": CertSpec("etcd", "bulkhead:apiserver", Usage.CLIENT),
        "pki-apiserver/kubelet-client": CertSpec("kubelet", "bulkhead:apiserver", Usage.CLIENT),
        "pki-apiserver/front-proxy": CertSpec("front-proxy", "bulkhead:front-proxy", Usage.CLIENT),
        "pki-controller-manager/server": CertSpec(
            "serving", "bulkhead:controller-manager", Usage.SERVER, dns=("localhost",), addresses=local
        ),
        "pki-controller-manager/client": CertSpec("client", "system:kube-controller-manager", Usage.CLIENT),
        "pki-syncer/client": CertSpec("client", SYNCER_USER, Usage.CLIENT),
        "pki-syncer/shim": CertSpec(
            "kubelet",
            "bulkhead:kubelet-shim",
            Usage.SERVER,
            # As an extension API server it is addressed by the name of the Service inside the plane.
            dns=(*spec.service_names(SHIM), f"{METRICS}.kube-system.svc"),
            addresses=(spec.shim_address,),
        ),
        "pki-dns/client": CertSpec("client", DNS_USER, Usage.CLIENT),
    }


def controller_credential() -> CertSpec:
    """The controller's own client certificate: issued in memory, short-lived, stored nowhere."""
    return CertSpec("client", CONTROLLER_USER, Usage.CLIENT, groups=(BOOTSTRAP_GROUP,), life=timedelta(hours=1))


def etcd_credential() -> CertSpec:
    """The controller's own client certificate for a plane's etcd; also short-lived."""
    return CertSpec("etcd", CONTROLLER_USER, Usage.CLIENT, life=timedelta(hours=1))


# Reasons for a renewal that come from time only: the certificate is as it should be.
BY_TIME: Final = frozenset({"not valid yet", "at two thirds of its life"})


def due(wanted: CertSpec, there: CertFacts | None, authority: str, now: datetime) -> str | None:
    """Why the certificate must be issued or renewed; None if the existing one is good."""
    if there is None:
        return "missing"
    faults = (
        (not there.key_fits, "broken"),
        (there.authority != authority, "signed by another CA"),
        (not _says(there, wanted), "does not say what it should"),
        (now < there.not_before, "not valid yet"),
        (now >= renewal(there), "at two thirds of its life"),
    )
    return next((why for found, why in faults if found), None)


def _says(there: CertFacts, wanted: CertSpec) -> bool:
    return (
        there.user == wanted.user
        and sorted(there.groups) == sorted(wanted.groups)
        and there.usage == wanted.usage
        and sorted(there.dns) == sorted(wanted.dns)
        and sorted(there.addresses) == sorted(wanted.addresses)
    )


def renewal(facts: CertFacts) -> datetime:
    """The moment from which a certificate is due for renewal: at two thirds of its life."""
    return facts.not_before + (facts.not_after - facts.not_before) * 2 / 3
