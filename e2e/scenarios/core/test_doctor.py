"""`bulkhead doctor` on a host on which everything else has been tried: it finds nothing wrong."""

import json
import re

import pytest

from e2e import commands, machine, workloads
from e2e.poll import until


@pytest.mark.usefixtures("alice")
def test_it_finds_nothing_wrong_after_all_faults_are_over() -> None:
    def sound() -> None:
        told = commands.bulkhead("doctor", "-o", "json", kubeconfig=machine.KUBECONFIG, check=False)
        checks = {check["check"]: check for check in json.loads(told.out)["checks"]}
        failed = [name for name, check in checks.items() if check["state"] == "failed"]
        workloads.expect(not failed, f"{failed}: {told.out}")
        assert checks["tenants.certificates"]["state"] == "ok", checks["tenants.certificates"]
        assert re.search(r"the first ends \d{4}-", checks["tenants.certificates"]["cause"])

    # The last tenants of other tests are on their way out.
    until("doctor to find nothing wrong", sound, seconds=60, interval=2.0)
