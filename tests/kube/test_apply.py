"""Server-side apply, and the memory that spares it."""

import pytest

from bulkhead.api.ledger import GIVEN, OVER_SINCE, STANDING
from bulkhead.api.objects import Obj
from bulkhead.kube.apply import ApplyMemory
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Conflict
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.resources import CONFIG_MAPS


def intent(namespace: str, **data: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": namespace}, "data": data}


async def test_apply_owns_exactly_what_it_names(host_client: Client, host_config: KubeConfig, namespace: str) -> None:
    await host_client.apply(CONFIG_MAPS, intent(namespace, a="1", b="1"))
    async with Client(host_config, user_agent="tests", field_manager="other") as other:
        with pytest.raises(Conflict):
            await other.apply(CONFIG_MAPS, intent(namespace, a="2"), force=False)
        await other.apply(CONFIG_MAPS, intent(namespace, a="2"))
    dropped = await host_client.apply(CONFIG_MAPS, intent(namespace, b="1"))
    assert dropped["data"] == {"a": "2", "b": "1"}
    assert (await host_client.apply(CONFIG_MAPS, intent(namespace, c="1")))["data"] == {"a": "2", "c": "1"}


async def test_an_intent_is_unchanged_until_it_or_its_object_changes(host_client: Client, namespace: str) -> None:
    memory, wanted = ApplyMemory(), intent(namespace, a="1")
    assert not memory.unchanged(wanted, None)
    left = await host_client.apply(CONFIG_MAPS, wanted)
    memory.remember(wanted, left=left)
    assert memory.unchanged(wanted, left)
    assert not memory.unchanged(wanted, None)
    assert not memory.unchanged(intent(namespace, a="2"), left)
    drifted = await host_client.patch(CONFIG_MAPS, "m", {"data": {"a": "drift"}}, namespace)
    assert not memory.unchanged(wanted, drifted)
    # Fields that others write next to the content are not drift.
    assert memory.unchanged(wanted, left | {"status": {"phase": "Active"}})
    assert memory.unchanged(wanted, left | {"metadata": left["metadata"] | {"resourceVersion": "0", "managedFields": []}})
    noted = {"annotations": {STANDING: "{}", OVER_SINCE: "x", "deployment.kubernetes.io/revision": "2"}}
    assert memory.unchanged(wanted, left | {"metadata": left["metadata"] | noted})
    for mark in (
        {"uid": "another"},
        {"labels": {"a": "b"}},
        {"annotations": {GIVEN: "{}"}},
        {"deletionTimestamp": "2026-06-01T12:00:00Z"},
    ):
        assert not memory.unchanged(wanted, left | {"metadata": left["metadata"] | mark})


def test_of_objects_that_are_not_watched_an_apply_counts_for_a_while() -> None:
    memory, wanted = ApplyMemory(), intent("n", a="1")
    assert not memory.recent(wanted, -1.0)
    memory.remember(wanted, at=10.0)
    assert memory.recent(wanted, 9.0)
    assert not memory.recent(wanted, 10.0)
    assert not memory.recent(intent("n", a="2"), 9.0)
    # Without the object that it left behind nothing is known of what is observed.
    assert not memory.unchanged(wanted, wanted)


def test_the_memory_is_bounded_and_forgets() -> None:
    memory = ApplyMemory(max_entries=2)
    one, two, three = (intent(each, a="1") for each in ("one", "two", "three"))
    for each in (one, two, one, three):
        memory.remember(each, at=1.0)
    assert [memory.recent(each, 0.0) for each in (one, two, three)] == [True, False, True]
    memory.forget({"one"})
    assert [memory.recent(each, 0.0) for each in (one, three)] == [False, True]
    memory.clear()
    assert not memory.recent(three, 0.0)
