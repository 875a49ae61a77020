"""A healthy installation as facts, and as metrics; tests change one thing."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from workstation.doctor.facts import Seen, key_of
from workstation.doctor.judge import judge
from workstation.doctor.release import Release
from workstation.preflight.facts import Obj, Observed
from workstation.preflight.findings import Finding

NOW: Final = datetime(2026, 6, 1, 12, tzinfo=UTC)
NAMESPACE: Final = "bulkhead-system"
IMAGE: Final = "registry.example/bulkhead:0.1.0"
GROUP: Final = "bulkhead.dev"


def meta(name: str, namespace: str = "", **more: Any) -> dict[str, Any]:
    return {"name": name} | ({"namespace": namespace} if namespace else {}) | more


def policy(name: str) -> dict[str, Any]:
    kind = "ValidatingAdmissionPolicy"
    validations = [{"expression": "object.spec.x == 1", "message": "no"}]
    spec = {"failurePolicy": "Fail", "validations": validations}
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": meta(name), "spec": spec}


def binding(name: str) -> dict[str, Any]:
    kind = "ValidatingAdmissionPolicyBinding"
    spec = {"policyName": name, "validationActions": ["Deny"]}
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": meta(name), "spec": spec}


def role(name: str) -> dict[str, Any]:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": meta(name), "rules": rules}


def deployment(name: str, namespace: str, image: str = IMAGE, ready: int = 1) -> dict[str, Any]:
    spec = {"replicas": ready or 1, "template": {"spec": {"containers": [{"name": "one", "image": image}]}}}
    labels = {"app.kubernetes.io/version": "0.1.0"}
    head = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta(name, namespace, labels=labels)}
    return head | {"spec": spec, "status": {"readyReplicas": ready}}


def crd(plural: str) -> dict[str, Any]:
    status = {"storedVersions": ["v1alpha1"], "conditions": [{"type": "Established", "status": "True"}]}
    return {
        "metadata": meta(f"{plural}.{GROUP}"),
        "spec": {"versions": [{"name": "v1alpha1", "served": True}]},
        "status": status,
    }


def a_tenant(name: str, **status: Any) -> dict[str, Any]:
    ready = [{"type": "Ready", "status": "True", "reason": "Ready"}]
    head = {"metadata": meta(name, generation=2)}
    return head | {"status": {"conditions": ready, "observedGeneration": 2, "planeClusterUID": "u"} | status}


def exported(*, leading: int = 1, ok: int = 100, failed: int = 3, clock_wrong: int = 0, days: float = 60.0) -> str:
    end = (NOW + timedelta(days=days)).timestamp()
    lines = [
        "# TYPE bulkhead_controller_leading gauge",
        f"bulkhead_controller_leading {leading}",
        "# TYPE bulkhead_controller_reconciles_total counter",
        f'bulkhead_controller_reconciles_total{{result="ok"}} {ok}',
        f'bulkhead_controller_reconciles_total{{result="failed"}} {failed}',
        "# TYPE bulkhead_controller_clock_wrong gauge",
        f"bulkhead_controller_clock_wrong {clock_wrong}",
        "# TYPE bulkhead_tenant_certificate_end_seconds gauge",
        f'bulkhead_tenant_certificate_end_seconds{{tenant="red",certificate="pki-dns/client"}} {end}',
    ]
    return "\n".join([*lines, ""])


OBJECTS: Final[tuple[Obj, ...]] = (
    policy("bulkhead-pods"),
    binding("bulkhead-pods"),
    role("bulkhead-controller"),
    deployment("bulkhead-controller", NAMESPACE),
)
RELEASE: Final = Release("bulkhead", "bulkhead", "0.1.0", "deployed", 4, OBJECTS)


def healthy(**lists: Any) -> Seen:
    """A host with two tenants; `lists` replaces some of what was read."""
    there: dict[str, Any] = {
        "tenants": (a_tenant("red"), a_tenant("blue")),
        "controllers": (deployment("bulkhead-controller", NAMESPACE),),
        "controller pods": ({"metadata": meta("one"), "status": {"phase": "Running"}},),
        "syncers": (deployment("syncer", "bh-red"), deployment("syncer", "bh-blue")),
        "lease": ({"spec": {"holderIdentity": "one", "renewTime": (NOW - timedelta(seconds=2)).isoformat()}},),
        "work quotas": (),
        "classes": (),
        "nodes": (),
        "node leases": (),
        "pods": ({"metadata": meta("coredns-x", "kube-system", labels={"k8s-app": "kube-dns"})},),
        "dns service": (),
        "validating webhooks": (),
        "mutating webhooks": (),
        "admission policies": (policy("bulkhead-pods"), policy("of-others")),
        "admission bindings": (binding("bulkhead-pods"),),
        "customresourcedefinitions": tuple(
            map(crd, ("cohorts", "sharedvolumes", "tenantclasses", "tenantrestores", "tenants", "tenantsnapshots"))
        ),
        "identity": ({"metadata": meta("bulkhead-identity")},),
    }
    cluster = Observed(here=NOW, there=NOW, version="v1.36.3", lists=there | lists)
    live = {key_of(obj, NAMESPACE): obj for obj in OBJECTS}
    return Seen(cluster, "0.1.0", NAMESPACE, RELEASE, live, {"one": exported()})


def with_live(seen: Seen, wanted: Obj, live: Obj | None) -> Seen:
    """The installation with another live object, or none."""
    return replace(seen, live={**seen.live, key_of(wanted, NAMESPACE): live})


def findings(seen: Seen) -> Mapping[str, Finding]:
    """Each check's finding."""
    return {checked.check: checked.finding for checked in judge(seen)}
