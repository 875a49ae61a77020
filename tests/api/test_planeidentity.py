"""The host's record of a plane's data, read from fields into which any client may have written."""

from typing import Any

import pytest

from bulkhead.api.planeidentity import Observed, Recorded, judge, lost, recorded


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"clusterUID": "u", "highestRevision": "12", "quarantine": "why"}, Recorded("u", 12, "why")),
        ({"clusterUID": "u"}, Recorded("u")),
        ({}, Recorded()),
        (None, Recorded()),
        ([], Recorded()),
        ({"clusterUID": 5, "highestRevision": 12, "quarantine": True}, Recorded()),
        ({"highestRevision": "-1"}, Recorded()),
        ({"highestRevision": "1k"}, Recorded()),
        ({"highestRevision": "٣"}, Recorded()),
        ({"highestRevision": "9" * 5000}, Recorded()),
        ({"clusterUID": "u" * 5000, "quarantine": "q" * 5000}, Recorded("u" * 256, 0, "q" * 256)),
    ],
)
def test_a_record_is_read_and_what_has_no_shape_is_absent(data: Any, expected: Recorded) -> None:
    assert recorded({"data": data}) == expected
    assert recorded(None) == Recorded()


def test_another_identity_and_an_older_revision_are_told() -> None:
    record = Recorded("old", 7)
    assert judge(record, Observed("old", 7)) == ""
    assert judge(Recorded(), Observed("new", 1)) == ""
    assert judge(record, Observed("new", 9)) == "plane changed identity: cluster UID was old, is new"
    assert judge(record, Observed("old", 6)) == "plane went back in time: revision was 7, is 6"
    assert judge(Recorded("old", 7, "why"), Observed("old", 8)) == "why"


def test_of_what_is_not_known_nothing_is_said() -> None:
    assert lost(Recorded("old"), "", "") == ""
    assert lost(Recorded(), "", "new") == ""
    assert lost(Recorded(), "old", "new") == "plane changed identity: cluster UID was old, is new"
