"""How much a claim may say about its devices: counted together, in whatever request or alternative it stands."""

from typing import Any

import pytest

from bulkhead.api import deviceclaims
from bulkhead.api.objects import Obj
from syncer.translate.kinds.deviceclaim import to_host
from syncer.translate.reasons import Reason, Untranslatable
from tests.kit import translationsamples as samples

CLASS = "gpu.example.com"
VIEW: dict[str, Any] = {"device_classes": frozenset({CLASS})}


def selecting(number: int, characters: int = 30) -> Obj:
    return {"deviceClassName": CLASS, "selectors": [{"cel": {"expression": "x" * characters}}] * number}


def claim(*requests: Obj | list[Obj]) -> Obj:
    """Each says what it asks for, or a list of alternatives."""
    named = [
        {"name": f"r{index}"}
        | ({"exactly": each} if isinstance(each, dict) else {"firstAvailable": [{"name": "w"} | way for way in each]})
        for index, each in enumerate(requests)
    ]
    meta = {"name": "c", "namespace": "default", "uid": "0b8c7a52-0000-4000-8000-000000000001"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": meta,
        "spec": {"devices": {"requests": named}},
    }


LARGE = [
    claim(selecting(32), selecting(32), selecting(1)),
    claim(selecting(32), [selecting(17), selecting(16)]),
    claim(selecting(1, 10_000), selecting(1, 6_385)),
    claim(selecting(1, 10_000), [selecting(1, 6_000), selecting(1, 385)]),
]


@pytest.mark.parametrize("large", LARGE)
def test_a_claim_that_says_too_much_is_refused_in_words(large: Obj) -> None:
    number, characters = deviceclaims.selecting(large)
    with pytest.raises(
        Untranslatable, match=f"has {number} selectors of {characters} characters .* use several claims"
    ) as said:
        to_host(large, samples.view(VIEW))
    assert said.value.reason is Reason.TOO_LARGE


def test_as_much_as_is_allowed_passes() -> None:
    to_host(claim(selecting(32, 200), [selecting(20, 300), selecting(12, 300)]), samples.view(VIEW))
    to_host(claim(selecting(1, 10_000), [selecting(1, 6_000), selecting(1, 384)]), samples.view(VIEW))


def test_a_claim_that_is_there_already_is_not_judged_again() -> None:
    to_host(LARGE[0], samples.view(VIEW | {"judges": False}))
