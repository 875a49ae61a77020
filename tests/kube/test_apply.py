"""Server-side apply, and the cache that spares it."""

import pytest

from bulkhead.kube.apply import ApplyCache
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Conflict
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.objects import Key, Obj, version_of
from bulkhead.kube.resources import CONFIG_MAPS


def intent(namespace: str, **data: str) -> Obj:
    return {"metadata": {"name": "m", "namespace": namespace}, "data": data}


async def test_apply_owns_exactly_what_it_names(host_client: Client, host_config: KubeConfig, namespace: str) -> None:
    await host_client.apply(CONFIG_MAPS, intent(namespace, a="1", b="1"))
    async with Client(host_config, user_agent="tests", field_manager="other") as other:
        with pytest.raises(Conflict):
            await other.apply(CONFIG_MAPS, intent(namespace, a="2"), force=False)
        await other.apply(CONFIG_MAPS, intent(namespace, a="2"))
    dropped = await host_client.apply(CONFIG_MAPS, intent(namespace, b="1"))
    assert dropped["data"] == {"a": "2", "b": "1"}
    assert (await host_client.apply(CONFIG_MAPS, intent(namespace, c="1")))["data"] == {"a": "2", "c": "1"}


async def test_a_repeated_apply_makes_no_call(host_client: Client, namespace: str) -> None:
    cache = ApplyCache(host_client)
    first = await cache.apply(CONFIG_MAPS, intent(namespace, a="1"), observed=None)
    again = await cache.apply(CONFIG_MAPS, intent(namespace, a="1"), observed=first)
    assert (cache.applied, cache.skipped, again) == (1, 1, first)


async def test_drift_is_written_over(host_client: Client, namespace: str) -> None:
    cache = ApplyCache(host_client)
    await cache.apply(CONFIG_MAPS, intent(namespace, a="1"), observed=None)
    drifted = await host_client.patch(CONFIG_MAPS, "m", {"data": {"a": "drift"}}, namespace)
    repaired = await cache.apply(CONFIG_MAPS, intent(namespace, a="1"), observed=drifted)
    assert repaired["data"] == {"a": "1"}
    assert version_of(repaired) != version_of(drifted)


async def test_a_new_intent_is_applied_and_memory_is_bounded(host_client: Client, namespace: str) -> None:
    cache = ApplyCache(host_client, max_entries=1)
    first = await cache.apply(CONFIG_MAPS, intent(namespace, a="1"), observed=None)
    second = await cache.apply(CONFIG_MAPS, intent(namespace, a="2"), observed=first)
    assert second["data"] == {"a": "2"}
    other = intent(namespace, a="1")
    other["metadata"]["name"] = "other"
    await cache.apply(CONFIG_MAPS, other, observed=None)
    await cache.apply(CONFIG_MAPS, intent(namespace, a="2"), observed=second)
    assert (cache.applied, cache.skipped) == (4, 0)
    cache.forget(CONFIG_MAPS, Key(namespace, "m"))
    await cache.apply(CONFIG_MAPS, intent(namespace, a="2"), observed=second)
    assert cache.applied == 5
