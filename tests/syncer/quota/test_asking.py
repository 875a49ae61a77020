"""What a pod asks for and a quota has, counted by the syncer as the ledger counts it."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api import labels, names
from bulkhead.ledger.given import tenant_of
from bulkhead.ledger.read import node_of, pod_of
from syncer.quota.asking import of_host, room_of

MICRO: Callable[[int], str] = "{}u".format
RESOURCES = st.sampled_from(["cpu", "memory", "nvidia.com/gpu"])
AMOUNTS = st.integers(1, 10**13).map(MICRO)


@given(resource=RESOURCES, asked=st.lists(AMOUNTS, min_size=1, max_size=3))
def test_a_pod_asks_for_the_same_in_both(resource: str, asked: list[str]) -> None:
    containers = [{"name": f"c{at}", "resources": {"requests": {resource: each}}} for at, each in enumerate(asked)]
    meta = {"uid": "u", "name": "p", "namespace": names.work_namespace("ada")}
    host = {"metadata": meta, "spec": {"containers": containers}}
    seen = pod_of(host)
    assert seen is not None
    assert of_host(host, [resource]) == {resource: seen.asks[resource]}


@given(given_=AMOUNTS)
def test_a_quota_has_the_same_room_in_both_and_no_more_than_it_says(given_: str) -> None:
    resource = "nvidia.com/gpu"
    hard = {f"requests.{resource}": given_}
    quota = {"metadata": {"labels": {labels.TENANT: "ada"}}, "spec": {"hard": hard}, "status": {"hard": hard}}
    tenant = tenant_of(quota)
    assert tenant is not None
    assert room_of(quota, resource) == tenant.shares["", resource].nominal
    node = node_of({"metadata": {"name": "n"}, "status": {"allocatable": {resource: given_}}})
    assert node.allocatable[resource] == room_of(quota, resource)


@given(resource=RESOURCES, given_=AMOUNTS, used=AMOUNTS)
def test_what_fits_into_the_room_of_a_quota_is_not_refused_by_it(resource: str, given_: str, used: str) -> None:
    name = f"requests.{resource}"
    room = room_of({"status": {"hard": {name: given_}, "used": {name: used}}}, resource)
    scale = 10**3 if resource == "cpu" else 10**6
    assert room is not None
    assert int(used[:-1]) + room * scale <= int(given_[:-1])
