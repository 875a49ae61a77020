"""How long a login takes without a browser: a user without a cached certificate requests one that is valid for one hour."""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from e2e import commands, machine, tenants
from e2e.api import Api

_TENANT: Final = "bench-login"
_LOGINS: Final = 7


def logins(host: Api, note: Callable[[str], None]) -> dict[str, Any]:
    """Seconds of the whole command, its start included: the median of a few, each with an empty cache."""
    commands.tool("kubernetes", "kubectl")  # found now: the binaries lie in the cache that is left
    tenants.remove(host, _TENANT)
    try:
        tenants.create(host, _TENANT, gpus=1)
        took = []
        for _ in range(_LOGINS):
            with tempfile.TemporaryDirectory(prefix="bulkhead-login-") as folder:
                words = ("login", _TENANT, "--write", str(Path(folder) / "kubeconfig"))
                environment = {"KUBECONFIG": str(machine.KUBECONFIG), "XDG_CACHE_HOME": folder}
                begin = time.monotonic()
                commands.bulkhead(*words, environment=environment)
                took.append(time.monotonic() - begin)
            note(f"a login took {took[-1]:.2f} s")
        return {"seconds": round(statistics.median(took), 2), "all_s": [round(seconds, 2) for seconds in took]}
    finally:
        tenants.remove(host, _TENANT)
