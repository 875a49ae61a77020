"""The table of behaviours claims no more than the tests show."""

import pytest

from tests import behaviours
from tests.behaviours import Proof

PROOF = [Proof("tests/test_x.py", "test_item_1_x")]


def test_every_number_is_listed_once() -> None:
    import yaml

    numbers = [entry["item"] for entry in yaml.safe_load(behaviours.SOURCE.read_text()) if "item" in entry]
    assert sorted(numbers) == list(range(1, 101))


@pytest.mark.parametrize(
    ("state", "why", "proven"),
    [("", "", []), ("missing", "not made", PROOF), ("partly", "", PROOF), ("partly", "half", []), ("odd", "x", PROOF)],
)
def test_a_claim_without_proof_is_refused(state: str, why: str, proven: list[Proof]) -> None:
    with pytest.raises(ValueError, match="behaviour 1"):
        behaviours._check(1, state, why, proven)


@pytest.mark.parametrize(("state", "why", "proven"), [("", "", PROOF), ("missing", "not made", []), ("partly", "half", PROOF)])
def test_an_honest_claim_passes(state: str, why: str, proven: list[Proof]) -> None:
    behaviours._check(1, state, why, proven)
