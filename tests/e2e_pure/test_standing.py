"""What measures and what computes has a standing of its own beside the host, in every kind of control group."""

import os
from pathlib import Path

import pytest

from e2e.machine import Standing, stand
from workstation.hostcluster import cgroups


def test_a_prober_weighs_more_than_the_host_and_a_load_less_than_the_pods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kubelet gives the group of all pods 1024 shares a core."""
    old, new, none = tmp_path / "cpu", tmp_path / "unified", tmp_path / "pids"
    for top, knob in ((old, "cpu.shares"), (new, "cpu.weight"), (none, "")):
        (top / "bulkhead" / "system").mkdir(parents=True)
        if knob:
            (top / "bulkhead" / knob).write_text("1")
            (top / "bulkhead" / "system" / knob).write_text("1")
    monkeypatch.setattr(cgroups, "hierarchies", lambda: [old, new, none])
    cgroups.create()
    for standing in Standing:
        stand(standing)
    for top, knob, pods in ((old, "cpu.shares", 1024), (new, "cpu.weight", 39)):
        group = top / "bulkhead"
        assert int((group / "probes" / knob).read_text()) > int((group / "system" / knob).read_text()) > pods
        assert int((group / "load" / knob).read_text()) < pods
        assert (group / "load" / "cgroup.procs").read_text() == str(os.getpid())
    assert not (none / "bulkhead" / "probes").exists()
