"""The page of a chaos run: one file, the same for the same history, readable without colours, and safe with hostile texts."""

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from e2e.chaos import results
from e2e.chaos.history import HOST, Evidence, PartSeen, Probe, Record
from e2e.chaos.judgement import Judgement, judge
from e2e.chaos.page import document, drawing, panels, timeline
from e2e.chaos.page.__main__ import main
from tests.docs.pages import ROOT
from tests.e2e_pure.chaosruns import TENANTS, good_run

EXAMPLE = ROOT / "docs" / "pictures" / "chaos.html"


def harmed() -> Judgement:
    """The good run, but b has an error and a restart while a is frozen."""
    records: list[Record] = [
        replace(item, error="timeout") if isinstance(item, Probe) and item.tenant == "b" and item.at == 210 else item
        for item in good_run()
    ]
    return judge([*records, PartSeen(211, "b", "plane-0/etcd", "plane-b", 1)])


def elements(svg: str, kind: str) -> list[ET.Element]:
    return [item for item in ET.fromstring(svg).iter() if item.get("class") == kind]  # noqa: S314 -- drawn here


def test_the_page_is_one_file_without_anything_from_elsewhere() -> None:
    page = document.html(judge(good_run()))
    assert "Contained" in page
    assert "<script" not in page
    assert not re.findall(r"""(?:src|href)=["'](?!#)""", page)
    assert not re.findall(r"url\(|@import|@font-face", page)
    assert "prefers-color-scheme: dark" in page
    for name in (*TENANTS, HOST):
        assert name in page


def test_the_page_says_what_broke_and_who_noticed_in_words_and_shapes() -> None:
    page = document.html(harmed())
    assert "✗ Not contained" in page
    assert "✗ 1 err, 1 restarts" in page
    assert "tenant b: 1 of 150 requests failed, first: timeout" in page
    assert "reads were away for 20.0 s" in page
    assert "in 5 s without work the platform wrote nothing for a" in page
    assert "3 keys of 3 tenants were read back" in page
    assert "Hypothesis, recorded before the fault: the target recovers and the others notice nothing" in page


def test_each_experiment_has_a_panel_for_each_api_with_the_fault_shaded() -> None:
    judged = harmed()
    for span in judged.history.spans:
        svg = panels.experiment(judged, span)
        assert len(elements(svg, "frame-target")) == 1
        assert len(elements(svg, "frame")) == 3
        assert len(elements(svg, "fault")) == len(elements(svg, "recovery")) == 4
        # The target has no bound of its own; its failed requests are crosses.
        assert len(elements(svg, "aim")) == 3
    frozen = panels.experiment(judged, judged.history.spans[1])
    assert len(elements(frozen, "error")) == 2
    assert len(elements(frozen, "restart")) == 1


def test_the_whole_run_has_a_row_for_each_api_and_a_column_for_each_experiment() -> None:
    svg = timeline.standalone(judge(good_run()))
    assert len(elements(svg, "band")) == 4
    assert len(elements(svg, "fault")) == 2
    assert [item.text for item in ET.fromstring(svg).iter() if item.get("font-weight")] == ["1", "2"]  # noqa: S314 -- drawn here
    assert "no answer for 20.0 s" in svg


def test_texts_of_a_run_cannot_become_markup() -> None:
    hostile = "<script>alert(1)</script>"
    records = [replace(item, text=hostile) if isinstance(item, Evidence) else item for item in good_run()]
    page = document.html(judge(records))
    assert hostile not in page
    assert "&lt;script&gt;" in page
    assert hostile not in drawing.text(0, 0, hostile)


def test_the_page_is_drawn_again_from_its_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged = results.write(good_run(), lambda _: None, tmp_path)
    written = (tmp_path / "chaos.html").read_text()
    assert written == document.html(judged)
    for name in ("chaos.json", "chaos.xml"):
        assert (tmp_path / name).stat().st_size
    again, whole = tmp_path / "again.html", tmp_path / "whole.svg"
    arguments = ["page", str(tmp_path / results.HISTORY.name), "-o", str(again), "--timeline", str(whole)]
    monkeypatch.setattr("sys.argv", arguments)
    assert main() == 0
    assert again.read_text() == written
    ET.fromstring(whole.read_text())  # noqa: S314 -- drawn here


def test_latencies_lie_on_a_logarithmic_scale_and_never_outside() -> None:
    heights = [drawing.height_of(seconds, 0, 100) for seconds in (0.0, 0.001, 0.01, 0.1, 1.0, 5.0, 60.0)]
    assert heights[:2] == [100, 100]
    assert heights[-2:] == [0, 0]
    assert heights == sorted(heights, reverse=True)
    assert heights[2] - heights[3] == pytest.approx(heights[3] - heights[4], abs=0.2)


def test_marks_that_would_lie_on_each_other_are_drawn_once() -> None:
    assert drawing.crosses([10.0, 10.5, 11.0, 20.0], 5).count("M") == 2
    assert drawing.triangles([], 5) == ""


def test_the_checked_in_example_is_small_and_whole() -> None:
    page = EXAMPLE.read_text()
    assert EXAMPLE.stat().st_size <= 300_000
    assert page.count("<section>") >= 3
    assert page.rstrip().endswith("</html>")
