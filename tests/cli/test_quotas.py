"""`bulkhead top`, `why`, `cohort` and `quota try` against a real API server, with the ledger itself at work beside them."""

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import termios
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bulkhead.api import labels, names
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from controller.dispatch.loop import Ledger
from tests.kit.background import background
from tests.kit.beside import beside
from tests.kit.commandline import Cli, Controller, finish, start_anew
from tests.kit.ledgerhost import GPU, LedgerHost, leads
from tests.kit.servers import ApiServer, running, with_pod_groups

pytestmark = [pytest.mark.apiserver, pytest.mark.commands]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A host of this file's own: what is shown is of all of it, also what tests of another file would have left there."""
    with running("quotas", tmp_path_factory.mktemp("quotas"), with_pod_groups("10.96.0.0/16")) as started:
        yield started


@pytest.fixture
def host_config(server: ApiServer) -> KubeConfig:
    """In place of the one of all files."""
    return server.admin


@dataclass(frozen=True, slots=True)
class Site:
    """Two tenants of one cohort on three nodes of two racks: one borrows, one has lent, two workloads wait."""

    cohort: str
    a: str
    b: str
    nodes: list[str]


async def bind(client: Client, space: str, name: str, node: str) -> None:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    await client.create_subresource(kinds.PODS, name, "binding", body, space)


@pytest.fixture(scope="module")
def site(server: ApiServer) -> Iterator[Site]:
    """Made once: what is shown of it changes nothing, and a test that changes something puts it back."""
    with beside(lambda: made_on(server)) as made:
        yield made


@contextlib.asynccontextmanager
async def made_on(server: ApiServer) -> AsyncIterator[Site]:
    async with (
        Client(server.admin, user_agent="tests", field_manager="tests") as client,
        LedgerHost.open(client) as host,
    ):
        cohort = await host.cohort("research", reclaim={"minRuntime": "168h", "within": "1m"})
        nodes = [await host.node(f"n{number}", 8, bulkhead__dev_rack=f"r{number // 2}") for number in range(3)]
        for number, node in enumerate(nodes):
            marks = {labels.RACK: f"rack-{number // 2}", labels.NVLINK_DOMAIN: f"nvl-{number}"}
            await client.patch(kinds.NODES, node, {"metadata": {"labels": marks}})
        a = await host.tenant("team-a", 16, cohort, ceiling=24)
        b = await host.tenant("team-b", 8, cohort, ceiling=24)
        for name in (a, b):
            spec = {"class": "standard", "quota": {"cohort": cohort, "resources": {GPU: {"nominal": 8}}}}
            await client.apply(kinds.TENANTS, {"metadata": {"name": name}, "spec": spec})
            host.tenants.append(name)
        async with background(Ledger(client, leads).run()):
            for number in range(5):
                await host.run(b, f"b-{number}", 4)
            for pod in await host.admitted(b, 5):
                meta = pod["metadata"]
                noted = json.loads(meta["annotations"]["ledger.bulkhead.dev/admitted"])
                await bind(client, meta["namespace"], meta["name"], noted["node"])
            await host.run(a, "big", 8)
            for number in range(2):
                await host.run(a, f"gang-{number}", 8, gang=("pair", 3))
            await host.told(a, "big", "CohortExhausted")
            await host.told(a, "gang-0", "GangIncomplete")
            yield Site(cohort, a, b, nodes)


async def test_a_host_without_cohorts_has_an_empty_answer(cli: Cli) -> None:
    """The first one here, before there is the site."""
    assert (await cli("cohort", "none")).code == 3
    assert (await cli("top")).code == 0


async def test_top_shows_who_borrows_and_a_map_of_the_nodes(site: Site, cli: Cli) -> None:
    done = await cli("top", COLUMNS="110", LINES="40")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].split() == ["cohort", f"{site.cohort}:", GPU, "NOMINAL", "USED", "BORROWED", "LENT", "WAITING"]
    assert [line.split() for line in lines[1:4]] == [
        [site.a, "16", "0", "0", "12", "24"],
        [site.b, "8", "20", "12", "0", "0"],
        ["all", "24", "20", "12", "12", "24"],
    ]
    assert f"{GPU}: 24 on 3 nodes, 0 whole (0 free), 1 partial (4 free), 2 full" in lines
    assert "rack-0 / nvl-1" in lines
    assert sum("BBBBBBBB" in line for line in lines) == 2
    assert sum("BBBB....  partial" in line for line in lines) == 1
    assert lines[-1] == f". free   B {site.b}"
    assert "\x1b" not in done.out
    nowhere = await cli("top", "--resource", "amd.com/gpu")
    assert (nowhere.code, GPU in nowhere.err) == (3, True)


