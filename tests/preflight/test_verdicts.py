"""Golden verdicts: how a cluster differs from a healthy one, and which checks report it.

Every other check must report as before.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.kit import yamlfiles
from tests.preflight.observing import changed, healthy, observed
from workstation.preflight.facts import Observed, Unseen
from workstation.preflight.findings import Report, State, document
from workstation.preflight.judge import CHECKS, judge

_CASES: dict[str, Any] = yamlfiles.load(Path(__file__).parent / "cases.yaml")
_HEALTHY = {each.check: each.finding for each in judge(*observed(healthy()))}
# A healthy cluster that offers neither snapshots nor device classes and needs no pull secret.
_NOT_OFFERED = {"storage.snapshots", "storage.backup", "gpus.deviceclasses", "images.secrets"}


def test_a_healthy_cluster_is_well() -> None:
    states = {name: finding.state for name, finding in _HEALTHY.items()}
    assert {name for name, state in states.items() if state is not State.OK} == _NOT_OFFERED
    assert all(states[name] is State.SKIPPED for name in _NOT_OFFERED)


@pytest.mark.parametrize("name", _CASES)
def test_what_is_wrong_is_said_where_it_belongs_with_cause_and_cure(name: str) -> None:
    case = _CASES[name]
    found = {each.check: each.finding for each in judge(*observed(changed(healthy(), case.get("change", {}))))}
    for check, (state, *texts) in case["finds"].items():
        finding = found[check]
        assert str(finding.state) == state, (check, finding)
        said = " ".join((finding.cause, finding.cure, *finding.details))
        assert all(text in said for text in texts), (check, said)
        assert finding.cure or state in {"ok", "skipped"}, check
    others = {check: finding for check, finding in found.items() if check not in case["finds"]}
    assert {check: finding.state for check, finding in others.items()} == {check: _HEALTHY[check].state for check in others}


def test_every_check_fails_or_warns_in_some_case() -> None:
    bad = {check for case in _CASES.values() for check, (state, *_) in case["finds"].items() if state in {"failed", "warning"}}
    assert bad == {each.name for each in CHECKS}


def test_a_cluster_of_which_nothing_is_seen_passes_nothing_that_matters() -> None:
    tree = healthy()
    _, values = observed(tree)
    found = judge(Observed(here=tree["here"], phases=Unseen("no rights")), values)
    assert [each.check for each in found if each.finding.state is State.OK] == []
    states = {each.check: each.finding.state for each in found}
    assert states["network.pods"] is State.FAILED


def test_the_report_names_every_check_and_is_bounded() -> None:
    tree = changed(healthy(), {"denied": [f"create {'x' * 5000} {number}" for number in range(500)]})
    report = Report("https://host", 12.34, judge(*observed(tree)))
    found = document(report)
    assert [each["check"] for each in found["checks"]] == [each.name for each in CHECKS]
    rights = next(each for each in found["checks"] if each["check"] == "server.rights")
    assert (len(rights["details"]), rights["details"][-1], max(map(len, rights["details"]))) == (21, "and 480 more", 600)
    assert (found["state"], found["counts"]["failed"], found["seconds"]) == ("failed", 1, 12.3)
