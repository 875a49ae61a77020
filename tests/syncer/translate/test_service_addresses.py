"""Addresses of a tenant's slice that are the platform's: no Service of the tenant takes one of them."""

from typing import Any

import pytest

from bulkhead.api.objects import Obj
from syncer.translate import Reason, Untranslatable
from syncer.translate.kinds import nodeports, service
from syncer.translate.registry import KINDS
from tests.kit import translationsamples as samples

VIEW = samples.VIEW
PUBLIC = VIEW.public_address


def virtual(address: str, **spec: Any) -> Obj:
    meta = {"name": "web", "namespace": "team", "uid": "u1"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta,
        "spec": {"clusterIP": address, "ports": [{"port": 80}]} | spec,
    }


@pytest.mark.parametrize("address", [VIEW.api_address, VIEW.dns_address, VIEW.kubelet_address, PUBLIC])
def test_the_platforms_addresses_are_refused(address: str) -> None:
    with pytest.raises(Untranslatable, match="belongs to the platform") as refused:
        service.to_host(virtual(address), VIEW)
    assert refused.value.reason is Reason.NOT_ALLOWED
    assert service.to_host(virtual("10.112.4.13"), VIEW)["spec"]["clusterIP"] == "10.112.4.13"


def test_a_service_that_had_the_load_balancers_address_before_it_was_kept_free_is_left_there() -> None:
    copy = {"spec": {"clusterIP": PUBLIC}}
    view = KINDS["Service"].view_of_copy(VIEW, copy)
    assert service.to_host(virtual(PUBLIC), view)["spec"]["clusterIP"] == PUBLIC
    for address in (VIEW.api_address, VIEW.dns_address, VIEW.kubelet_address):
        with pytest.raises(Untranslatable):
            service.to_host(virtual(address), view)
    # One that is there with another address does not come to it.
    with pytest.raises(Untranslatable):
        service.to_host(virtual(PUBLIC), KINDS["Service"].view_of_copy(VIEW, {"spec": {"clusterIP": "10.112.4.50"}}))


def test_node_ports_take_none_of_the_platforms_addresses_and_give_one_back() -> None:
    own = {VIEW.api_address, VIEW.dns_address, VIEW.kubelet_address, PUBLIC}
    node = virtual("10.112.4.50", type="NodePort", selector={"app": "web"}, ports=[{"port": 80, "nodePort": 30080}])
    taken: set[str] = set()
    for _ in range(80):
        taken.add(nodeports.choose(node, VIEW, taken))
    assert not taken & own
    assert not nodeports.may_keep(PUBLIC, VIEW)
    assert nodeports.may_keep("10.112.4.13", VIEW)
