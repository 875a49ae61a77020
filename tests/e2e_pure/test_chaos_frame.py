"""The pure parts of a chaos run's frame: order, tenants, counts of use, quiet, canaries."""

import base64
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from e2e.api import Api, UnreachableError
from e2e.chaos import __main__ as command
from e2e.chaos import canary, devices, load, population, quiet, runner, schedule, uses
from e2e.chaos.experiments import EXPERIMENTS, Experiment
from e2e.chaos.history import Quiet
from e2e.chaos.observer import LIST_EVERY, LONGEST_REST, OWN_PODS, rejections, rest
from e2e.chaos.page.__main__ import main as page_main
from e2e.chaos.quiet import Look
from e2e.chaos.sightings import LONGEST_GAP
from e2e.names import GPU
from e2e.tenants import Tenant

TENANT = Tenant("red", cast("Api", None))


def chosen(*arguments: str) -> Any:
    return command.parser().parse_args(arguments)


def plan(*arguments: str) -> runner.Plan:
    return command.plan_of(chosen(*arguments), "it", lambda _: None)


# Order


def test_a_run_has_every_experiment_once_in_the_order_of_its_seed() -> None:
    given = [turn.experiment.name for turn in plan().turns]
    shuffled = [turn.experiment.name for turn in plan("--seed", "3").turns]
    assert given == [item.name for item in EXPERIMENTS]
    assert sorted(shuffled) == sorted(given)
    assert shuffled != given
    assert shuffled == [turn.experiment.name for turn in plan("--seed", "3").turns]


def test_an_experiment_runs_by_name_also_twice() -> None:
    turns = list(plan("flood", "apiserver-killed", "flood").turns)
    assert [turn.experiment.name for turn in turns] == ["flood", "apiserver-killed", "flood#2"]
    assert {turn.member.name for turn in turns} == {"chaos-a"}


def test_a_mix_is_the_same_for_the_same_seed() -> None:
    def drawn(seed: str) -> list[tuple[str, str]]:
        made = plan("--mix", "20m", "--seed", seed)
        assert made.until == 1200
        return [(turn.experiment.name, turn.member.name) for turn in itertools.islice(made.turns, 40)]

    assert drawn("7") == drawn("7") != drawn("8")
    names = [name.partition("#")[0] for name, _ in drawn("7")]
    assert len({name for name, _ in drawn("7")}) == 40
    assert all(first != second for first, second in itertools.pairwise(names))
    assert len({member for _, member in drawn("7")}) > 3


def test_a_mix_of_one_experiment_repeats_it() -> None:
    turns = itertools.islice(plan("--mix", "1h", "--seed", "1", "flood").turns, 3)
    assert [turn.experiment.name for turn in turns] == ["flood", "flood#2", "flood#3"]


