"""A class is a bound: which values a Tenant may set instead of its class's, one small policy for each field. Pure.

A Tenant may tighten what its class sets, choose from what the class lists, and nothing else. Each policy looks at one field and
yields its fault: the field, the Tenant's value and what the class allows. All policies are asked, so that an admin who has
tightened a class sees at once everything that stands in the way. Each finding has its path and the part that the class allows,
so that the rest of a Tenant can be built without the fault (`within`).

`POLICIES` is the whole list. Each module here has the policies of one subject; `question` is what they are asked and yield.
Quotas of resources, versions and the Slurm cluster are checked by policies of `controller.decide.admit`.
"""

from collections.abc import Iterable
from typing import Any, Final

from controller.decide.bounds.controlplane import components, replicas, storage_class, storage_size, store_quota
from controller.decide.bounds.isolation import egress, pod_security, runtime_class, user_namespaces
from controller.decide.bounds.nodes import dedicated, node_selector
from controller.decide.bounds.offers import backups, exposed, issuers, kept_planes, modes, shared
from controller.decide.bounds.question import Excess, Policy, Question, Section
from controller.decide.bounds.quota import borrowing, cohort, objects
from controller.sections import put

POLICIES: Final[tuple[Policy, ...]] = (
    pod_security,
    runtime_class,
    user_namespaces,
    egress,
    node_selector,
    dedicated,
    objects,
    cohort,
    borrowing,
    replicas,
    storage_size,
    store_quota,
    storage_class,
    components,
    modes,
    shared,
    issuers,
    exposed,
    backups,
    kept_planes,
)


def beyond(question: Question) -> tuple[Excess, ...]:
    """Everything that a Tenant requests beyond its class; empty if it stays within."""
    return tuple(finding for policy in POLICIES for finding in policy(question))


def within(asked: Section, excess: Iterable[Excess]) -> dict[str, Any]:
    """What a Tenant requests, without what exceeds its class."""
    spec = dict(asked)
    for finding in excess:
        spec = put(spec, finding.path, finding.instead)
    return spec
