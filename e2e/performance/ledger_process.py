"""The ledger as a process of its own, during one part of its benchmark."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class LedgerProcess:
    """One process; `spent` is what it printed at its end (`e2e.performance.ledger_alone`), empty until then."""

    pid: int
    spent: dict[str, Any] = field(default_factory=dict)


@contextlib.asynccontextmanager
async def running(kubeconfig: Path) -> AsyncIterator[LedgerProcess]:
    """Run the ledger on the cluster of a kubeconfig until the block ends."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "e2e.performance.ledger_alone",
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        stdout=asyncio.subprocess.PIPE,
    )
    ledger = LedgerProcess(process.pid)
    try:
        yield ledger
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        said, _ = await process.communicate()
        lines = said.decode().splitlines()
        ledger.spent = json.loads(lines[-1]) if lines else {}
