"""Waits for copies that lag behind a test's writes: informers' caches, and the quotas that API servers have in memory."""

import asyncio
import contextlib
from collections.abc import Iterable

from bulkhead.api.objects import Obj
from bulkhead.kube import codec
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Forbidden, KubeError, NotFound
from bulkhead.kube.informer import Informer
from bulkhead.kube.objects import Key, Resource
from bulkhead.kube.resources import NAMESPACES


async def caught_up(informer: Informer) -> bool:
    """Whether a copy equals what a list returns; a copy of an API that is not served does."""
    if not informer.has_synced or not informer.served:
        return True
    listed: dict[Key, str] = {}
    pages = informer._client.pages(
        informer.resource,
        informer._namespace,
        label_selector=informer._label_selector,
        field_selector=informer._field_selector,
        # Versions are compared, so bodies are asked for only where they decide whether an object matters.
        metadata_only=informer._metadata_only or informer._shrink is codec.compact,
    )
    try:
        async for page in pages:
            found = [informer._shrink(raw, None) for raw in page.items]
            listed |= {meta.key: meta.resource_version for meta, body in found if body}
    except NotFound:
        return True
    except KubeError:
        return False
    held = [informer.store.meta(key) for key in informer.store.keys()]  # noqa: SIM118 -- a store, not a dict
    return listed == {meta.key: meta.resource_version for meta in held if meta is not None}


async def revision(client: Client) -> str:
    """The number of a server's last write, of whatever kind: it counts them all together."""
    async with contextlib.aclosing(client.pages(NAMESPACES, limit=1, metadata_only=True)) as pages:
        return (await anext(pages)).resource_version


class Behind:
    """The copies that have not yet seen what their servers had when this was made."""

    def __init__(self, copies: Iterable[Informer]) -> None:
        self._copies = list(copies)

    async def caught_up(self) -> bool:
        """Ask about each that is left, and forget those that have caught up: a later call asks about the others alone."""
        asked = self._copies
        answers = await asyncio.gather(*map(caught_up, asked))
        self._copies = [copy for copy, seen in zip(asked, answers, strict=True) if not seen]
        return not self._copies


async def refused_for_quota(client: Client, r: Resource, obj: Obj, namespace: str) -> bool:
    """Whether an API server would refuse this because of a quota; creates nothing."""
    body = codec.encode({"apiVersion": r.api_version, "kind": r.kind} | obj | {"metadata": {"name": "probe"}})
    try:
        await client.transport.request(
            "POST", r.path(namespace), params={"dryRun": "All"}, body=body, content_type="application/json"
        )
    except Forbidden as error:
        return "exceeded quota" in error.message
    return False
