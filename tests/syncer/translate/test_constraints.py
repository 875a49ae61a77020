"""How much a pod may say about where it may run: counted together, whatever list it stands in."""

from typing import Any

import pytest

from bulkhead.api import requirements
from bulkhead.api.objects import Obj
from syncer.translate.kinds.pod import to_host
from syncer.translate.podspec import constraints
from syncer.translate.reasons import Reason, Untranslatable
from tests.kit import translationsamples as samples

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def values(count: int, at: int = 0) -> list[str]:
    return [f"v{at}-{number}" for number in range(count)]


def node_term(expressions: int, each: int, field: str = "matchExpressions") -> Obj:
    return {field: [{"key": f"k{number}", "operator": "In", "values": values(each, number)} for number in range(expressions)]}


def pod_term(**more: Any) -> Obj:
    return {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}} | more


# What each says, and how much that is.
PARTS: dict[str, tuple[Obj, int]] = {
    "nothing": ({}, 0),
    "a node selector": ({"nodeSelector": {"a": "1", "b": "2"}}, 2),
    "tolerations": ({"tolerations": [{"key": "a", "operator": "Exists"}, {"operator": "Exists"}]}, 2),
    "required terms": ({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [node_term(2, 3), {}]}}}}, 10),
    "fields": ({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [node_term(2, 1, "matchFields")]}}}}, 5),
    "preferred terms": ({"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": node_term(1, 4)}]}}}, 6),
    "affinity to pods": ({"affinity": {"podAffinity": {REQUIRED: [pod_term(matchLabelKeys=["x"])]}}}, 3),
    "preferred anti-affinity": (
        {"affinity": {"podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": pod_term(namespaces=["a", "b"])}]}}},
        4,
    ),
    "spreading": (
        {"topologySpreadConstraints": [pod_term(labelSelector={"matchExpressions": node_term(1, 2)["matchExpressions"]})]},
        4,
    ),
    "what has no shape": ({"affinity": [], "tolerations": "all", "nodeSelector": None, "topologySpreadConstraints": [1]}, 0),
}


@pytest.mark.parametrize("name", PARTS)
def test_each_part_counts(name: str) -> None:
    spec, count = PARTS[name]
    assert requirements.counted(spec) == count


@pytest.mark.parametrize(("terms", "expressions", "each"), [(1, 1536, 1), (100, 10, 3), (1536, 1, 0), (1, 1, 5000)])
def test_a_product_of_lists_is_refused_though_each_list_is_short(terms: int, expressions: int, each: int) -> None:
    listed = [node_term(expressions, each)] * terms
    for wish in (
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": listed}}},
        {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": term} for term in listed]}},
    ):
        spec = {"affinity": wish}
        assert requirements.counted(spec) > requirements.MOST - 2
        if requirements.counted(spec) > requirements.MOST:
            with pytest.raises(Untranslatable, match="name fewer") as refused:
                constraints.check(spec, on_host=False)
            assert refused.value.reason is Reason.TOO_LARGE


def asking(count: int) -> Obj:
    """A pod that asks for nodes with so many terms, expressions and values; no list in it is too long."""
    large, rest = divmod(count - 1, 1001)
    term = node_term(large, 1000)
    term["matchExpressions"] += [{"key": "rest", "operator": "In", "values": values(rest - 1)}] if rest else []
    return samples.pod({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}})


def test_as_much_as_is_allowed_passes_and_one_more_does_not() -> None:
    # The host pod says more than its tenant did: where the pool is, and what the platform lets it endure.
    beside = requirements.counted(to_host(asking(100), samples.VIEW)["spec"]) - 100
    to_host(asking(requirements.MOST - beside), samples.VIEW)
    for more in (requirements.MOST - beside + 1, requirements.MOST + 1):
        with pytest.raises(Untranslatable, match=r"have 3073 terms, expressions and values, and 3072 together are the most"):
            to_host(asking(more), samples.VIEW)


def about_pods(required: int, preferred: int) -> Obj:
    terms = [pod_term(labelSelector={"matchLabels": {"app": f"friend-{number}"}}) for number in range(required + preferred)]
    wishes = [{"weight": 1, "podAffinityTerm": term} for term in terms[required:]]
    return samples.pod({"affinity": {"podAntiAffinity": {REQUIRED: terms[:required]}, "podAffinity": {PREFERRED: wishes}}})


@pytest.mark.parametrize("required", [0, 20, requirements.MOST_POD_TERMS])
def test_terms_about_other_pods_are_few_whatever_list_they_stand_in(required: int) -> None:
    left = requirements.MOST_POD_TERMS - required
    assert requirements.pod_terms(to_host(about_pods(required, left), samples.VIEW)["spec"]) == requirements.MOST_POD_TERMS
    with pytest.raises(Untranslatable, match="have 33 terms, and 32 together are the most; select more") as refused:
        to_host(about_pods(required, left + 1), samples.VIEW)
    assert refused.value.reason is Reason.TOO_LARGE
    # Spreading does not count: nothing of it is compared once a pod runs.
    spreading = [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"} | pod_term(topologyKey=f"z{n}") for n in range(60)]
    assert (
        len(to_host(samples.pod({"topologySpreadConstraints": spreading}), samples.VIEW)["spec"]["topologySpreadConstraints"])
        == 60
    )


def test_a_pod_that_is_there_already_is_not_judged_again() -> None:
    to_host(asking(4000), samples.view({"judges": False}))
