"""The adapter to kopf, and the only file that knows it.

kopf watches our two kinds and calls back; each call puts a tenant's name into our own queue and returns. Nothing is reconciled
here, no finalizer and no annotation of kopf's is ever written, and kopf's own peering, posting and retries are off.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import kopf

from bulkhead.api import names
from bulkhead.kube.kubeconfig import KubeConfig

_TENANTS = (names.GROUP, names.VERSION, "tenants")
_CLASSES = (names.GROUP, names.VERSION, "tenantclasses")


class Events:
    """kopf's callbacks; remembers which tenant uses which class, so that a class's change reaches its tenants."""

    def __init__(self, on_tenant: Callable[[str], object]) -> None:
        self._on_tenant = on_tenant
        self._class_of: dict[str, str] = {}

    def tenant(self, *, name: str, spec: dict[str, Any], type: str | None, **_: Any) -> None:  # noqa: A002 - kopf's name
        """A Tenant was seen, changed or went away."""
        if type == "DELETED":
            self._class_of.pop(name, None)
        else:
            self._class_of[name] = str(spec.get("class") or "")
        self._on_tenant(name)

    def tenant_class(self, *, name: str, **_: Any) -> None:
        """A TenantClass was seen, changed or went away."""
        for tenant, used in list(self._class_of.items()):
            if used == name:
                self._on_tenant(tenant)


def registry(events: Events, config: KubeConfig) -> kopf.OperatorRegistry:
    """Our callbacks in kopf's terms."""
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
        events.tenant(**kwargs)

    async def on_class(**kwargs: Any) -> None:
        events.tenant_class(**kwargs)

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


async def run(events: Events, config: KubeConfig, stop: asyncio.Event) -> None:
    """Watch until `stop` is set."""
    logging.getLogger("kopf").setLevel(logging.WARNING)
    await kopf.operator(registry=registry(events, config), clusterwide=True, standalone=True, stop_flag=stop)
