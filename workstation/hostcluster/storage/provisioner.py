"""The provisioner process: serves claims of the classes `local` and `local-immediate`, and removes their released volumes.

Two watches (claims, volumes) feed one queue; `volumes` decides; then one folder and one API call follow. Level-triggered: after
a crash between folder and volume, both are done again. Simulated nodes get a volume without a folder, because nothing there
reads it.
"""

import argparse
import asyncio
import contextlib
import logging
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, Conflict, KubeError
from bulkhead.kube.informer import Change, Informer
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.objects import Key
from bulkhead.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from bulkhead.work.backoff import PerKeyBackoff
from bulkhead.work.queue import KeyedQueue
from workstation.hostcluster.storage.volumes import folder_to_remove, volume_for, volume_node, wants_volume

log = logging.getLogger("bulkhead.storage")


@dataclass(frozen=True, slots=True)
class Work:
    """One object to reconcile."""

    kind: str
    key: Key


class Provisioner:
    """Brings folders and volumes in line with the claims."""

    def __init__(self, client: Client, folders: Mapping[str, Path]) -> None:
        self._client = client
        self._folders = folders
        self._queue: KeyedQueue[Work] = KeyedQueue(max_keys=10_000)
        self._backoff: PerKeyBackoff[Work] = PerKeyBackoff()
        self._claims = Informer(client, PERSISTENT_VOLUME_CLAIMS, on_change=self._notice("claim"))
        self._volumes = Informer(client, PERSISTENT_VOLUMES, on_change=self._notice("volume"))

    def _notice(self, kind: str) -> Callable[[Change], None]:
        return lambda change: None if change.kind == "deleted" else self._enqueue(Work(kind, change.key))

    def _enqueue(self, work: Work) -> None:
        self._queue.add(work)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._claims.run())
            group.create_task(self._volumes.run())
            for _ in range(4):
                group.create_task(self._worker())

    async def _worker(self) -> None:
        while True:
            work = await self._queue.get()
            try:
                await (self._serve_claim(work.key) if work.kind == "claim" else self._clean_up(work.key))
                self._backoff.forget(work)
            except (KubeError, OSError) as error:
                log.warning("%s %s: %s: %s", work.kind, work.key, type(error).__name__, error)
                self._queue.add_after(work, self._backoff.next(work))
            finally:
                self._queue.done(work)

    async def _serve_claim(self, key: Key) -> None:
        claim = self._claims.store.get(key)
        # Most claims need nothing: the class is read only for a claim that could be served.
        if claim is None or not wants_volume(claim):
            return
        storage_class = await self._client.get(STORAGE_CLASSES, claim["spec"]["storageClassName"])
        volume = volume_for(claim, storage_class, self._folders)
        if volume is None:
            return
        if volume_node(volume) in self._folders:
            await asyncio.to_thread(_make_folder, Path(volume["spec"]["local"]["path"]))
        with contextlib.suppress(AlreadyExists):
            await self._client.create(PERSISTENT_VOLUMES, volume)
            log.info("provisioned claim=%s volume=%s", key, volume["metadata"]["name"])

    async def _clean_up(self, key: Key) -> None:
        volume = self._volumes.store.get(key)
        if volume is None:
            return
        target = folder_to_remove(volume, self._folders)
        if target is None:
            return
        await asyncio.to_thread(_remove_folder, target)
        await self._delete(volume)

    async def _delete(self, volume: Obj) -> None:
        metadata = volume["metadata"]
        with contextlib.suppress(Conflict):  # another volume has this name now, which must not be deleted
            await self._client.delete(PERSISTENT_VOLUMES, metadata["name"], uid=metadata["uid"])
            log.info("removed volume=%s", metadata["name"])


def _make_folder(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o711)
    path.mkdir(exist_ok=True)
    path.chmod(0o777)  # any user of a pod may write; the kubelet restricts it if the pod sets fsGroup


def _remove_folder(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)


async def _main(kubeconfig: Path, folders: Mapping[str, Path]) -> None:
    config = KubeConfig.from_file(kubeconfig)
    async with Client(config, user_agent="bulkhead-storage", field_manager="bulkhead-storage") as client:
        await Provisioner(client, folders).run()


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(description="Provisioner of local volumes")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument(
        "--folder", action="append", required=True, metavar="NODE=PATH", help="of each real node, the first node first"
    )
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    asyncio.run(
        _main(options.kubeconfig, {name: Path(path) for name, _, path in (pair.partition("=") for pair in options.folder)})
    )


if __name__ == "__main__":
    main()
