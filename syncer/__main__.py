"""Starts the syncer: `python -m syncer`, in a pod without any argument, elsewhere with the paths given."""

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from asyncio import sslproto
from collections.abc import Sequence
from pathlib import Path

from bulkhead.kube.client import Client
from bulkhead.kube.errors import ConfigError
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.work import jsonlog
from syncer.session import Places, Session
from syncer.settings import DEFAULT_PATH, Settings, SettingsFileError, load

_log = logging.getLogger("syncer")

# asyncio zeroes a read buffer of 256 KiB for each TLS connection; a record holds 16 KiB, and there are some twenty connections.
_TLS_BUFFER = 32 * 1024
_USER_AGENT = "bulkhead-syncer"
_COLLECT_AFTER = (5_000, 20, 20)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bulkhead-syncer", description="Mirror one tenant's plane onto the host cluster.")
    parser.add_argument("--settings", type=Path, default=DEFAULT_PATH, help="settings file (default: %(default)s)")
    parser.add_argument(
        "--pki", type=Path, default=Path("/etc/bulkhead/pki"), help="folder with kubeconfig and the kubelet's certificates"
    )
    parser.add_argument("--host-kubeconfig", type=Path, default=None, help="default: the pod's service account")
    parser.add_argument("--listen", default="0.0.0.0", help="address of kubelet and probes (default: all)")  # noqa: S104 -- in a pod
    parser.add_argument("--probe-port", type=int, default=8080, help="port of /livez, /readyz and /metrics")
    parser.add_argument("--log-level", default="INFO", choices=("DEBUG", "INFO", "WARNING", "ERROR"))
    return parser.parse_args(arguments)


async def _run_until_signal(settings: Settings, plane: KubeConfig, host: KubeConfig, places: Places) -> None:
    """Sync until SIGTERM or SIGINT, then end in order."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with (
        Client(
            plane, user_agent=_USER_AGENT, field_manager=_USER_AGENT, timeout=15.0, max_body=8 << 20, max_list=96 << 20
        ) as plane_client,
        Client(host, user_agent=f"{_USER_AGENT}/{settings.tenant}", field_manager=_USER_AGENT, timeout=15.0) as host_client,
    ):
        session = Session(settings, plane_client, host_client, pod=os.environ.get("POD_NAME", ""))
        serving = asyncio.create_task(session.serve(places))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            _log.info("stopping")
            await session.drain()
            serving.cancel()
        stopping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until a signal; the exit code says how it went."""
    options = _options(arguments)
    try:
        settings = load(options.settings)
        jsonlog.configure(options.log_level, tenant=settings.tenant)
        plane = KubeConfig.from_file(options.pki / "kubeconfig", hostile=True)
        host = KubeConfig.from_file(options.host_kubeconfig) if options.host_kubeconfig else KubeConfig.in_cluster()
    except (SettingsFileError, ConfigError) as error:
        sys.stderr.write(f"bulkhead-syncer: {error}\n")
        return 2
    places = Places(options.pki, options.listen, options.listen, options.probe_port)
    _log.info("starting", extra={"detail": {"work_namespace": settings.work_namespace}})
    sslproto.SSLProtocol.max_size = _TLS_BUFFER
    # What was imported stays for ever, and objects in the caches are bytes: collecting often finds nothing and costs CPU time.
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    asyncio.run(_run_until_signal(settings, plane, host, places))
    return 0


if __name__ == "__main__":
    sys.exit(main())
