"""`python -m frontdoor`: beside HAProxy, in a cluster by its ServiceAccount, outside of one by KUBECONFIG.

With `--once` it writes the files that HAProxy starts from, and ends: the pod's first container.
"""

import asyncio
import contextlib
import logging
import os
import resource
import signal
import sys
from typing import Any, Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from bulkhead.api import labels
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ConfigError, KubeError
from bulkhead.kube.informer import Informer
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.work import jsonlog
from bulkhead.work.supervise import supervise
from frontdoor.keeper import Keeper, write_files
from frontdoor.routes import routes
from frontdoor.settings import Settings, SettingsError, load, within

_log = logging.getLogger("frontdoor")
SELECTOR: Final = f"{labels.MANAGED_BY}={labels.MANAGED_BY_BULKHEAD},{labels.EXPOSED_BY}={labels.EXPOSED_BY_PROXY}"
_LIST_RETRY_SECONDS: Final = 2.0


def main() -> None:
    """Run until a signal ends it; with `--once`, until the files are written."""
    try:
        settings = load()
        path = os.environ.get("KUBECONFIG")
        config = KubeConfig.from_file(path) if path else KubeConfig.in_cluster()
    except (SettingsError, ConfigError) as error:
        sys.exit(f"bulkhead-proxy cannot start: {error}")
    jsonlog.configure("INFO")
    # HAProxy is in the same pod, where the same limit holds.
    asked, settings = settings, within(settings, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    if settings != asked:
        _log.warning("connections: %s, as many as open files allow here", settings.limits.connections)
    asyncio.run(first(settings, config) if sys.argv[1:] == ["--once"] else run(settings, config))


async def first(settings: Settings, config: KubeConfig) -> None:
    """Write the files as soon as the host's API answers: an HAProxy without tenants would refuse them all."""
    async with Client(config, user_agent="bulkhead-proxy", field_manager="bulkhead-proxy") as client:
        while True:
            try:
                listed = await client.list(kinds.SERVICES, label_selector=SELECTOR)
            except KubeError as error:
                _log.warning("Services not listed: %s", error)
                await asyncio.sleep(_LIST_RETRY_SECONDS)
                continue
            write_files(settings, routes(listed.items))
            return


async def run(settings: Settings, config: KubeConfig) -> None:
    """The whole process."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Client(config, user_agent="bulkhead-proxy", field_manager="bulkhead-proxy") as client:
        work = asyncio.create_task(keep(settings, client), name="keep")
        stopping = asyncio.create_task(stop.wait(), name="signal")
        await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in (stopping, work):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work


async def keep(settings: Settings, client: Client) -> None:
    """Watch the Services, and keep HAProxy up to date with them."""

    def services() -> list[dict[str, Any]]:
        return [obj for key in informer.store.keys() if (obj := informer.store.get(key)) is not None]  # noqa: SIM118

    keeper = Keeper(settings, services)
    informer = Informer(client, kinds.SERVICES, label_selector=SELECTOR, on_change=lambda _: keeper.wake())

    async def keeping() -> None:
        # Before the first list the informer shows no tenants.
        await informer.synced()
        await keeper.run()

    server = await _serve(settings, keeper)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(supervise("services", informer.run))
            group.create_task(supervise("keeper", keeping))
    finally:
        await server.cleanup()


async def _serve(settings: Settings, keeper: Keeper) -> web.AppRunner:
    async def counted(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def ready(_: web.Request) -> web.Response:
        return web.Response(text="ok\n") if keeper.answered else web.Response(status=503, text="HAProxy does not answer\n")

    app = web.Application()
    app.add_routes([web.get("/metrics", counted), web.get("/livez", alive), web.get("/readyz", ready)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, port=settings.http_port).start()
    return runner


if __name__ == "__main__":
    main()
