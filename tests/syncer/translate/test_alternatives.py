"""What a tenant cannot have is refused in one form: what, why, and what to do instead (`alternatives.yaml`)."""

import re
from typing import Any

import pytest

from syncer.translate import Untranslatable, alternatives, schema
from syncer.translate.kinds import pod as pods
from syncer.translate.podspec import podsecurity, volumes
from syncer.translate.reasons import Reason
from syncer.translate.registry import KINDS
from tests.kit.translationsamples import HERE, pod, view
from tests.kit.yamlfiles import load

CASES: Any = load(HERE / "alternatives.yaml")
_FORM = re.compile(r"^[\w.\[\]]+: [^;:]+ is not allowed: [^;:]+; .+[^.]$")


@pytest.mark.parametrize("name", CASES["pods"])
def test_a_refused_pod_names_the_alternative(name: str) -> None:
    case = CASES["pods"][name]
    with pytest.raises(Untranslatable) as refused:
        pods.for_creation(pod(case["spec"], {"labels": case.get("labels", {})}), view())
    assert str(refused.value) == case["told"]
    assert refused.value.reason == Reason.POD_SECURITY
    assert _FORM.fullmatch(case["told"].replace("node/NAME", "node"))


@pytest.mark.parametrize("name", CASES["services"])
def test_a_service_that_is_not_public_says_so(name: str) -> None:
    case = CASES["services"][name]
    found = KINDS["Service"].remarks({"kind": "Service", "spec": case["spec"]}, view(case.get("view")))
    assert found == case["told"]
    assert all(_FORM.fullmatch(sentence) for sentence in found)


@pytest.mark.parametrize("spec", [None, 5, {"type": ["LoadBalancer"]}, {"type": "ExternalName"}])
def test_a_malformed_service_gets_no_remark(spec: Any) -> None:
    assert alternatives.of_service({"spec": spec}, view()) == []


def test_a_pod_that_only_has_the_label_of_a_debugger_is_judged_as_any_other() -> None:
    mine = pod({}, {"labels": {"app.kubernetes.io/managed-by": "kubectl-debug"}})
    assert pods.for_creation(mine, view())["kind"] == "Pod"


@pytest.mark.parametrize("field", ["hostNetwork", "hostPID", "hostIPC"])
def test_both_judges_refuse_what_is_a_nodes(field: str) -> None:
    with pytest.raises(Untranslatable, match=f"{field} is not allowed"):
        schema.struct({field: True}, pods.POD_SPEC, "spec")
    with pytest.raises(Untranslatable, match=f"{field} is not allowed"):
        podsecurity.check({field: True}, "baseline")


def test_both_judges_refuse_the_files_of_a_node() -> None:
    volume = {"name": "root", "hostPath": {"path": "/"}}
    with pytest.raises(Untranslatable, match="hostPath is not allowed"):
        schema.struct(volume, volumes.VOLUME, "spec.volumes[0]")
    with pytest.raises(Untranslatable, match="hostPath is not allowed"):
        podsecurity.check({"volumes": [volume]}, "baseline")
