"""How long a Tenant waits for a new name: from its request until the certificate of the running plane includes it."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from e2e import install, tenants
from e2e.api import Api
from e2e.chaos.percentiles import percentile
from e2e.exposed import DOMAIN, VALUES, at_the_proxy, certified
from e2e.poll import until

_TENANT: Final = "bench-front"
_NAMES: Final = 3
_DEADLINE: Final = 90.0


def new_name(host: Api, note: Callable[[str], None]) -> dict[str, Any]:
    """Seconds for each of a few names, one after the other."""
    install.install_chart(note, **VALUES)
    try:
        tenants.create(host, _TENANT, gpus=1)
        until("the tenant at the proxy", partial(at_the_proxy, host, _TENANT), seconds=_DEADLINE)
        host.patch("TenantClass", "standard", {"spec": {"exposure": {"hostnameDomains": [DOMAIN]}}})
        took = []
        for number in range(_NAMES):
            name = f"n{number}.{_TENANT}.{DOMAIN}"
            begin = time.monotonic()
            host.patch("Tenant", _TENANT, {"spec": {"exposure": {"hostnames": [name]}}})
            until(f"the name {name}", partial(certified, host, _TENANT, name), seconds=_DEADLINE, interval=0.1)
            took.append(time.monotonic() - begin)
            note(f"a new name in the certificate after {took[-1]:.1f} s")
        return {"new_name_s": round(percentile(took, 95), 2), "all_s": [round(seconds, 2) for seconds in took]}
    finally:
        tenants.remove(host, _TENANT)
        host.patch("TenantClass", "standard", {"spec": {"exposure": None}})
        install.install_chart(note)