async def on_terminal(*words: str, lines: int, **environment: str) -> str:
    """What the command writes to a terminal of so many lines."""
    reader, writer = os.openpty()
    termios.tcsetwinsize(writer, (lines, 100))
    plain = {key: value for key, value in os.environ.items() if key not in {"COLUMNS", "LINES", "NO_COLOR"}}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "workstation.cli.main", *words, stdout=writer, env=plain | {"TERM": "xterm"} | environment
    )
    os.close(writer)
    written = bytearray()
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def read() -> None:
        try:
            part = os.read(reader, 65536)
        except OSError:
            part = b""
        written.extend(part)
        if not part:
            loop.remove_reader(reader)
            ended.set()

    loop.add_reader(reader, read)
    async with asyncio.timeout(180):
        await ended.wait()
        assert await process.wait() == 0
    os.close(reader)
    return written.decode()


async def test_a_terminal_gets_colours_and_no_more_lines_than_it_has(site: Site, host_file: Path) -> None:
    where = {"KUBECONFIG": str(host_file)}
    shown = await on_terminal("top", lines=24, **where)
    assert re.search("\x1b\\[[0-9]+mB+\x1b\\[0m", shown)
    assert shown.count("\n") <= 24
    folded = await on_terminal("top", "--resource", GPU, lines=12, NO_COLOR="1", **where)
    assert "\x1b[" not in folded
    assert folded.count("\n") <= 12
    assert "rack-1 / nvl-2: BBBBBBBB" in folded


async def test_top_tells_programs_everything(site: Site, cli: Cli) -> None:
    said = json.loads((await cli("top", "-o", "json")).out)
    (cohort,) = (each for each in said["cohorts"] if each["name"] == site.cohort)
    assert cohort["lines"][0] | {"nominal": 24, "used": 20, "borrowed": 12, "lent": 12, "waiting": 24} == cohort["lines"][0]
    assert [(each["name"], each["waitingPods"]) for each in cohort["tenants"]] == [(site.a, 3), (site.b, 0)]
    states = {each["name"]: (each["state"], each["free"]) for each in said["nodes"] if each["name"] in site.nodes}
    assert sorted(states.values()) == [("full", 0), ("full", 0), ("partial", 4)]
    assert {each["nvlinkDomain"] for each in said["nodes"]} >= {"nvl-0", "nvl-1", "nvl-2"}


async def test_top_is_drawn_again_until_interrupted(site: Site, host_file: Path) -> None:
    process = await start_anew("top", "--watch", "--interval", "0.5", environment={"KUBECONFIG": str(host_file)})
    assert process.stdout is not None
    frames = 0
    async with asyncio.timeout(180):
        while frames < 2:
            frames += b"NOMINAL" in await process.stdout.readline()
    process.send_signal(signal.SIGINT)
    done = await finish(process)
    assert done.code == 130


async def test_why_says_what_a_pod_waits_for_with_numbers(site: Site, cli: Cli) -> None:
    done = await cli("why", site.a, "big")
    assert done.code == 0, done.err
    for text in (
        "CohortExhausted: requests 8 nvidia.com/gpu; 16 of your quota of 16 are free; 0 can be borrowed now",
        "forecast: it starts by ",
        f"{GPU}: requests 8; nominal 16, used 0, borrowed 0, lent 12, borrowable 0; at most 24 ever",
        "nodes: 3, 0 have room for it now; on nodes that it may use, 4 nvidia.com/gpu are free, at most 4 on one",
        "  3 nodes: too little nvidia.com/gpu free",
        "queue: place 1 of 1",
    ):
        assert text in done.out
    gang = (await cli("why", site.a, "gang-1")).out
    assert "GangIncomplete: its gang has 2 of 3 pods" in gang
    assert "gang pair: 2 of 3 pods exist" in gang
    assert "  missing: 1;" in gang
    assert "queue: it is not in the queue" in gang


