"""The API server: version, APIs, rights, clocks. Pure."""

import re
from datetime import datetime, timedelta

from bulkhead.api.conditions import condition_of
from bulkhead.api.untrusted import mapping, text
from workstation.preflight.facts import Observed, Unseen, known, need
from workstation.preflight.findings import Finding, failed, ok, skipped, warning
from workstation.preflight.values import Values

LEAST = (1, 34)
_VERSION = re.compile(r"v?([0-9]{1,3})\.([0-9]{1,3})")
# A clock that is behind refuses a certificate that is valid from now on; Bulkhead dates its certificates back a little.
_SKEW = timedelta(seconds=30)
_STALE = timedelta(seconds=120)


def version(observed: Observed, _values: Values) -> Finding:
    """Whether the version is at least what the chart requires."""
    found = _VERSION.match(observed.version)
    wanted = ".".join(str(number) for number in LEAST)
    if found is None:
        return failed(f"the server's version {observed.version!r} is malformed", f"Bulkhead needs Kubernetes {wanted} or newer")
    if (int(found[1]), int(found[2])) < LEAST:
        return failed(f"the server has version {observed.version}", f"upgrade the cluster to Kubernetes {wanted} or newer")
    return ok(observed.version)


def service_cidrs(observed: Observed, _values: Values) -> Finding:
    """A ServiceCIDR object is each tenant's slice of addresses."""
    cure = "upgrade to Kubernetes 1.34, or enable networking.k8s.io/v1 in the API server again (--runtime-config)"
    return _served(observed, "networking.k8s.io/v1/servicecidrs", cure)


def admission_policies(observed: Observed, _values: Values) -> Finding:
    """Admission policies decide a second time about everything that a syncer writes."""
    cure = "enable admissionregistration.k8s.io/v1 and the admission plugin ValidatingAdmissionPolicy in the API server"
    return _served(observed, "admissionregistration.k8s.io/v1/validatingadmissionpolicies", cure)


def _served(observed: Observed, name: str, cure: str) -> Finding:
    if known(observed.groups.get(name, Unseen("the server's APIs were not read"))):
        return ok(f"{name} is served")
    return failed(f"{name} is not served", cure)


def pod_security(observed: Observed, _values: Values) -> Finding:
    """Whether a privileged pod was refused in a namespace that is `restricted`."""
    if known(observed.pod_security):
        return ok("a privileged pod was refused in a namespace labelled `restricted` (dry run)")
    return failed(
        "a privileged pod was admitted to a namespace labelled pod-security.kubernetes.io/enforce=restricted (dry run)",
        "enable the admission plugin PodSecurity of the API server again (--disable-admission-plugins)",
    )


def rights(observed: Observed, _values: Values) -> Finding:
    """Whether the credentials may write what `helm install` writes."""
    denied = known(observed.denied)
    if denied:
        return failed(
            f"these credentials lack {len(denied)} rights that the chart needs",
            "install with the credentials of a cluster admin",
            denied,
        )
    return ok("they may create everything in the chart")


def clocks(observed: Observed, _values: Values) -> Finding:
    """Compare the clocks of this machine and the nodes with the API server's."""
    if observed.there is None:
        return skipped("the API server sent no date")
    apart = []
    here = observed.here - observed.there
    if abs(here) > _SKEW:
        apart.append(f"this machine: {_ahead(here)}")
    leases = observed.lists.get("node leases", ())
    for lease in () if isinstance(leases, Unseen) else leases:
        found = _renewed(text(mapping(lease.get("spec")).get("renewTime")))
        if found is None:
            continue
        node = text(mapping(lease.get("metadata")).get("name"))
        off = found - observed.there
        # A lease is renewed every ten seconds; an old one may belong to a node that is down.
        if off > _SKEW or (off < -_STALE and _ready(observed, node)):
            apart.append(f"node {node}: {_ahead(off)}")
    if apart:
        cure = "synchronise every node with NTP: certificates and tokens of tenants are valid for minutes to hours only"
        return failed(f"{len(apart)} clocks differ from the API server's", cure, apart)
    where = "" if not isinstance(leases, Unseen) else f" (nodes' clocks not compared: {leases.reason})"
    return ok(f"within {_SKEW.seconds} s of the API server's{where}")


def _renewed(stamp: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return found if found.tzinfo else None


def _ready(observed: Observed, node: str) -> bool:
    nodes = observed.lists.get("nodes", ())
    return any(
        text(mapping(each.get("metadata")).get("name")) == node and condition_of(each, "Ready").get("status") == "True"
        for each in (() if isinstance(nodes, Unseen) else nodes)
    )


def _ahead(off: timedelta) -> str:
    seconds = int(abs(off).total_seconds())
    return f"{seconds} s {'ahead' if off > timedelta() else 'behind'}"


def aggregated(observed: Observed, _values: Values) -> Finding:
    """While an aggregated API does not answer, no namespace can be deleted, tenants' included."""
    silent = [
        f"{text(mapping(each.get('metadata')).get('name'))}: {text(condition_of(each, 'Available').get('message'))}"
        for each in need(observed, "apiservices")
        if condition_of(each, "Available").get("status") == "False"
    ]
    if silent:
        cure = "repair or delete these APIServices: while one does not answer, no namespace of a deleted tenant goes away"
        return warning(f"{len(silent)} aggregated APIs do not answer", cure, silent)
    return ok("all available")
