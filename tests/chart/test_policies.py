"""The chart's admission policies on a real API server: the second decider over what a syncer may write, sample by sample."""

import pytest

from bulkhead.kube.client import Client
from tests.chart import admission_bounds as bounds
from tests.chart.admission_kept import JUDGED, KEPT
from tests.chart.admission_reasons import OF_OTHER_FACTS, OF_OTHER_REQUESTS, REASONS, REASONS_OF_CHANGES
from tests.chart.admission_samples import ALLOWED, CHANGES, REFUSED
from tests.chart.policed import in_force, left_out, refused, refused_change
from tests.kit.helmchart import rendered


@pytest.mark.apiserver
async def test_the_policies_refuse_what_a_syncer_must_not_write(syncer: Client, admin: Client) -> None:
    """Each for the one reason that is its own, so that no rule can go missing behind another one."""
    await in_force(syncer, admin)
    all_samples = REFUSED | bounds.REFUSED
    without = left_out(all_samples)
    said = {name: await refused(syncer, obj, cleaner=admin) for name, obj in all_samples.items() if name not in without}
    assert said == {name: reason for reason, samples in REASONS.items() for name in samples if name not in without}


def test_each_rule_for_syncers_has_a_sample_that_it_refuses() -> None:
    rules = {
        rule["message"]
        for obj in rendered()
        if obj["kind"] == "ValidatingAdmissionPolicy" and obj["metadata"]["name"].startswith("bulkhead-syncer-")
        for rule in obj["spec"]["validations"]
    }
    assert rules == {*REASONS, *REASONS_OF_CHANGES, *OF_OTHER_FACTS, *OF_OTHER_REQUESTS}


@pytest.mark.apiserver
async def test_the_policies_let_ordinary_objects_through(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    all_samples = ALLOWED | bounds.ALLOWED
    without = left_out(all_samples)
    stopped = [name for name, obj in all_samples.items() if name not in without and await refused(syncer, obj, cleaner=admin)]
    assert not stopped


@pytest.mark.apiserver
async def test_the_policies_refuse_what_a_syncer_must_not_change(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    all_samples = CHANGES | bounds.CHANGES
    without = left_out(all_samples)
    said = {name: await refused_change(syncer, each, admin) for name, each in all_samples.items() if name not in without}
    assert said == {name: reason for reason, samples in REASONS_OF_CHANGES.items() for name in samples if name not in without}


@pytest.mark.apiserver
async def test_of_what_was_let_in_once_only_changes_are_judged(syncer: Client, admin: Client) -> None:
    """A class, a list of the installation or a rule became tighter since: labels go on being written."""
    await in_force(syncer, admin)
    said = {name: await refused_change(syncer, change, admin) for name, change in KEPT.items() if name not in left_out(KEPT)}
    assert {name: text for name, text in said.items() if text} == {}
    said = {name: await refused_change(syncer, change, admin) for name, (_, change) in JUDGED.items()}
    assert said == {name: reason for name, (reason, _) in JUDGED.items()}


async def test_the_policies_let_ordinary_changes_through(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    stopped = {name: await refused_change(syncer, change, admin) for name, change in bounds.CHANGES_ALLOWED.items()}
    assert stopped == dict.fromkeys(stopped, "")
