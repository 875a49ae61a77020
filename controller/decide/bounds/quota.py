"""How a class bounds the objects of its tenants, the cohorts that they may join, and how much they borrow there. Pure."""

from collections.abc import Iterator
from typing import Final

from bulkhead.api import deviceclaims
from bulkhead.api.quantity import Amount, readable
from controller import cohorts
from controller.decide.bounds.question import Excess, Question, Section
from controller.sections import section_of, text_or_none

# The object counts of a tenant whose class sets none: enough to work with, and too few to fill the host.
_OBJECTS: Final = {
    "pods": 1000,
    "services": 200,
    "configmaps": 1000,
    "secrets": 1000,
    "persistentvolumeclaims": 100,
    "count/networkpolicies.networking.k8s.io": 200,
    "count/poddisruptionbudgets.policy": 200,
    "count/ingresses.networking.k8s.io": 100,
    "services.nodeports": 0,
    "services.loadbalancers": 0,
}
# Pods that have ended stay in the host's etcd until they are deleted. A plane deletes its oldest ended pods beyond 500
# (`--terminated-pod-gc-threshold`), so with this much on top of the running pods no tenant is kept from running any.
_ALL_PODS: Final = "count/pods"
_MAX_ENDED_PODS: Final = 1000


def object_counts(offer: Section) -> dict[str, Amount]:
    """The most objects of each kind for a tenant of a class: the class's numbers, else the built-in ones."""
    built_in = dict(_OBJECTS)
    # Kinds that a host may not know are counted only if they are offered.
    if section_of(offer, "scheduling").get("podGroups") is True:
        built_in["count/podgroups.scheduling.k8s.io"] = 200
    if offer.get("allowedDeviceClasses"):
        built_in[deviceclaims.COUNT] = 200
    if offer.get("allowedSnapshotClasses"):
        built_in["count/volumesnapshots.snapshot.storage.k8s.io"] = 100
    known = {name: Amount.of(number) for name, number in built_in.items()}
    listed = section_of(section_of(offer, "quota"), "objects")
    # An unreadable number is a fault of the class, which `allotment.refuse_class` reports.
    known |= {str(name): Amount.read(number) for name, number in listed.items() if readable(number) is not None}
    pods = known["pods"]
    return {_ALL_PODS: Amount(pods.number + _MAX_ENDED_PODS) if pods.is_whole else pods} | known


def objects(question: Question) -> Iterator[Excess]:
    """Object counts must not exceed those of the class or, if it has none, the built-in ones."""
    most = object_counts(question.offer)
    for name, value in sorted(section_of(section_of(question.asked, "quota"), "objects").items()):
        field, path = f"spec.quota.objects[{name}]", ("quota", "objects", name)
        number = readable(value)
        if name in most:
            if number is None or number > most[name].number:
                yield Excess(path, f"{field}: {value} is more than the {most[name].count} that the class allows")
        elif number is None or not name.startswith("count/"):
            # `requests.nvidia.com/gpu` would replace the tenant's quota.
            known = ", ".join(sorted(most))
            yield Excess(path, f"{field}: {value} is not allowed: the class counts only {known}")


def cohort(question: Question) -> Iterator[Excess]:
    """The cohort must be one that the class lists."""
    asked, offer = (section_of(side, "quota") for side in (question.asked, question.offer))
    listed, wanted = list(offer.get("cohorts") or ()), text_or_none(asked, "cohort")
    if wanted and wanted not in listed:
        bound = ", ".join(map(str, listed)) or "none"
        yield Excess(
            ("quota", "cohort"), f"spec.quota.cohort: {wanted} is not one that the class allows (quota.cohorts): {bound}"
        )


def borrowing(question: Question) -> Iterator[Excess]:
    """A tenant must not borrow more than the class allows."""
    for overdraft in cohorts.overdrawn(question.asked, question.offer):
        field = f"spec.quota.resources[{overdraft.resource}].{overdraft.field}"
        message = f"{field}: {overdraft.asked} is more than the {overdraft.most} that the class allows (maxBorrowing)"
        yield Excess(("quota", "resources", overdraft.resource, overdraft.field), message, overdraft.instead)
