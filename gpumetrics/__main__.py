"""`python -m gpumetrics`: in a cluster by its ServiceAccount, outside of one by KUBECONFIG."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from bulkhead.api.syncersettings import FIGURES_PATH
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ConfigError, KubeError
from bulkhead.kube.informer import Informer
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.work import jsonlog
from bulkhead.work.clock import Clock, SystemClock
from bulkhead.work.supervise import supervise
from gpumetrics import metrics
from gpumetrics.callers import Callers
from gpumetrics.exporters import Exporter, exporters
from gpumetrics.hostview import HostView
from gpumetrics.kubelets import Kubelets
from gpumetrics.rounds import Rounds, page_of
from gpumetrics.settings import Settings, SettingsError, load

T = TypeVar("T", str, bool)
_log = logging.getLogger("gpumetrics")
_NAME: Final = "bulkhead-gpumetrics"
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
_MAX_SLICES_BYTES: Final = 32 << 20
# Of all pages of a list together, of which one is in memory at a time: 20,000 pods of 10 KiB are 200 MiB.
_MAX_LIST_BYTES: Final = 2 << 30


def main() -> None:
    """Run until a signal ends it."""
    try:
        settings = load()
        path = os.environ.get("KUBECONFIG")
        config = KubeConfig.from_file(path) if path else KubeConfig.in_cluster()
    except (SettingsError, ConfigError) as error:
        sys.exit(f"{_NAME} cannot start: {error}")
    jsonlog.configure("INFO")
    asyncio.run(_until_signal(settings, config))


async def _until_signal(settings: Settings, config: KubeConfig) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Client(config, user_agent=_NAME, field_manager=_NAME, max_list=_MAX_LIST_BYTES) as client:
        work = asyncio.create_task(run(settings, client))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in (stopping, work):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work


async def run(settings: Settings, client: Client, clock: Clock | None = None) -> None:
    """The whole process, until cancelled."""
    clock = clock or SystemClock()
    selector = f"kubernetes.io/service-name={settings.service}"
    slices = Informer(
        client, kinds.ENDPOINT_SLICES, namespace=settings.namespace, label_selector=selector, max_bytes=_MAX_SLICES_BYTES
    )
    view = HostView(client)

    def found() -> Mapping[str, Exporter]:
        return exporters(slices.store.objects(), settings.port)

    rounds = Rounds(settings, view, found, clock)
    kubelets = Kubelets(settings, view, client.config, clock)

    async def scraping() -> None:
        await slices.synced()
        await view.synced()
        await rounds.run()

    async def asking() -> None:
        await view.synced()
        await kubelets.run()

    server = await _serve(settings, rounds, Callers(client, clock, settings.own_namespace), kubelets)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(supervise("exporters", slices.run))
            group.create_task(supervise("host", view.run))
            group.create_task(supervise("rounds", scraping))
            if settings.kubelets:
                group.create_task(supervise("kubelets", asking))
    finally:
        await server.cleanup()


async def _serve(settings: Settings, rounds: Rounds, callers: Callers, kubelets: Kubelets | None = None) -> web.AppRunner:
    async def known(request: web.Request, whose: Callable[[str], Awaitable[T]], only: str) -> T:
        """The caller; raises the answer for one that is not known."""
        try:
            caller = await whose(request.headers.get("Authorization", ""))
        except KubeError as error:
            _log.warning("token not reviewed: %s", error)
            raise web.HTTPServiceUnavailable(text="the host's API does not answer\n") from error
        if not caller:
            metrics.refused_callers.inc()
            raise web.HTTPUnauthorized(text=f"only {only}, by its token\n")
        return caller

    def ended(at: float | None) -> None:
        if at is None:
            raise web.HTTPServiceUnavailable(text="no round has ended yet\n")

    async def tenant(request: web.Request) -> web.Response:
        namespace = await known(request, callers.namespace_of, "a syncer")
        ended(rounds.ended_at)
        page = page_of(rounds.boards.get(namespace, ()))
        return web.Response(body=page, headers={"Content-Type": _TEXT})

    async def utilisation(request: web.Request) -> web.Response:
        await known(request, callers.is_controller, "the controller")
        ended(rounds.ended_at)
        return web.json_response({"pods": rounds.loads})

    async def figures(request: web.Request) -> web.Response:
        namespace = await known(request, callers.namespace_of, "a syncer")
        ended(kubelets.ended_at if kubelets is not None else None)
        page = kubelets.boards.get(namespace, b"") if kubelets is not None else b""
        return web.Response(body=page, headers={"Content-Type": _TEXT})

    async def counted(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def ready(_: web.Request) -> web.Response:
        return web.Response(text="ok\n") if rounds.ended_at is not None else web.Response(status=503, text="starting\n")

    app = web.Application()
    app.add_routes(
        [
            web.get("/tenant", tenant),
            web.get("/utilisation", utilisation),
            web.get(FIGURES_PATH, figures),
            web.get("/metrics", counted),
            web.get("/livez", alive),
            web.get("/readyz", ready),
        ]
    )
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, port=settings.listen_port).start()
    return runner


if __name__ == "__main__":
    main()
