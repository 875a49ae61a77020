"""The enforcer process: keeps the packet filter in line with the host's network policies.

Three watches (pods, namespaces, policies) and the folder of attachments feed it. After a burst of changes it compiles a slice
of each changed namespace, and applies the result with `nft -f -` in one transaction, which does not wait for the largest
namespace. It applies nothing before all three lists are complete and everything was compiled once, and removes nothing on exit.
The rules remain in the kernel, so a crash or a restart never opens what was closed. Only `bulkhead host down` removes the
table.
"""

import argparse
import asyncio
import logging
from pathlib import Path

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.informer import Change, Informer
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.objects import Key, Resource
from bulkhead.kube.resources import NAMESPACES, NETWORK_POLICIES, PODS
from workstation.hostcluster.component import NODE_NAME, REAL_POD_RANGE
from workstation.hostcluster.netpol.attachments import Attachments
from workstation.hostcluster.netpol.cluster import Cluster, cluster_from
from workstation.hostcluster.netpol.render import TABLE, Chains, render
from workstation.hostcluster.netpol.rulebook import Rulebook

log = logging.getLogger("bulkhead.netpol")

_QUIET_SECONDS = 0.01  # a burst of changes becomes one transaction
_STEPS = 20  # of each namespace in turn
_MAX_WAIT_SECONDS = 0.1  # how long a finished namespace waits for others, so that many namespaces become few transactions
_RETRY = 1.0
_DEADLINE = 30.0


class FilterError(Exception):
    """The kernel or the nft program refused the rules."""


async def load(text: str) -> None:
    """Apply a ruleset in one transaction."""
    process = await asyncio.create_subprocess_exec(
        "nft", "-f", "-", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(_DEADLINE):
            _, complaint = await process.communicate(text.encode())
    except TimeoutError as error:
        process.kill()
        await process.wait()
        raise FilterError(f"nft: no end within {_DEADLINE:.0f} s") from error
    if process.returncode != 0:
        raise FilterError(f"nft: {complaint.decode(errors='replace').strip()[:2000]}")


class Enforcer:
    """Watches, compiles, applies."""

    def __init__(
        self, client: Client, node: str, attachments: Attachments, *, pod_range: str = REAL_POD_RANGE, alone: bool = True
    ) -> None:
        self._pod_range = pod_range
        self._attachments = attachments
        self._dirty = asyncio.Event()
        self._applied = ""
        self._rulebook = Rulebook(node)
        self._chains = Chains()
        self._decoded: dict[Resource, dict[Key, tuple[str, Obj]]] = {PODS: {}, NAMESPACES: {}, NETWORK_POLICIES: {}}
        # Pods of simulated nodes neither send nor receive. If there is no other real node, only this node's own pods matter.
        selector = f"spec.nodeName={node}" if alone else "spec.nodeName!="
        self._pods = Informer(client, PODS, field_selector=selector, on_change=self._notice)
        self._namespaces = Informer(client, NAMESPACES, on_change=self._notice)
        self._policies = Informer(client, NETWORK_POLICIES, on_change=self._notice)

    def _notice(self, _change: Change) -> None:
        self._dirty.set()

    async def run(self) -> None:
        """Work until cancelled."""
        stop_watching = self._attachments.watch(self._dirty.set)
        try:
            await self._run()
        finally:
            stop_watching()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for informer in (self._pods, self._namespaces, self._policies):
                group.create_task(informer.run())
            group.create_task(self._enforce())

    async def _enforce(self) -> None:
        for informer in (self._pods, self._namespaces, self._policies):
            await informer.synced()
        self._dirty.set()
        while True:
            await self._dirty.wait()
            await asyncio.sleep(_QUIET_SECONDS)
            try:
                await self._bring_up_to_date()
            except (FilterError, OSError) as error:
                # The previous rules remain in force.
                log.error("not applied: %s", error)  # noqa: TRY400  the cause is in the text
                await asyncio.sleep(_RETRY)
                self._dirty.set()

    async def _bring_up_to_date(self) -> None:
        """Compile what has changed or changes in the meantime, and apply what is finished."""
        loop = asyncio.get_running_loop()
        applied = loop.time()
        while True:
            if self._dirty.is_set():
                self._dirty.clear()
                self._rulebook.update(self._cluster())
            self._rulebook.work(_STEPS)
            # The first table replaces that of the previous enforcer process, which has the rules of all pods.
            if not self._rulebook.busy or (self._applied and loop.time() - applied > _MAX_WAIT_SECONDS):
                await self._apply()
                applied = loop.time()
            if not self._rulebook.busy:
                return
            await asyncio.sleep(0)

    def _cluster(self) -> Cluster:
        pods, namespaces, policies = (self._objects(one) for one in (self._pods, self._namespaces, self._policies))
        return cluster_from(pods, namespaces, policies, self._attachments.addresses())

    def _objects(self, informer: Informer) -> list[Obj]:
        """All objects of a kind. An object that has not changed since the last call is reused, and decoded only once."""
        before, now = self._decoded[informer.resource], dict[Key, tuple[str, Obj]]()
        for meta in informer.store.metas():
            held = before.get(meta.key)
            if held is not None and held[0] == meta.resource_version:
                now[meta.key] = held
            elif (obj := informer.store.get(meta.key)) is not None:
                now[meta.key] = (meta.resource_version, obj)
        self._decoded[informer.resource] = now
        return [obj for _, obj in now.values()]

    async def _apply(self) -> None:
        rules = self._rulebook.rules()
        text = render(rules, self._pod_range, self._chains)
        if text == self._applied:
            return
        await load(text)
        self._applied = text
        log.info("applied table=%r pods=%d", TABLE, len(rules))


async def _main(kubeconfig: Path, node: str, pod_range: str, *, alone: bool) -> None:
    config = KubeConfig.from_file(kubeconfig)
    async with Client(config, user_agent="bulkhead-netpol", field_manager="bulkhead-netpol") as client:
        await Enforcer(client, node, Attachments(), pod_range=pod_range, alone=alone).run()


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(description="Network policy enforcer of the embedded host")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--node", default=NODE_NAME)
    parser.add_argument("--pod-range", default=REAL_POD_RANGE, help="of this node: unknown addresses in it are blocked")
    parser.add_argument("--alone", action="store_true", help="no other node has pods that send or receive")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    asyncio.run(_main(options.kubeconfig, options.node, options.pod_range, alone=options.alone))


if __name__ == "__main__":
    main()
