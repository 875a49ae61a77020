"""One look at an installation: read, judge, report."""

import asyncio
from collections.abc import Callable
from typing import Final

from bulkhead import __version__
from bulkhead.kube.client import Client
from workstation.doctor.judge import judge
from workstation.doctor.observe import seen
from workstation.preflight.findings import Report

REPORT_VERSION: Final = "bulkhead.dev/doctor/v1"


async def run(client: Client, namespace: str, say: Callable[[str], None]) -> Report:
    """The report. Raises KubeError if the server does not answer at all."""
    clock = asyncio.get_running_loop().time
    begin = clock()
    say("reading the installation")
    found = await seen(client, namespace, __version__)
    return Report(client.config.server, clock() - begin, judge(found), version=REPORT_VERSION)