async def test_why_says_where_a_pod_runs_and_when_it_may_be_taken_back(site: Site, cli: Cli) -> None:
    done = await cli("why", site.b, "b-4")
    assert f"pod default/b-4 of tenant {site.b} requests 4 nvidia.com/gpu\n  is on n" in done.out
    assert "  borrowed when it was admitted: 4 nvidia.com/gpu" in done.out
    assert "its tenant borrows: if another tenant needs that quota, pods of it end within 1 min, and not before " in done.out
    said = json.loads((await cli("why", site.b, "b-4", "-o", "json")).out)
    assert (said["state"], said["admitted"]["borrowed"], said["placement"], said["reclaim"]) == ("Bound", {GPU: 4}, None, None)
    assert said["quota"][0]["borrowed"] == 12
    waiting = json.loads((await cli("why", site.a, "big", "-o", "json")).out)
    assert (waiting["state"], waiting["reason"], waiting["queue"]["place"]) == ("Waiting", "CohortExhausted", 1)
    assert waiting["placement"]["nodesByReason"] == {"too little nvidia.com/gpu free": 3}
    assert waiting["startsBy"]


async def test_a_typing_error_gets_a_guess(site: Site, cli: Cli) -> None:
    for words, meant in (
        (("why", f"{site.a}x", "big"), site.a),
        (("cohort", site.cohort.replace("research", "reserch")), site.cohort),
    ):
        done = await cli(*words)
        assert (done.code, meant in done.err) == (3, True), done.err
    other = await cli("why", site.a, "big", "-n", "elsewhere")
    assert (other.code, "does not answer" in other.err, "did you mean big -n default?" in other.err) == (1, True, True)
    assert (await cli("why", "Not_a_name", "x")).code == 2


async def test_a_pod_that_never_reached_the_host_is_explained_by_its_tenants_own_api(
    cli: Cli, controller: Controller, host_client: Client, plane_client: Client, name: str
) -> None:
    await controller.tenant(name)
    await controller.plane(name, plane_client.config)
    spec = {"containers": [{"name": "c", "image": "x"}]}
    await plane_client.create(kinds.PODS, {"metadata": {"name": name}, "spec": spec}, "default")
    condition = {"type": "PodScheduled", "status": "False", "reason": "QuotaExceeded", "message": "asks 99\x1b[31m"}
    status = {"status": {"conditions": [condition]}}
    await plane_client.patch(kinds.PODS, name, status, "default", subresource="status")
    done = await cli("why", name, name)
    assert done.code == 0, done.err
    assert "has no host pod: it is not in the ledger's queue" in done.out
    assert "  its condition is QuotaExceeded: asks 99 [31m" in done.out
    said = json.loads((await cli("why", name, name, "-o", "json")).out)
    assert (said["state"], said["reason"]) == ("NotOnHost", "QuotaExceeded")
    wrong = await cli("why", name, name + "z")
    assert (wrong.code, f"did you mean {name} -n default?" in wrong.err) == (3, True), wrong.err
    await plane_client.patch(kinds.PODS, name, {"status": {"phase": "Succeeded"}}, "default", subresource="status")
    assert "has ended: Succeeded" in (await cli("why", name, name)).out
    await host_client.delete(kinds.TENANTS, name)


async def test_of_a_tenant_that_is_being_deleted_that_is_the_answer(
    site: Site, cli: Cli, host_client: Client, name: str
) -> None:
    spec = {"class": "standard"}
    await host_client.create(
        kinds.TENANTS,
        {
            "apiVersion": names.API_VERSION,
            "kind": "Tenant",
            "metadata": {"name": name, "finalizers": ["example.org/stays"]},
            "spec": spec,
        },
    )
    before = await cli("why", name, "web")
    assert (before.code, "is being deleted" in before.err) == (1, False)
    await host_client.delete(kinds.TENANTS, name)
    done = await cli("why", name, "web")
    assert (done.code, f"tenant {name} is being deleted, and its pod default/web has no host pod" in done.err) == (3, True), (
        done.err
    )
    await host_client.patch(kinds.TENANTS, name, {"metadata": {"finalizers": None}})


