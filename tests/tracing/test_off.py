"""While traces are off, which is the default, no process loads anything of OpenTelemetry."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.figures

_LOADED = """
import sys
{begin}
loaded = sorted(name for name in sys.modules if name.startswith(("opentelemetry", "google.protobuf")) or name.endswith(
    ("tracing.encoding", "tracing.sending")))
print(",".join(loaded))
"""
_SYNCER = """
from types import SimpleNamespace
import asyncio
import syncer.__main__
from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from syncer.session import Session
from tests.kit.syncersettings import settings_for
async def build():
    sides = [Client(KubeConfig(server="http://127.0.0.1:1"), user_agent="t", field_manager="t") for _ in range(2)]
    session = Session(settings_for("red"{more}), *sides)
    if session._spans is not None:
        from bulkhead.tracing import encoding
asyncio.run(build())
"""
_CONTROLLER = """
import asyncio
import controller.__main__
from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from controller.settings import Settings
async def build():
    config = KubeConfig(server="http://127.0.0.1:1")
    controller.__main__.Controller(Client(config, user_agent="t", field_manager="t"), config, Settings({more}))
asyncio.run(build())
"""


def loaded(program: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", _LOADED.format(begin=program)], capture_output=True, text=True, timeout=120, check=True
    )
    return set(done.stdout.strip().split(",")) - {""}


@pytest.mark.parametrize("program", [_SYNCER, _CONTROLLER], ids=["syncer", "controller"])
def test_nothing_that_sends_is_loaded_by_default(program: str) -> None:
    assert loaded(program.format(more="")) == set()


def test_a_process_with_traces_loads_it() -> None:
    on = loaded(_SYNCER.format(more=', tracesCollector="http://127.0.0.1:4318"'))
    assert {"bulkhead.tracing.sending", "bulkhead.tracing.encoding"} <= on
    assert any(name.startswith("opentelemetry.") for name in on)
    on = loaded(_CONTROLLER.format(more='traces_namespace="observability", traces_service="otel"'))
    assert "bulkhead.tracing.sending" in on
