"""What is read from a Ginkgo report."""

import json
from pathlib import Path

from e2e.conformance.suite import read_report


def test_specs_that_ran_are_read_with_their_whole_name(tmp_path: Path) -> None:
    def spec(state: str, **more: object) -> dict[str, object]:
        return {
            "ContainerHierarchyTexts": ["[sig-network] Netpol", "between server and client"],
            "LeafNodeType": "It",
            "LeafNodeText": "should deny all",
            "State": state,
            "RunTime": 1_500_000_000,
        } | more

    reports = [
        {
            "SpecReports": [
                spec("passed"),
                spec("failed", Failure={"Message": "expected to be refused"}),
                spec("skipped"),
                spec("passed", LeafNodeType="SynchronizedBeforeSuite"),
            ]
        }
    ]
    (tmp_path / "raw.json").write_text(json.dumps(reports))
    passed, failed = read_report(tmp_path / "raw.json")
    assert passed.name == "[sig-network] Netpol between server and client should deny all"
    assert (passed.state, passed.seconds, passed.failure) == ("passed", 1.5, "")
    assert (failed.state, failed.failure) == ("failed", "expected to be refused")
