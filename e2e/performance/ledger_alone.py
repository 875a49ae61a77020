"""`python -m e2e.performance.ledger_alone`: a process that runs the ledger and nothing else, on the cluster of KUBECONFIG.

For benchmarks: what the process takes is the ledger's. It ends by a signal, and says on its way what its turns took.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys

from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.work import jsonlog
from controller.dispatch import metrics
from controller.dispatch.loop import Ledger


async def run() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    config = KubeConfig.from_file(os.environ["KUBECONFIG"])
    async with Client(config, user_agent="bulkhead-ledger", field_manager="bulkhead-controller") as client:
        leader = asyncio.create_task(Ledger(client, lambda: True).run())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({leader, stopping}, return_when=asyncio.FIRST_COMPLETED)
        leader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await leader
    print(json.dumps(spent()), flush=True)


def spent() -> dict[str, float]:
    """How many turns there were, and how long they and their decisions took on average."""
    found = {}
    for name, histogram in (("turn", metrics.turn_seconds), ("decide", metrics.decide_seconds)):
        values = {sample.name.rsplit("_", 1)[-1]: sample.value for metric in histogram.collect() for sample in metric.samples}
        found[f"{name}_mean_ms"] = round(1000 * values["sum"] / max(values["count"], 1), 1)
        found["turns"] = values["count"]
    return found


if __name__ == "__main__":
    jsonlog.configure("WARNING")
    sys.exit(asyncio.run(run()))
