"""The adapter to kopf, and the only file that imports it.

kopf watches Bulkhead's kinds and calls back. Each call puts the name of a tenant into the controller's own queue and returns.
Nothing is reconciled here. kopf writes no finalizers and no annotations, and its peering, event posting and retries are off.

    thread kopf, a loop of its own: watches ──> callbacks ──> our loop: Events ──> queue

kopf has its own thread for two reasons: in the main thread it would handle the process's signals, and when it ends, it cancels
every task of its loop, including tasks that it did not create.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import kopf

from bulkhead.api import names
from bulkhead.kube.kubeconfig import KubeConfig

_TENANTS = (names.GROUP, names.VERSION, "tenants")
_CLASSES = (names.GROUP, names.VERSION, "tenantclasses")
_END_SECONDS = 5.0


class Events:
    """kopf's callbacks. They remember each tenant's class and cohort, so that a change of these enqueues their tenants."""

    def __init__(self, on_tenant: Callable[[str], object]) -> None:
        self._on_tenant = on_tenant
        self._class_of: dict[str, str] = {}
        self._cohort_of: dict[str, str] = {}
        self._classes: dict[str, tuple[str, int]] = {}

    def tenant(self, *, name: str, spec: dict[str, Any], type: str | None, **_: Any) -> None:  # noqa: A002 - kopf's name
        """A Tenant was listed, has changed or is gone."""
        if type == "DELETED":
            self._class_of.pop(name, None)
            self._cohort_of.pop(name, None)
        else:
            self._class_of[name] = str(spec.get("class") or "")
            self._cohort_of[name] = str((spec.get("quota") or {}).get("cohort") or "")
        self._on_tenant(name)

    def tenant_class(self, *, name: str, meta: Mapping[str, Any], type: str | None, **_: Any) -> None:  # noqa: A002 - kopf's name
        """A TenantClass was listed, has changed or is gone. A change of its status does not concern its tenants."""
        seen = (str(meta.get("uid")), int(meta.get("generation") or 0))
        if type != "DELETED" and self._classes.get(name) == seen:
            return
        self._classes[name] = seen
        if type == "DELETED":
            self._classes.pop(name)
        for tenant, used in list(self._class_of.items()):
            if used == name:
                self._on_tenant(tenant)

    def cohort(self, name: str) -> None:
        """A Cohort was listed, has changed or is gone."""
        for tenant, named in list(self._cohort_of.items()):
            if named == name:
                self._on_tenant(tenant)


def registry(events: Events, config: KubeConfig, loop: asyncio.AbstractEventLoop) -> kopf.OperatorRegistry:
    """The kopf registry with these callbacks; they run in `loop`."""
    made = kopf.OperatorRegistry()

    async def login(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(
            server=config.server,
            ca_data=config.ca,
            certificate_data=config.client_cert,
            private_key_data=config.client_key,
            token=config.token or (config.token_file.read_text().strip() if config.token_file else None),
            insecure=False,
        )

    async def on_tenant(**kwargs: Any) -> None:
        loop.call_soon_threadsafe(partial(events.tenant, **kwargs))

    async def on_class(**kwargs: Any) -> None:
        loop.call_soon_threadsafe(partial(events.tenant_class, **kwargs))

    async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.posting.enabled = False
        settings.watching.server_timeout = 300
        settings.watching.client_timeout = 330
        settings.networking.request_timeout = 30
        settings.scanning.disabled = True

    kopf.on.startup(registry=made)(configure)
    kopf.on.login(registry=made)(login)
    kopf.on.event(*_TENANTS, registry=made)(on_tenant)
    kopf.on.event(*_CLASSES, registry=made)(on_class)
    return made


async def run(events: Events, config: KubeConfig) -> None:
    """Watch until cancelled. Raises RuntimeError if kopf ends by itself."""
    logging.getLogger("kopf").setLevel(logging.WARNING)
    # kopf warns that it does not handle signals in this thread, which is intended.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
    ours, theirs, stop = asyncio.get_running_loop(), asyncio.new_event_loop(), asyncio.Event()
    made, ended = registry(events, config, ours), ours.create_future()

    def watch() -> None:
        reason: BaseException | None = None
        try:
            with asyncio.Runner(loop_factory=lambda: theirs) as runner:
                runner.run(kopf.operator(registry=made, clusterwide=True, standalone=True, stop_flag=stop))
        except BaseException as error:  # noqa: BLE001 - handed over whatever it is: otherwise a thread ends silently
            reason = error
        with contextlib.suppress(RuntimeError):  # our loop has ended, and nothing waits for the result
            ours.call_soon_threadsafe(ended.set_result, reason)

    threading.Thread(target=watch, name="kopf", daemon=True).start()
    try:
        await asyncio.wait([ended])
    finally:
        with contextlib.suppress(RuntimeError):  # kopf's loop is closed already
            theirs.call_soon_threadsafe(stop.set)
        await asyncio.wait([ended], timeout=_END_SECONDS)
    raise RuntimeError("kopf ended by itself") from ended.result()
