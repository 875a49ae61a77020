"""`bulkhead chaos run` on a real cluster: it kills the plane of a tenant of its own, the others hold, and nothing is left."""

import json
from pathlib import Path

from e2e import machine, tenants
from e2e.api import Api
from e2e.commands import bulkhead

# The machine is much smaller than a cluster: two planes and all of the host share its cores, and one of them is started again.
LIMITS = ("--p99-factor", "10", "--p99-allowance", "5000", "--request-timeout", "20s")
SHORT = ("--tenants", "2", "--baseline", "6s", "--duration", "6s")
RUNS = "bulkhead.dev/chaos"


def test_a_killed_plane_is_noticed_by_its_tenant_alone_and_nothing_is_left(host: Api, tmp_path: Path) -> None:
    report = tmp_path / "chaos.xml"
    words = ("chaos", "run", "--experiment", "plane-deleted", *SHORT, *LIMITS, "--yes", "-o", "json", "--junit", str(report))
    done = bulkhead(*words, kubeconfig=machine.KUBECONFIG, check=False, seconds=300)
    found = json.loads(done.out)
    (result,) = found["results"]
    assert (done.code, result["state"], result["violations"]) == (0, "held", []), done.text
    assert result["proofs"][0]["shown"]
    assert found["left"] == []
    assert "plane-deleted" in report.read_text()
    for name in found["plan"]["creates"]:
        tenants.wait_gone(host, name)
    for kind, namespace in (("ConfigMap", "bulkhead-system"), ("Tenant", None)):
        assert host.list(kind, namespace, labels=RUNS) == []
    assert host.find("Lease", "bulkhead-chaos", "bulkhead-system") is None
