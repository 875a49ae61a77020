"""`bulkhead chaos run`, killed with SIGKILL right after its n-th write, however that is answered: `… N KUBECONFIG`.

Each write is printed; with 0 the run is not killed.
"""

import os
import signal
import sys
from typing import Any

from bulkhead.kube.transport import Transport
from workstation.chaos import experiment, judge
from workstation.chaos import run as running
from workstation.chaos.judge import Limits
from workstation.chaos.plan import Order
from workstation.cli.arguments import Host
from workstation.cli.chaos.running import RunRequest, run

TARGET = "red"


def main(number: int, kubeconfig: str) -> int:
    count = 0
    real = Transport.request

    async def request(self: Transport, method: str, path: str, **more: Any) -> bytes:
        nonlocal count
        try:
            return await real(self, method, path, **more)
        finally:
            # A review asks for rights; the server keeps none.
            if method != "GET" and not path.endswith("/selfsubjectaccessreviews"):
                count += 1
                os.write(2, f"write {method} {path}\n".encode())
                if count == number:
                    os.kill(os.getpid(), signal.SIGKILL)

    Transport.request = request  # type: ignore[method-assign]
    judge.MIN_REQUESTS = 0  # type: ignore[misc]
    running._SETTLE_SECONDS = experiment._SETTLE_SECONDS = 0.1  # type: ignore[misc]
    order = Order(
        ("webhook-fails", "definitions-flood"),
        target=TARGET,
        confirmed=TARGET,
        tenants=2,
        baseline_seconds=0.3,
        fault_seconds=1.0,
    )
    request_ = RunRequest(Host(kubeconfig), order, Limits(), True, "never", "bulkhead-system", None, "json")
    return run(request_)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2]))
