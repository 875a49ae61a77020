"""A plane as a tenant's user follows it in the console: watches of what they may read there.

pods of all namespaces, or of the kubeconfig's if only those may be read ──┐
ConfigMap kube-public/bulkhead-quota ──────────────────────────────────────┤
what own GPUs do, and own Slurm jobs, asked for every few seconds ─────────┴──> own picture ──> board
"""

import asyncio
import contextlib
import time
from typing import Any, Final

from bulkhead.api import ownquota
from bulkhead.api.ledger import moment
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Forbidden, KubeError
from workstation.cli.console import own
from workstation.cli.console.probing import probe
from workstation.cli.console.watched import Watched
from workstation.cli.output import plain
from workstation.cli.quotas import ownreading
from workstation.console.board import Board

_PICTURE_SECONDS: Final = 0.5
# GPUs are measured every 30 s, and slurmctld has more to do than to answer.
_ASK_SECONDS: Final = 10.0


class OwnLive:
    """A plane, followed until `run` is cancelled."""

    def __init__(self, client: Client, source: str, board: Board, namespace: str) -> None:
        self._client = client
        self._source = source
        self._board = board
        self._namespace = namespace
        self._dirty = asyncio.Event()
        self._last: dict[str, Any] = {}
        self._asked = own.Asked()
        self.first = asyncio.Event()

    async def run(self) -> None:
        """Follow the plane until cancelled."""
        unread: list[str] = []
        where = await self._readable(unread)
        pods: Watched[own.OwnPod] = Watched(self._client, kinds.PODS, own.pod_of, self._dirty.set, namespace=where)
        quotas: Watched[Obj] = Watched(
            self._client, kinds.CONFIG_MAPS, _whole, self._dirty.set,
            namespace=ownquota.NAMESPACE, field_selector=f"metadata.name={ownquota.CONFIG_MAP}",
        )  # fmt: skip
        async with asyncio.TaskGroup() as tasks:
            for watched in (pods, quotas):
                tasks.create_task(watched.run())
            tasks.create_task(probe(self._client, kinds.PODS, where, self._board, (pods, quotas)))
            for watched in (pods, quotas):
                await watched.answered.wait()
            tasks.create_task(self._ask(pods))
            self._dirty.set()
            while True:
                await self._dirty.wait()
                self._dirty.clear()
                self._put(pods, quotas, unread)
                self.first.set()
                await asyncio.sleep(_PICTURE_SECONDS)

    async def _ask(self, pods: Watched[own.OwnPod]) -> None:
        """Ask for what cannot be watched until cancelled."""
        while True:
            seen = pods.values()
            nodes = {pod.node for pod in seen if pod.node and pod.asks}
            uses = await ownreading.gpu_uses(self._client, nodes) if nodes else None
            slurm = ownreading.has_slurm({pod.namespace for pod in seen})
            asked = own.Asked(uses, await ownreading.slurm_jobs(self._client) if slurm else None)
            if asked != self._asked:
                self._asked = asked
                self._dirty.set()
            await asyncio.sleep(_ASK_SECONDS)

    def read(self) -> tuple[int, int]:
        """How many kinds were read, of how many."""
        return (2 if self.first.is_set() else 0), 2

    def _put(self, pods: Watched[own.OwnPod], quotas: Watched[Obj], unread: list[str]) -> None:
        refused = [
            f"{name}: {plain(watched.missing)}" for name, watched in (("pods", pods), ("your quota", quotas)) if watched.missing
        ]
        quota = next(iter(quotas.values()), None)
        made = own.picture_of(quota, pods.values(), self._source, moment(time.time()), [*unread, *refused], asked=self._asked)
        if made | {"at": ""} != self._last:
            self._board.put("picture", made)
            self._last = made | {"at": ""}

    async def _readable(self, unread: list[str]) -> str | None:
        """The namespace whose pods the user may list; None for all."""
        try:
            pages = self._client.pages(kinds.PODS, limit=1, metadata_only=True)
            async with contextlib.aclosing(pages):
                await anext(pages)
        except Forbidden:
            unread.append(f"pods of namespaces other than {self._namespace}: you may not list them")
            return self._namespace
        except KubeError:
            return None
        return None


def _whole(obj: Obj) -> Obj:
    return obj
