"""What a run has shown of each row is counted by row, level and who decided."""

from tests.adversarial.record import Seen, summary
from tests.adversarial.rows import OF_CASES

PURE, SERVERS, POLICIES = (OF_CASES[level] for level in ("pure", "servers", "policies"))


def test_inputs_are_counted_by_row_and_level_with_who_decided() -> None:
    found = summary(
        [
            Seen(f"{PURE}::test_refused[A1-pid]", True, ("PodSecurityViolation",)),
            Seen(f"{PURE}::test_refused[A1-ipc]", False),
            Seen(f"{POLICIES}::test_a_create_is_refused_whatever_the_syncer_does[A1-pid]", True, ("Pod Security",)),
            Seen(f"{POLICIES}::test_a_change_is_refused_whatever_the_syncer_does[A1-pid]", True, ("the host's API server",)),
            Seen(f"{SERVERS}::test_all", True, ({"A1-pid": "refused", "A1-ipc": "refused", "A2-main": "mirrored"},)),
            Seen(f"{POLICIES}::test_a_change_is_refused_whatever_the_syncer_does[A15-future]", True, ("ignored",)),
            Seen("tests/api/test_quantity.py::test_a_text_that_is_not_a_quantity_is_refused[x]", True),
            Seen("tests/api/test_quantity.py::test_how_a_quantity_is_written", True),
        ]
    )
    assert found["A1"] == {
        "rules alone": {"inputs": 2, "ignored": 0, "passed": 1, "failed": 1, "decided_by": {"PodSecurityViolation": 1}},
        "real API servers": {"inputs": 2, "ignored": 0, "passed": 2, "failed": 0, "decided_by": {"refused": 2}},
        "the host's policies": {
            "inputs": 2, "ignored": 0, "passed": 2, "failed": 0, "decided_by": {"Pod Security": 1, "the host's API server": 1},
        },
    }  # fmt: skip
    assert found["A2"] == {
        "real API servers": {"inputs": 1, "ignored": 0, "passed": 1, "failed": 0, "decided_by": {"mirrored": 1}}
    }
    assert found["B13"] == {"rules alone": {"inputs": 1, "ignored": 0, "passed": 1, "failed": 0, "decided_by": {}}}
    ignored = found["A15"]["the host's policies"]
    assert ignored == {"inputs": 1, "ignored": 1, "passed": 0, "failed": 0, "decided_by": {"ignored": 1}}, "it shows nothing"
    assert len(found) == 127
    assert found["C13"] == {}
