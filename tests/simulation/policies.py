"""What must hold for NetworkPolicies once all is quiet: one on the host for each, and what it isolates is marked so."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from bulkhead.kube.objects import Key, Obj, key_of, uid_of
from bulkhead.kube.resources import NETWORK_POLICIES, PODS
from syncer.translate.kinds.networkpolicy import EGRESS_ISOLATED, INGRESS_ISOLATED
from tests.simulation.api import Api
from tests.simulation.origin import virtual_uid

KIND: Final = "NetworkPolicy"
_FINAL: Final = ("Succeeded", "Failed")
_MARKS: Final = {"Ingress": INGRESS_ISOLATED, "Egress": EGRESS_ISOLATED}


def differences(
    host: Api, plane: Api, work: str, host_key: Callable[[str, Key], Key], mirror: Callable[[str], Obj | None]
) -> Iterator[str]:
    """What of one side is missing, left over or different on the other."""
    there = {uid_of(each) for each in plane.store.all(NETWORK_POLICIES)}
    for virtual in plane.store.all(NETWORK_POLICIES):
        copy = host.store.get(NETWORK_POLICIES, host_key(KIND, key_of(virtual)))
        if copy is None or virtual_uid(copy) != uid_of(virtual):
            yield f"policy {key_of(virtual)} is not on the host"
        elif copy["spec"]["policyTypes"] != virtual["spec"]["policyTypes"]:
            yield f"policy {key_of(virtual)} is for other directions on the host"
    for copy in host.store.all(NETWORK_POLICIES, work):
        if virtual_uid(copy) not in there:
            yield f"host policy {key_of(copy)} has no virtual one"
    for pod in plane.store.all(PODS):
        below = mirror(uid_of(pod))
        if below is None or pod["status"].get("phase") in _FINAL:
            continue
        wanted = {_MARKS[each] for policy in _selecting(plane, pod) for each in policy["spec"]["policyTypes"]}
        have = {name for name in _MARKS.values() if (below["metadata"].get("labels") or {}).get(name) == "true"}
        if wanted != have:
            yield f"pod {key_of(pod)} is marked as isolated by {sorted(have)}, and should be by {sorted(wanted)}"


def _selecting(plane: Api, pod: Obj) -> Iterator[Obj]:
    labels: Mapping[str, Any] = pod["metadata"].get("labels") or {}
    for policy in plane.store.all(NETWORK_POLICIES, key_of(pod).namespace):
        if (policy["spec"]["podSelector"].get("matchLabels") or {}).items() <= labels.items():
            yield policy
