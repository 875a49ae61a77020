"""The view of a tenant is built again when something in it changed, and only then."""

import json
from types import SimpleNamespace
from typing import Any

from bulkhead.api.objects import Obj
from bulkhead.kube.objects import Key
from syncer.settings import parse
from syncer.translate.kinds.nodemarks import NO_MARKS
from syncer.translate.view import TenantView
from syncer.watch.view import Views

SETTINGS = parse(json.dumps({"tenant": "a", "tenantUID": "u", "planeNamespace": "bh-a", "workNamespace": "bh-a-work"}).encode())
CORDONED = NO_MARKS._replace(cordoned=True)


class Caches:
    """Stores of both sides with one node and these Services."""

    def __init__(self, *services: Obj) -> None:
        self.views = Views(SETTINGS)
        empty = SimpleNamespace(store=SimpleNamespace(objects=tuple, metas=tuple))
        held = SimpleNamespace(store=SimpleNamespace(objects=lambda: services))
        self.virtual: Any = {"Service": held, "Namespace": empty, "NetworkPolicy": empty}
        self.host: Any = {"Node": SimpleNamespace(store=SimpleNamespace(keys=lambda: [Key("", "node-a")]))}

    def view(self) -> TenantView:
        return self.views.current(self.virtual, self.host)


def test_the_same_number_is_the_same_view() -> None:
    caches = Caches()
    first, serial = caches.view(), caches.views.serial
    assert caches.view() is first
    assert caches.views.discard() is first
    assert caches.views.discard() is None
    assert caches.view() is not first
    assert caches.views.serial == serial + 1


def test_only_another_offer_makes_another_view() -> None:
    caches = Caches()
    before = caches.view()
    caches.views.offer_storage(frozenset(), "")
    caches.views.offer_runtimes({})
    caches.views.offer_snapshots(frozenset(), "")
    assert caches.view() is before
    caches.views.offer_storage(frozenset({"fast"}), "fast")
    caches.views.offer_runtimes({"own": "sandboxed"})
    assert caches.view().storage_classes == {"fast"}
    assert caches.view().runtime_aliases == {"own": "sandboxed"}


def test_marks_count_on_nodes_that_the_tenant_has() -> None:
    caches = Caches()
    assert not caches.views.mark("node-a", NO_MARKS)
    assert caches.views.mark("node-a", CORDONED)
    assert caches.views.mark("node-gone", CORDONED)
    assert not caches.views.mark("node-a", CORDONED)
    assert caches.view().cordoned == {"node-a"}
    assert caches.views.mark("node-a", NO_MARKS)
    assert not caches.view().cordoned


def test_services_with_an_address_are_in_the_environment_of_pods() -> None:
    named = {"namespace": "team", "name": "web"}
    ports = [{"port": 80}, {"port": "no number"}]
    caches = Caches(
        {"metadata": named, "spec": {"clusterIP": "10.112.4.50", "ports": ports}},
        {"metadata": named | {"name": "headless"}, "spec": {"clusterIP": "None"}},
        {"metadata": named | {"name": "waits"}, "spec": {}},
    )
    (found,) = caches.view().services["team"]
    assert (found.name, found.cluster_ip) == ("web", "10.112.4.50")
    assert [each.port for each in found.ports] == [80]
