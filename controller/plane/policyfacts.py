"""The facts on a tenant's work namespace, which the host's admission policies read (`bulkhead.api.policyfacts`)."""

from typing import Final

from bulkhead.api import policyfacts as facts
from controller.plane.spec import PlaneSpec

# Priority classes that syncers refuse whatever a class allows: they rank above the planes.
_SYSTEMS: Final = "system-"


def policy_facts(spec: PlaneSpec) -> dict[str, str]:
    """Every fact, even if it is empty, except those of the ledger, which only its tenants have."""
    quota, isolation, offers = spec.quota, spec.isolation, spec.offers
    tolerated = (*spec.enforced_tolerations, *spec.nodes.allowed_tolerations)
    return _gated(spec) | {
        facts.NODE_ADDRESS: spec.shim_address,
        facts.SERVICE_SLICE: spec.service_slice,
        facts.NODE_SELECTOR: facts.pairs(spec.enforced_selector),
        facts.ALLOWED_TOLERATIONS: facts.listed(map(facts.toleration, tolerated)),
        facts.RUNTIME_CLASS: isolation.runtime_class or "",
        facts.ALLOWED_RUNTIME_CLASSES: facts.listed(isolation.allowed_runtime_classes),
        facts.PRIORITY_CLASS: offers.default_priority_class or "",
        facts.ALLOWED_PRIORITY_CLASSES: facts.listed(name for name in offers.priority_classes if not name.startswith(_SYSTEMS)),
        facts.USER_NAMESPACES: "true" if isolation.user_namespaces else "",
        facts.SECCOMP_PROFILES: facts.listed(isolation.seccomp_profiles),
        facts.APPARMOR_PROFILES: facts.listed(isolation.apparmor_profiles),
        facts.MOST_PER_POD: facts.pairs((bound.resource, bound.most) for bound in quota.pod_bounds if bound.most),
        facts.MOST_LIMIT_RATIO: facts.pairs((bound.resource, bound.ratio) for bound in quota.pod_bounds if bound.ratio),
        facts.MAX_GRACE_SECONDS: str(spec.nodes.grace_seconds),
        facts.MOST_PER_CLAIM: quota.most_per_claim,
        facts.ALLOWED_INGRESS_CLASSES: facts.listed(offers.ingress_classes),
        facts.INGRESS_HOSTS: facts.listed(f"{spec.tenant}.{domain}" for domain in offers.ingress_domains),
        facts.ALLOWED_STORAGE_CLASSES: facts.listed(offers.storage_classes),
        facts.DEFAULT_STORAGE_CLASSES: facts.listed(offers.default_storage_classes),
        facts.ALLOWED_SNAPSHOT_CLASSES: facts.listed(offers.snapshot_classes),
        facts.ALLOWED_DEVICE_CLASSES: facts.listed(name for name, _ in quota.device_classes),
        facts.ALLOWED_RESOURCES: facts.listed((*quota.gpu_resources, *quota.extended_resources)),
    }


def _gated(spec: PlaneSpec) -> dict[str, str]:
    found = {
        facts.GATED_RESOURCES: facts.listed(spec.ledger.gated_resources),
        facts.GATED_GANGS: "true" if spec.ledger.gated_gangs else "",
    }
    return {name: value for name, value in found.items() if value}
