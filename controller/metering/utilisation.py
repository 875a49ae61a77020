"""Asks `gpumetrics` how busy the devices of each pod are, and counts that until it is stored.

Only while this process leads, and only where the chart installs gpumetrics: else nothing is measured, and usage says so.
"""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final

import msgspec

from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.metering.load import Accounts, Load, LoadMeter
from bulkhead.metering.meter import Tally
from bulkhead.metering.steady import Steady
from bulkhead.work.clock import Clock
from controller.settings import Settings

_log = logging.getLogger(__name__)

TOKEN: Final = Path("/var/run/secrets/bulkhead/gpumetrics/token")
_EVERY_SECONDS: Final = 30.0
_DEADLINE_SECONDS: Final = 10.0
_MAX_BYTES: Final = 16 << 20
_PATH: Final = "/utilisation"


class _Answer(msgspec.Struct):
    pods: dict[Annotated[str, msgspec.Meta(max_length=64)], tuple[int, float]]


_answer: Final = msgspec.json.Decoder(_Answer)


class Utilisation:
    """The load of pods, from when the process began to lead until it loses the lease."""

    def __init__(self, settings: Settings, clock: Clock, token: Path = TOKEN) -> None:
        self._address = settings.gpu_metrics_source if settings.gpu_metrics else ""
        self._token = token
        self._clock = clock
        self._steady = Steady(self._wall(), self._monotonic())
        self._meter = LoadMeter()

    async def run(self) -> None:
        """Ask until cancelled; return at once where there is no source."""
        if not self._address:
            return
        config = KubeConfig(server=self._address, token_file=self._token)
        async with Client(
            config, user_agent="bulkhead-controller", field_manager="bulkhead", timeout=_DEADLINE_SECONDS, max_body=_MAX_BYTES
        ) as client:
            while True:
                await self.look(client)
                await self._clock.sleep(_EVERY_SECONDS)

    async def look(self, client: Client) -> None:
        """Ask once. Without an answer, what the last one showed counts for two minutes at most."""
        try:
            pods = _answer.decode(await client.get_raw(_PATH)).pods
        except (KubeError, TimeoutError, msgspec.MsgspecError, ValueError) as error:
            _log.warning("utilisation not measured: %s", error)
            return
        loads = {uid: Load.of(devices, busy) for uid, (devices, busy) in pods.items()}
        self._meter.see(loads, self._steady.now(self._wall(), self._monotonic()))

    def count(self, accounts: Accounts) -> Iterable[Tally]:
        """Everything up to the last answer that was not counted yet."""
        return tuple(self._meter.count(accounts))

    def _wall(self) -> int:
        return round(self._clock.now().timestamp() * 1000)

    def _monotonic(self) -> int:
        return round(self._clock.monotonic() * 1000)
