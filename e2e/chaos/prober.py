"""The prober: reads and writes every tenant's API and the host's at a steady rate, and records how long each request took.

It is a process of its own, separate from the observer: a process that parses lists of pods between two readings of the clock
would measure its own interpreter. It reaches every tenant's API by its ClusterIP with the tenant's kubeconfig, as a tenant's
client would. The probes start one after another within a period; started together, they would measure how they delay each
other. It changes only its own ConfigMap.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from e2e.api import Api, ApiError, UnreachableError
from e2e.chaos.history import HOST, Probe
from e2e.chaos.recorder import Recorder, record

WRITE_EACH = 4  # one probe in four is a write
MARK = "chaos-observer"
_NAMESPACE = "default"


def probe(recorder: Recorder, tenant: str, api: Api, offset: float) -> None:
    """Probe one API until stopped. `offset` is the delay of its first probe within the period, in seconds."""
    recorder.stop.wait(offset)
    count = 0
    while not recorder.stop.is_set():
        begin = time.monotonic()
        count += 1
        writes = count % WRITE_EACH == 0
        error = _attempt(partial(_write, api, count) if writes else partial(_read, api))
        took = time.monotonic() - begin
        recorder.add(Probe(begin, tenant, "write" if writes else "read", took, error))
        recorder.stop.wait(max(0.0, recorder.period - took))


def _read(api: Api) -> None:
    api.list("Pod", _NAMESPACE)


def _write(api: Api, count: int) -> None:
    try:
        api.patch("ConfigMap", MARK, {"data": {"count": str(count)}}, _NAMESPACE)
    except ApiError as exc:
        if exc.status != 404:
            raise
        # The first write, or the first one after the tenant has lost its data.
        api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": MARK, "namespace": _NAMESPACE}})


def _attempt(call: Callable[[], object]) -> str:
    try:
        call()
    except (ApiError, UnreachableError) as exc:
        return str(exc)[:300]
    return ""


def probes(recorder: Recorder, apis: Mapping[str, Api], host: Api) -> Iterator[Callable[[], None]]:
    """One loop per API, spread over the period."""
    targets = {**apis, HOST: host}
    for place, (name, api) in enumerate(targets.items()):
        yield partial(probe, recorder, name, api, recorder.period * place / len(targets))


if __name__ == "__main__":
    sys.exit(record("Probe tenants from outside and write a history.", probes))