@pytest.mark.parametrize("text", ["", "1", "1d", "-1h", "0m", "25h", "1.5h", "1h30m"])
def test_a_time_that_is_not_one_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="MIX must be a time"):
        schedule.duration(text)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--tenants", "1"), "TENANTS must be from 2 to 40, not 1"),
        (("--tenants", "41"), "TENANTS must be from 2 to 40, not 41"),
        (("--mix", "soon"), "MIX must be a time"),
        (("no-such",), "no experiment is called no-such"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_begins(arguments: tuple[str, ...], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        plan(*arguments)


# Tenants


def test_a_whole_run_has_ten_tenants_of_every_kind_and_a_short_one_three() -> None:
    whole, short = plan().members, plan("--short").members
    kinds = [member.kind for member in whole]
    assert len(whole) == 10
    assert (kinds.count("slurm"), kinds.count("members")) == (2, 1)
    assert [member.name for member in short] == ["chaos-a", "chaos-b", "chaos-c"]
    assert whole[:3] == short
    assert len({member.name for member in population.members(population.MOST)}) == population.MOST


def test_tenants_are_made_as_their_kind_needs() -> None:
    specs = {member.name: population.manifest(member)["spec"] for member in population.members(10)}
    assert specs["chaos-ha"]["controlPlane"] == {"replicas": 3}
    assert specs["chaos-slurm-a"]["scheduling"]["mode"] == "Slurm"
    assert set(specs["chaos-a"]) == {"class", "quota"}
    standard = {"spec": {"description": "x", "controlPlane": {"replicas": 1}}}
    three = population.class_of_three(standard)
    assert (specs["chaos-ha"]["class"], three["metadata"]["name"]) == ("chaos-three", "chaos-three")
    assert three["spec"] == {"description": "x", "controlPlane": {"replicas": 1, "maxReplicas": 3}}


# Use


def pod(
    gpus: int = 1, *, node: str = "n", phase: str = "Running", uid: str = "u", space: str = "bh-red-work"
) -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": {GPU: str(gpus)}}}
    return {
        "metadata": {"name": f"pod-{uid}", "namespace": space, "uid": uid},
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": phase},
    }


def node(gpus: int) -> dict[str, Any]:
    return {"metadata": {"name": "n"}, "status": {"allocatable": {GPU: str(gpus)}}}


QUOTA = {"metadata": {"name": "tenant-quota", "namespace": "bh-red-work"}, "spec": {"hard": {f"requests.{GPU}": "2"}}}


def test_use_is_counted_for_nodes_tenants_and_devices() -> None:
    pods = [pod(2, uid="u"), pod(1, uid="v", phase="Succeeded"), pod(1, uid="w", node="")]
    lists = uses.Lists([node(8)], pods, [QUOTA], {"nvidia0": ["u", "v"], "nvidia1": ["gone"]}, {})
    found = {(use.scope, use.name): (use.limit, use.used, use.holders) for use in uses.counted(1.0, lists, ["red"])}
    assert found == {
        ("node", "n"): (8, 2, ""),
        ("tenant", "red"): (2, 3, ""),
        ("device", "nvidia0"): (1, 1, "bh-red-work/pod-u"),
        ("device", "nvidia1"): (1, 0, ""),
    }


def test_a_node_whose_device_plugin_restarts_has_the_gpus_that_it_had() -> None:
    [use] = uses.counted(1.0, uses.Lists([node(0)], [pod(2)], [], {}, {"n": 8}), [])
    assert (use.limit, use.used) == (8, 2)


def test_the_gpus_of_a_pod_are_what_the_scheduler_counts() -> None:
    def container(gpus: int, **more: str) -> dict[str, Any]:
        return {"resources": {"requests": {GPU: gpus}}, **more}

    both = {"spec": {"initContainers": [container(4)], "containers": [container(1), container(1)]}}
    sidecar = {"spec": {"initContainers": [container(1, restartPolicy="Always"), container(2)], "containers": [container(1)]}}
    assert uses.gpus(both) == 4
    assert uses.gpus(sidecar) == 3
    assert uses.gpus({"spec": {"containers": [{"name": "main"}]}}) == 0


def test_devices_are_read_from_what_processes_see(tmp_path: Path) -> None:
    uid = "11111111-2222-3333-4444-555555555555"
    other = "99999999-2222-3333-4444-555555555555"
    for number, (owner, names) in enumerate([(uid, ["nvidia0", "nvidiactl", "null"]), (other, ["nvidia1"])]):
        process = tmp_path / str(number + 10)
        (process / "root" / "dev").mkdir(parents=True)
        for name in names:
            (process / "root" / "dev" / name).touch()
        (process / "cgroup").write_text(f"0::/kubepods/pod{owner.replace('-', '_')}/abc\n")
    (tmp_path / "self").mkdir()
    (tmp_path / "99").mkdir()  # a process that ends meanwhile has no files
    assert devices.held({uid}, tmp_path) == {"nvidia0": {uid}}


def test_rejections_are_summed_by_flow_schema() -> None:
    metric = "apiserver_flowcontrol_rejected_requests_total"
    text = f'{metric}{{flow_schema="a",priority_level="x",reason="full"}} 2\n{metric}{{flow_schema="a",reason="time"}} 1\n'
    assert rejections(text + f"# HELP {metric}\n") == {"a": 3}
    assert rejections("") == {}


# Quiet


def managed(name: str, manager: str, time: str, uid: str = "u") -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": uid, "managedFields": [{"manager": manager, "time": time, "fieldsV1": {}}]}}


def looked(*objects: dict[str, Any], requests: dict[str, int] | None = None) -> Look:
    return Look(quiet.marks("host", "Pod", objects), requests or {})


def test_only_what_the_platform_writes_counts() -> None:
    before = looked(managed("a", "bulkhead-syncer", "1"), managed("b", "kubelet", "1"))
    assert quiet.changes(before, looked(managed("a", "bulkhead-syncer", "1"), managed("b", "kubelet", "2"))) == ()
    assert quiet.changes(before, looked(managed("a", "bulkhead-syncer", "2"))) == ("host Pod /a",)
    assert quiet.changes(before, looked(managed("a", "bulkhead-syncer", "1", uid="v"))) == ("host Pod /a",)
    assert quiet.changes(before, looked()) == ("host Pod /a (gone)",)
    assert quiet.changes(looked(), looked(managed("c", "bulkhead-controller", "1"))) == ("host Pod /c",)


METRICS = """
apiserver_request_total{code="200",component="apiserver",resource="pods",subresource="status",verb="PATCH"} 7
apiserver_request_total{code="409",component="apiserver",resource="pods",subresource="status",verb="PATCH"} 2
apiserver_request_total{code="200",component="apiserver",resource="leases",subresource="",verb="PUT"} 900
apiserver_request_total{code="200",component="apiserver",resource="pods",subresource="",verb="LIST"} 50
"""


def test_refused_and_empty_writes_show_in_the_planes_counters() -> None:
    assert quiet.requests(METRICS) == {"PATCH pods/status": 9}
    first, second = looked(requests={"PATCH pods/status": 9}), looked(requests={"PATCH pods/status": 12})
    assert quiet.changes(first, second) == ("3 x PATCH pods/status in the plane",)
    assert quiet.changes(second, first) == ()  # the API server began again


def window(looks: list[Look | Exception], monkeypatch: pytest.MonkeyPatch, within: float = 30.0) -> Quiet:
    """`wait` over these looks, one every two seconds; the last one stays."""
    now = [0.0]

    def look(*_: object, counts: bool) -> Look:
        assert counts
        current = looks.pop(0) if len(looks) > 1 else looks[0]
        if isinstance(current, Exception):
            raise current
        return current

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(quiet, "look", look)
    return quiet.wait(
        cast("Api", None), TENANT, "x", window=6, within=within, counts=True, note=lambda _: None,
        clock=lambda: now[0], sleep=sleep,
    )  # fmt: skip


def at(time: str) -> Look:
    return looked(managed("a", "bulkhead-syncer", time))


def test_a_tenant_is_quiet_once_a_whole_window_shows_no_write(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = window([at("1"), at("2"), at("3"), at("3")], monkeypatch)
    assert (seen.converged, seen.seconds, seen.writes) == (4.0, 6.0, ())


def test_a_hot_loop_is_never_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = window([at(str(number)) for number in range(99)], monkeypatch)
    assert seen.converged > 30
    assert seen.writes == ("host Pod /a",)


def test_a_tenant_that_cannot_be_looked_at_is_not_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = window([UnreachableError("no answer")], monkeypatch)
    assert seen.writes[0].startswith("not observed")
    # What was seen before and after a gap is not compared over the gap.
    seen = window([at("1"), UnreachableError("no answer"), at("1")], monkeypatch)
    assert (seen.converged, seen.writes) == (4.0, ())


# Canaries


@pytest.mark.parametrize("place", range(3))
def test_a_canary_is_found_as_it_is_and_in_base64_wherever_it_begins(place: int) -> None:
    canaries = {"red": "canary-0123456789abcdef", "blue": "canary-fedcba9876543210"}
    hidden = base64.b64encode(b"x" * place + canaries["red"].encode() + b" and more").decode()
    for text in (canaries["red"], hidden):
        assert canary.judged(1.0, ("host", "log", f"before {text} after", False), canaries).leaked == ("red",)
        assert canary.judged(1.0, ("blue", "log", f"before {text} after", False), canaries).leaked == ("red",)
        assert canary.judged(1.0, ("red", "log", f"before {text} after", False), canaries).leaked == ()
    assert canary.judged(1.0, ("host", "log", "nothing", False), canaries).leaked == ()


def test_the_search_has_a_control() -> None:
    good = canary.judged(1.0, ("red", "log", f"so {canary.control('red')}", True), {})
    assert (good.control, good.bytes) == (True, 23)
    assert canary.judged(1.0, ("red", "log", "empty", True), {}).control is False
    assert canary.judged(1.0, ("red", "log", "empty", False), {}).control is None


def test_a_file_that_is_not_a_history_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"type": "Nothing"}\n')
    monkeypatch.setattr("sys.argv", ["page", str(path)])
    with pytest.raises(SystemExit) as ended:
        page_main()
    assert ended.value.code == 2


@dataclass(frozen=True, slots=True)
class Needing(Experiment):
    """An experiment for one kind of tenant."""

    needs: Any = ""


def test_an_experiment_gets_the_kind_of_tenant_that_it_needs() -> None:
    fault, whole = EXPERIMENTS[0].fault, population.members(10)
    wanted = [Needing(needs or "any", "", fault, 60, needs=needs) for needs in ("", "slurm", "members", "nodes")]
    turns = schedule.ordered(wanted, whole, None)
    assert [turn.member.name for turn in turns] == ["chaos-a", "chaos-slurm-a", "chaos-ha", "chaos-a"]
    with pytest.raises(ValueError, match="no tenant of this run fits members, slurm; use more TENANTS"):
        schedule.ordered(wanted, whole[:3], None)
    drawn = itertools.islice(schedule.draws(wanted, whole[:3], 1), 20)
    assert {turn.experiment.name.partition("#")[0] for turn in drawn} == {"any", "nodes"}
    with pytest.raises(ValueError, match="no tenant of this run fits any of the experiments"):
        schedule.check(wanted[1:3], whole[:3])


def test_what_takes_long_is_looked_at_less_often_and_never_so_rarely_that_it_counts_as_blind() -> None:
    assert (rest(LIST_EVERY, 0.1), rest(LIST_EVERY, 0.8), rest(LIST_EVERY, 60.0)) == (5.0, 8.0, LONGEST_REST)
    assert LONGEST_REST < LONGEST_GAP / 1.4


def test_copies_of_tenants_pods_are_no_parts_of_the_platform() -> None:
    """Both carry `managed-by: bulkhead`, and of the copies there are hundreds: they were listed every second."""
    assert OWN_PODS == "app.kubernetes.io/managed-by=bulkhead,bulkhead.dev/managed-by!=syncer"


# Pods that stay


def test_a_pod_that_did_not_go_on_says_how_it_ended() -> None:
    restarts = 0

    class Plane:
        def get(self, _kind: str, name: str, _space: str) -> dict[str, Any]:
            ended = {"terminated": {"reason": "OOMKilled", "exitCode": 137}} if restarts else {}
            containers = [{"name": "main", "restartCount": restarts, "lastState": ended}]
            status = {"startTime": "2026-11-29T05:00:00Z", "containerStatuses": containers}
            return {"metadata": {"name": name, "uid": f"uid of {name}"}, "status": status}

    target = Tenant("red", cast("Api", Plane()))
    before = load.stayers(target)
    assert load.stopped(target, before) == ""
    restarts = 1
    found = load.stopped(target, before)
    assert all(name in found for name in load.STAYERS)
    assert "OOMKilled" in found
