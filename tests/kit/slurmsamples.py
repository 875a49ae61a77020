"""Tenants with Slurm, and key material that is not secret."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from controller.settings import Settings
from controller.slurm.decide.resolve import resolve
from controller.slurm.spec import SlurmSpec
from controller.slurm.spec.keys import AuthKey, SlurmKeys
from tests.kit import tenantsamples as samples
from tests.kit import yamlfiles

_CASES = Path(__file__).resolve().parents[1] / "controller" / "slurm" / "cases.yaml"
CASES: dict[str, dict[str, Any]] = yamlfiles.load(_CASES)
KEYS = SlurmKeys(
    auth=(AuthKey("first", b"x" * 32), AuthKey("second", b"y" * 32, expires=1_800_000_000)),
    jwt=b"z" * 32,
    database_password="hunter2",
    ssh_host_key="private host key\n",
    ssh_host_key_public="public host key\n",
)


def slurm_spec(asked: dict[str, Any] | None = None, **changes: Any) -> SlurmSpec:
    tenant = samples.tenant(scheduling={"mode": "Slurm", "slurm": asked or {}})
    spec = resolve(tenant, samples.tenant_class(), Settings())
    assert spec is not None
    return replace(spec, **changes)
