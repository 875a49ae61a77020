"""The judge's own copies: the contract that keeps it apart is whole, and what it reads is what the platform writes today.

A name that is promised may change in neither place alone; these tests are where the two meet.
"""

import subprocess
import tomllib
from pathlib import Path

import pytest

from bulkhead.api import labels, names
from bulkhead.api import ledger as written
from bulkhead.api.labels import GPU
from e2e import ledger, workloads
from e2e import names as promised
from e2e.slurm.login import inside

CONTRACT = "the judge shares no code with the judged"
SHARES = {"e2e.performance"}  # the benchmarks


def parts(package: str) -> set[str]:
    """The modules and packages of one package."""
    found = [each for each in Path(package).iterdir() if each.suffix == ".py" or (each / "__init__.py").is_file()]
    return {f"{package}.{each.stem}" for each in found if each.stem != "__init__"}


def test_all_of_the_judge_but_the_benchmarks_is_under_the_contract() -> None:
    contracts = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [each for each in contracts if each["name"] == CONTRACT]
    assert set(contract["source_modules"]) == parts("e2e") - SHARES
    assert (
        set(contract["forbidden_modules"])
        == parts("bulkhead") | parts("workstation") | {"controller", "frontdoor", "gpumetrics", "syncer"} | SHARES
    )


def test_the_platform_is_called_what_was_promised() -> None:
    for name in ("API_VERSION", "SYSTEM_NAMESPACE", "SLURM_NAMESPACE", "POD_QUOTA", "PULL_SECRET"):
        assert getattr(promised, name) == getattr(names, name)
    for name in ("COMPONENT", "RELEASE", "VIRTUAL_UID", "MIRRORED", "GPU"):
        assert getattr(promised, name) == getattr(labels, name)
    assert promised.plane_namespace("red") == names.plane_namespace("red")
    assert promised.work_namespace("red") == names.work_namespace("red")
    assert promised.host_user("alice@example.com") == names.host_user("alice@example.com")
    assert (ledger.GATE, ledger.GANG) == (written.GATE, written.GANG)


def test_notes_of_the_ledger_are_read_as_they_are_written() -> None:
    counts = {"nominal": 4, "ceiling": 8, "used": 2, "borrowed": 0, "lent": 2, "borrowable": 4}
    lines = {("", GPU): counts, ("h100", GPU): counts | {"used": 3}}
    assert ledger.read_standing({written.STANDING: written.write_standing(lines)}) == lines
    assert ledger.read_standing({}) == {}
    noted = written.write_admitted(written.Admitted(1_700_000_000.25, "node-1", borrowed={GPU: 1}))
    assert ledger.read_admitted({written.ADMITTED: noted}) == ledger.Admitted(1_700_000_000.25, "node-1")
    assert ledger.read_admitted({}) is None


@pytest.mark.parametrize("broken", ['{"at": "now", "node": "n"}', '{"node": "n"}', "{}", "no JSON"])
def test_a_note_that_cannot_be_read_is_a_fault_and_no_absence(broken: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        ledger.read_admitted({written.ADMITTED: broken})


def test_a_pod_is_ready_by_its_condition_alone() -> None:
    ready = {"type": "Ready", "status": "True"}
    begun = {"type": "Initialized", "status": "True"}
    assert workloads.is_ready({"status": {"conditions": [begun, ready]}})
    assert not workloads.is_ready({"status": {"phase": "Running", "conditions": [begun, ready | {"status": "False"}]}})
    assert not workloads.is_ready({"status": {"phase": "Running"}})
    assert not workloads.is_ready({})


def test_a_whole_amount_is_one_without_a_suffix() -> None:
    assert (workloads.whole("8"), workloads.whole(0)) == (8, 0)
    with pytest.raises(ValueError, match="invalid literal"):
        workloads.whole("8k")


def test_words_for_a_login_pod_arrive_as_they_are(tmp_path: Path) -> None:
    stand_in = tmp_path / "setpriv"
    stand_in.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    stand_in.chmod(0o755)
    words = ["printf", "[%s]", "a b", "$HOME", "'q'", ""]
    done = subprocess.run(
        inside("root", words), env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[a b][$HOME]['q'][]"
