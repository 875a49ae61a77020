"""Host against tenant: counts, differences with reasons, slices that add up, and what a whole run complains of."""

from pathlib import Path

import pytest

from e2e.conformance import comparison, images, report
from e2e.conformance.suite import Spec


def spec(name: str, state: str = "passed", failure: str = "") -> Spec:
    return Spec(name, state, 1.0, failure)


def test_a_difference_has_its_reviewed_reason_or_none() -> None:
    host = [spec("KubeletManagedEtcHosts works"), spec("Pods run"), spec("both fail", "failed")]
    tenant = [
        spec("KubeletManagedEtcHosts works", "failed", "refused"),
        spec("Pods run", "failed", "no pod"),
        spec("both fail", "failed"),
    ]
    found = comparison.summary(host, tenant, comparison.load())
    assert [(one["spec"], one["reason"] == comparison.UNEXPLAINED) for one in found["differences"]] == [
        ("KubeletManagedEtcHosts works", False),
        ("Pods run", True),
    ]
    assert found["unexplained"] == 1
    assert found["failed_on_both"] == ["both fail"]


def test_the_share_is_of_what_ran_on_both_and_passed_on_the_host() -> None:
    host = [spec("a"), spec("b"), spec("c", "failed"), spec("only here")]
    found = comparison.summary(host, [spec("a"), spec("b", "failed"), spec("c")], ())
    assert (found["ran_on_both"], found["share"]) == (3, 0.5)
    assert {one["spec"]: (one["host"], one["tenant"]) for one in found["differences"]} == {
        "b": ("passed", "failed"),
        "c": ("failed", "passed"),
    }


def test_slices_add_up_and_the_later_result_counts() -> None:
    merged = comparison.merged([spec("a", "failed"), spec("b")], [spec("a"), spec("c")])
    assert [(one.name, one.state) for one in merged] == [("a", "passed"), ("b", "passed"), ("c", "passed")]


def test_a_whole_run_that_is_good_enough_complains_of_nothing() -> None:
    host = [spec(f"s{number}") for number in range(comparison.HOST_WANTED)]
    assert comparison.complaints(comparison.summary(host, host, ())) == []
    assert len(comparison.complaints(comparison.summary(host[:100], [spec("s0", "failed")], ()))) == 3


@pytest.mark.parametrize("text", ["- {specs: x}", "- {specs: '', reason: y}", "- {specs: x, reason: y, more: z}"])
def test_a_reason_without_a_pattern_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "expected.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match="needs `specs`"):
        comparison.load(path)


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("registry.k8s.io/e2e-test-images/agnhost:2.63.0", True),
        ("registry.k8s.io/pause:3.10.2", True),
        ("gcr.io/k8s-authenticated-test/agnhost:2.6", False),
        ("invalid.registry.k8s.io/invalid/alpine:3.1", False),
        ("registry.k8s.io/sig-storage/csi-provisioner:v6.1.1", False),
    ],
)
def test_images_are_made_for_what_conformance_runs_and_never_for_registries_that_must_not_answer(name: str, made: bool) -> None:
    assert (images.recipe_of(name) is not None) == made


def test_the_report_names_each_difference_under_its_reason_once() -> None:
    host = [spec("KubeletManagedEtcHosts works"), spec("HostPort validates that there is no conflict"), spec("fails", "failed")]
    tenant = [spec(one.name, "failed") for one in host]
    text = report.as_markdown(comparison.summary(host, tenant, comparison.load()), 0.75, "v1.2.3")
    for one in host:
        assert text.count(f"- {one.name}") == 1
    assert "| host | 3 | 2 |" in text
    assert "Kubernetes v1.2.3" in text
    assert text.index("HostPort validates") < text.index("## What fails on both sides") < text.index("- fails")
