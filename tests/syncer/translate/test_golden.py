"""Every golden pair: a virtual object as it is read from a plane and the host object that becomes of it."""

from pathlib import Path

import pytest

from bulkhead.api.objects import Obj
from syncer.translate.registry import KINDS
from tests.kit.yamlfiles import load
from tests.syncer.translate import golden

CASES = dict(golden.cases())


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str) -> None:
    path: Path = CASES[name]
    expected: Obj = load(golden.host_file(path))
    assert golden.outcome(path) == expected


def test_every_kind_has_a_case() -> None:
    assert {name.split("/")[0] for name in CASES} == {kind.lower() for kind in KINDS}
