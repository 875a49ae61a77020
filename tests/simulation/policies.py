"""What must hold for NetworkPolicies once all is quiet: one on the host for each, and what it isolates is marked so."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from bulkhead.api.objects import Obj
from bulkhead.kube.objects import key_of, uid_of
from bulkhead.kube.resources import NETWORK_POLICIES, PODS
from syncer.translate.kinds.networkpolicy import EGRESS_ISOLATED, INGRESS_ISOLATED
from tests.simulation.api import Api
from tests.simulation.sides import Sides, ended, virtual_uid

KIND: Final = "NetworkPolicy"
_MARKS: Final = {"Ingress": INGRESS_ISOLATED, "Egress": EGRESS_ISOLATED}


def differences(sides: Sides) -> Iterator[str]:
    """What is missing or different on one of the sides, or an orphan."""
    host, plane = sides.host, sides.plane
    there = {uid_of(each) for each in plane.store.all(NETWORK_POLICIES)}
    for virtual in plane.store.all(NETWORK_POLICIES):
        copy = host.store.get(NETWORK_POLICIES, sides.host_key(KIND, key_of(virtual)))
        if copy is None or virtual_uid(copy) != uid_of(virtual):
            yield f"policy {key_of(virtual)} is not on the host"
        elif copy["spec"]["policyTypes"] != virtual["spec"]["policyTypes"]:
            yield f"policy {key_of(virtual)} is for other directions on the host"
    for copy in host.store.all(NETWORK_POLICIES, sides.work):
        if virtual_uid(copy) not in there:
            yield f"host policy {key_of(copy)} has no virtual one"
    for pod in plane.store.all(PODS):
        mirror = sides.mirror(uid_of(pod))
        if mirror is None or ended(pod):
            continue
        wanted = {_MARKS[each] for policy in _selecting(plane, pod) for each in policy["spec"]["policyTypes"]}
        have = {name for name in _MARKS.values() if (mirror["metadata"].get("labels") or {}).get(name) == "true"}
        if wanted != have:
            yield f"pod {key_of(pod)} is marked as isolated by {sorted(have)}, and should be by {sorted(wanted)}"


def _selecting(plane: Api, pod: Obj) -> Iterator[Obj]:
    labels: Mapping[str, Any] = pod["metadata"].get("labels") or {}
    for policy in plane.store.all(NETWORK_POLICIES, key_of(pod).namespace):
        if (policy["spec"]["podSelector"].get("matchLabels") or {}).items() <= labels.items():
            yield policy