async def test_no_pod_of_a_tenant_that_is_being_deleted_waits(site: Site, cli: Cli, host_client: Client) -> None:
    """The ledger admits none of them, and its teardown removes them. `site` has the tenant again afterwards."""
    stays, goes = {"metadata": {"finalizers": ["example.org/stays"]}}, {"metadata": {"finalizers": None}}
    stored = await host_client.patch(kinds.TENANTS, site.a, stays)
    await host_client.delete(kinds.TENANTS, site.a)
    try:
        shown = json.loads((await cli("top", "-o", "json")).out)["cohorts"]
        (cohort,) = (group for group in shown if group["name"] == site.cohort)
        assert (cohort["lines"][0]["waiting"], cohort["lines"][0]["used"]) == (0, 20)
        done = await cli("why", site.a, "big")
        assert (done.code, "its pod default/big never starts: it had no node yet" in done.err) == (3, True), done.err
    finally:
        await host_client.patch(kinds.TENANTS, site.a, goes)
        await host_client.apply(kinds.TENANTS, {"metadata": {"name": site.a}, "spec": stored["spec"]})


async def test_a_cohort_shows_members_rules_and_its_queue_in_order(site: Site, cli: Cli) -> None:
    listed = await cli("cohort")
    assert [site.cohort, "2", GPU, "24", "20", "12", "24", "3"] in [line.split() for line in listed.out.splitlines()]
    done = await cli("cohort", site.cohort)
    assert done.code == 0, done.err
    assert [site.b, "1", GPU, "8", "all", "all", "20", "12", "0", "4", "0"] in [line.split() for line in done.out.splitlines()]
    assert "borrowed quota is reclaimed within 1 min, not before a pod ran 168 h" in done.out
    assert done.out.index("default/big") < done.out.index("default/gang pair")
    said = json.loads((await cli("cohort", site.cohort, "-o", "json")).out)
    assert [(each["place"], each["gang"], each["reason"]) for each in said["queue"]] == [
        (1, "", "CohortExhausted"), (None, "pair", "GangIncomplete")
    ]  # fmt: skip
    assert (said["rules"]["reclaimWithinSeconds"], said["hasObject"]) == (60, True)
    assert said["tenants"][0]["lines"][0]["borrowingLimit"] is None


async def test_a_changed_quota_is_tried_and_nothing_is_changed(site: Site, cli: Cli, host_client: Client) -> None:
    async def quotas() -> list[Any]:
        return [(await host_client.get(kinds.RESOURCE_QUOTAS, names.POD_QUOTA, names.work_namespace(each)))["spec"]
                for each in (site.a, site.b)]  # fmt: skip

    before = await quotas()
    done = await cli("quota", "try", site.a, f"{GPU}=0")
    assert done.code == 0, done.err
    assert f"if tenant {site.a} had {GPU} 16 -> 0 (nothing is changed):" in done.out
    assert f"{site.b} would hold 12 {GPU} more than it may, and would keep it until its pods end (overQuota: Keep)" in done.out
    assert [site.a, GPU, "after", "0", "8", "0", "0", "0"] in [line.split() for line in done.out.splitlines()]
    await host_client.patch(kinds.COHORTS, site.cohort, {"spec": {"overQuota": {"policy": "Reclaim", "grace": "2m"}}})
    said = json.loads((await cli("quota", "try", site.a, f"{GPU}=0", "-o", "json")).out)
    assert {(each["tenant"], each["cause"]) for each in said["losses"]} == {(site.b, "ReclaimedOverQuota")}
    assert sum(each["asks"][GPU] for each in said["losses"]) == 12
    more = json.loads((await cli("quota", "try", site.a, f"{GPU}=24", "-o", "json")).out)
    assert (more["losses"], more["kept"]) == ([], [])
    await host_client.patch(kinds.COHORTS, site.cohort, {"spec": {"overQuota": None}})
    assert await quotas() == before


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["nobody", f"{GPU}=1"], 3, "not found"),
        (["{a}", f"{GPU}=0.5"], 2, "must be a whole number"),
        (["{a}", "nvidia.com/gpus=1"], 2, f"did you mean {GPU}?"),
        (["{a}", "cpu=4"], 2, "the ledger keeps no quota of that"),
        (["{a}", f"{GPU}"], 2, "RESOURCE=QUANTITY must be a quota such as"),
        (["{a}", f"{GPU}=-1"], 2, "RESOURCE=QUANTITY must be a quota such as"),
        (["{a}"], 2, "required"),
    ],
)
async def test_a_trial_that_makes_no_sense_says_so(site: Site, cli: Cli, words: list[str], code: int, text: str) -> None:
    done = await cli("quota", "try", *(word.replace("{a}", site.a) for word in words))
    assert (done.code, text in done.err) == (code, True), done.err
