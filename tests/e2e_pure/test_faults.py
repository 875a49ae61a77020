"""The pure parts of faults: the rules and commands that they use, what they read as proof, and how they are put back."""

import base64
import http.client
import json
import os
import signal
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from e2e import machine, workloads
from e2e.api import Obj
from e2e.chaos.faults import (
    clocks,
    crashes,
    crowds,
    disks,
    execs,
    keys,
    packets,
    parts,
    platform,
    stores,
    syncers,
    traces,
    webhooks,
)
from e2e.chaos.faults.fault import LiftError, Undo
from e2e.machine import Process
from e2e.poll import NotYetError, until


def test_what_was_changed_is_put_back_newest_first_and_once() -> None:
    done: list[str] = []
    undo = Undo()
    undo.later("first", lambda: done.append("first"))
    undo.later("second", lambda: done.append("second"))
    undo.everything()
    undo.everything()
    assert done == ["second", "first"]


def test_a_step_that_fails_keeps_no_other_from_being_done_and_is_named() -> None:
    done: list[str] = []
    undo = Undo()
    undo.later("the qdisc", lambda: done.append("qdisc"))

    def fails_once() -> None:
        done.append("table")
        if done.count("table") == 1:
            raise OSError("no such table")

    undo.later("the table", fails_once)
    with pytest.raises(LiftError, match="the table: OSError: no such table"):
        undo.everything()
    assert done == ["table", "qdisc"]
    # It is left for another try, and the others are not.
    undo.everything()
    undo.everything()
    assert done == ["table", "qdisc", "table"]


def test_drops_are_on_every_way_of_a_packet_and_are_counted() -> None:
    text = packets.drops(packets.between("10.0.0.1", "10.0.0.2"))
    for hook in ("forward", "output", "input"):
        assert f"type filter hook {hook} priority -50" in text
    assert text.count("ip saddr 10.0.0.1 ip daddr 10.0.0.2 counter drop") == 3
    assert text.count("ip saddr 10.0.0.2 ip daddr 10.0.0.1 counter drop") == 3
    assert "numgen" not in text


MIB = 1 << 20


@pytest.mark.parametrize(
    ("wrote", "read", "held"),
    [
        (900, [24, 24, 24, 23], [True, True, True]),
        (900, [145, 145, 145, 145], [True, True, False]),  # nothing bounds the readers
        (900, [30, 0, 30, 30], [True, False, True]),  # one got nothing
        (900, [], [True, False, True]),
        (5, [1, 1, 1, 1], [False, True, True]),  # nothing was written that could flood
    ],
)
def test_a_flood_of_logs_is_proven_by_what_was_written_and_bounded_by_what_was_read(
    wrote: int, read: list[int], held: list[bool]
) -> None:
    proofs = crowds.flooded(wrote * MIB, [one * MIB for one in read], processes=2, seconds=20)
    assert [proven for proven, _ in proofs] == held
    assert proofs[2][1] == "its syncer lets 96 MiB pass in that time"


@pytest.mark.parametrize(
    ("ran", "waited", "proven"),
    [
        (19.5, 0.2, True),  # all of one core
        (9.2, 14.0, True),  # 46 % of one, on cores that others want too: it was never at rest
        (9.2, 3.0, False),  # as much, and at rest for a third of the time
        (1.0, 30.0, False),  # it waited and computed next to nothing
        (0.0, 0.0, False),
    ],
)
def test_a_server_is_busy_if_it_has_a_core_or_waits_for_one_all_the_time(ran: float, waited: float, proven: bool) -> None:
    found, text = platform.busy(machine.Wanted(ran, waited), 20.0, answered=192)
    assert found is proven
    assert "it answered 192 requests" in text


def test_the_kernel_says_what_a_process_had_of_the_cores_and_waited_for() -> None:
    with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as busy, subprocess.Popen(["sleep", "600"]) as idle:
        try:
            before = {process: machine.wanted(process.pid) for process in (busy, idle)}
            spent: dict[subprocess.Popen[bytes], machine.Wanted] = {}

            def computed() -> None:
                spent.update({process: machine.wanted(process.pid).since(before[process]) for process in before})
                if spent[busy].ran < 0.05:
                    raise NotYetError("the shell has not computed yet")

            until("the shell to compute", computed, seconds=60)
            assert spent[idle].ran + spent[idle].waited < 0.05
        finally:
            busy.kill()
            idle.kill()
    with pytest.raises(ProcessLookupError):
        machine.wanted(busy.pid)


def test_loss_drops_at_random() -> None:
    assert "ip saddr 10.0.0.1 numgen random mod 100 < 20 counter drop" in packets.drops(("ip saddr 10.0.0.1",), percent=20)


def test_the_packets_of_all_counters_are_added_up() -> None:
    rules = [
        {"rule": {"expr": [{"match": {}}, {"counter": {"packets": number, "bytes": 7}}, {"drop": None}]}} for number in (3, 4)
    ]
    assert packets.counted(json.dumps({"nftables": [{"metainfo": {}}, {"table": {}}, *rules]})) == 7
    assert packets.counted(json.dumps({"nftables": []})) == 0


def test_a_detour_leaves_the_connections_of_the_proxy_alone() -> None:
    text = packets.detour("10.112.0.1", 443, 15443, 4919)
    assert text.count("ip daddr 10.112.0.1 tcp dport 443 meta mark != 4919 counter") == 2
    assert "redirect to :15443" in text
    assert "reject with tcp reset" in text


def test_strace_ends_with_the_process_that_started_it() -> None:
    words = disks.strace(Process(42, "etcd", 1), "fsync,fdatasync", "delay_exit=500000", Path("log"))
    assert words[:4] == ("setpriv", "--pdeathsig", "TERM", "--")
    assert "inject=fsync,fdatasync:delay_exit=500000" in words
    assert words[words.index("-p") + 1] == "42"


def test_a_full_disk_refuses_the_files_of_a_program_and_not_its_network(tmp_path: Path) -> None:
    folder = tmp_path / "member"
    folder.mkdir()
    with (folder / "db").open("w"), (tmp_path / "other").open("w"), (folder / "0.wal").open("w"):
        found = disks.open_files(Process(os.getpid(), "python", 1), "/member/")
    assert found == [str(folder / "0.wal"), str(folder / "db")]
    words = disks.strace(Process(42, "etcd", 1), "write", "error=ENOSPC", Path("log"), found)
    assert words.count("-P") == 2
    assert set(found) < set(words)


@pytest.mark.parametrize("stat", ["cache 50331648\nrss 17965056\nmapped_file 4247552\n", "anon 17965056\nfile 50331648\n"])
def test_memory_that_a_group_cannot_give_back_leaves_out_mapped_files(stat: str) -> None:
    assert crashes.anonymous_bytes(stat) == 17965056


def test_a_refused_exec_is_told_by_the_message_of_its_last_channel() -> None:
    status = json.dumps({"status": "Failure", "code": 429, "message": "too many sessions (429): 64"}).encode()
    long = b"\x01" + b"o" * 70_000
    data = bytearray(b"\x82\x02\x01o" + b"\x82\x7f" + len(long).to_bytes(8) + long)
    told = b"\x03" + status
    data += b"\x88\x02\x03\xe8" + b"\x82\x7e" + len(told).to_bytes(2) + told + b"\x88\x02\x03"
    assert list(execs.messages(data)) == [b"\x01o", long, told]
    assert bytes(data) == b"\x88\x02\x03", "the frame that is not whole yet stays"
    session = execs.Session(http.client.HTTPSConnection("127.0.0.1"), 101)
    session._data += b"\x82\x7e" + len(told).to_bytes(2) + told
    session.look(0)
    assert (session.code, session.ended) == (429, "too many sessions (429): 64")


def test_a_log_of_strace_says_what_was_injected() -> None:
    log = (
        "12 fdatasync(7) = 0 (DELAYED) <0.501200>\n"
        "13 fsync(8) = 0 (DELAYED) <0.700100>\n"
        "12 fdatasync(7) = -1 EIO (Input/output error) (INJECTED) <0.000100>\n"
    )
    assert disks.injected(log) == (2, 1, 0.7001)
    assert disks.injected("") == (0, 0, 0.0)


def test_the_programs_own_time_is_compared_with_the_kubelets() -> None:
    log = (
        '2026-11-26T12:00:00.123456789Z {"time":"2026-11-26T12:00:00.1Z","message":"before"}\n'
        '2026-11-26T12:00:10.123456789Z {"time":"2026-11-26T11:00:10.1Z","message":"after"}\n'
    )
    assert clocks.last_offset(log) == -3600
    assert clocks.last_offset("no times at all\n") == 0


def test_the_policy_of_the_clock_changes_pods_of_one_namespace_only() -> None:
    made, binding = clocks.policy("bh-a", {"bulkhead.dev/component": "syncer"})
    match = made["spec"]["matchConstraints"]
    assert match["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "bh-a"}}
    assert match["objectSelector"] == {"matchLabels": {"bulkhead.dev/component": "syncer"}}
    assert "LD_PRELOAD" in made["spec"]["mutations"][0]["applyConfiguration"]["expression"]
    assert binding["spec"]["policyName"] == made["metadata"]["name"]


def test_the_webhooks_server_is_a_program_and_half_a_line_of_its_log_is_no_answer() -> None:
    """Two of its threads wrote into one line, and the experiment failed by that."""
    compile(webhooks.SERVER, "server", "exec")
    assert webhooks.answered("answered answered 1843 1843\n\nanswered 77\nanswered\n") == [77]


def test_an_expired_certificate_keeps_its_names_and_its_authority() -> None:
    old, _ = webhooks.self_signed("plane.example")
    authority, authority_key = webhooks.self_signed("authority")
    certificate, key = keys.expired(old, authority, authority_key)
    made, issuer = x509.load_pem_x509_certificate(certificate), x509.load_pem_x509_certificate(authority)
    assert made.not_valid_after_utc < datetime.now(UTC) < x509.load_pem_x509_certificate(old).not_valid_after_utc
    assert made.not_valid_after_utc > datetime.now(UTC) - timedelta(minutes=5)
    made.verify_directly_issued_by(issuer)
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["plane.example"]
    loaded = serialization.load_pem_private_key(key, None)
    assert isinstance(loaded, ec.EllipticCurvePrivateKey)
    assert loaded.public_key() == made.public_key()


def test_a_secret_is_created_again_without_what_the_api_server_gave_it() -> None:
    metadata = {"name": "pki", "namespace": "bh-a", "labels": {"a": "b"}, "uid": "1", "resourceVersion": "7"}
    secret: Obj = {"metadata": metadata, "data": {"key": base64.b64encode(b"x").decode()}, "type": "Opaque"}
    made = keys.anew(secret)
    assert made["metadata"] == {"name": "pki", "namespace": "bh-a", "labels": {"a": "b"}}
    assert made["kind"] == "Secret"
    assert made["data"] == secret["data"]


def test_authorities_are_put_back_before_the_key_that_the_controller_waits_for() -> None:
    names = ("pki-apiserver", "pki-ca-etcd", "pki-service-account", "pki-ca-client", "pki-syncer")
    ordered = [item["metadata"]["name"] for item in keys.in_order([{"metadata": {"name": name}} for name in names])]
    assert ordered == ["pki-ca-client", "pki-ca-etcd", "pki-service-account", "pki-apiserver", "pki-syncer"]


def _files(folder: Path) -> Path:
    for part, name, text in (
        ("snap", "db", b"d" * 40960),
        ("wal", "0-0.wal", b"w" * 4096 + bytes(4096)),
        ("wal", "1-1.wal", b""),
    ):
        path = folder / "member" / part / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    (folder / "member" / "wal" / "1-1.wal").write_bytes(b"n" * 8192 + bytes(8192))
    return folder


@pytest.mark.parametrize("damage", ["database overwritten", "log truncated", "log overwritten"])
def test_a_damage_changes_one_file_and_leaves_the_others(tmp_path: Path, damage: str) -> None:
    data = _files(tmp_path / "data")
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    text = stores.DAMAGES[damage](data)
    changed = [path.name for path, content in before.items() if path.read_bytes() != content]
    assert changed == (["db"] if damage == "database overwritten" else ["1-1.wal"])
    assert text


def test_a_database_keeps_its_size_and_its_first_pages(tmp_path: Path) -> None:
    data = _files(tmp_path / "data")
    stores.DAMAGES["database overwritten"](data)
    content = (data / "member" / "snap" / "db").read_bytes()
    assert len(content) == 40960
    assert content[:8192] == b"d" * 8192


def test_the_copy_of_a_pod_belongs_to_no_replica_set() -> None:
    container = {"name": "syncer", "volumeMounts": [{"name": "pki"}, {"name": "kube-api-access-x"}]}
    spec = {
        "nodeName": "n",
        "priority": 7,
        "volumes": [{"name": "pki"}, {"name": "kube-api-access-x"}],
        "containers": [container],
    }
    labels = {"bulkhead.dev/component": "syncer", "pod-template-hash": "abc"}
    owned = {"name": "syncer-1", "namespace": "bh-a", "labels": labels, "ownerReferences": [{"uid": "1"}]}
    made = syncers.copy_of({"metadata": owned, "spec": spec}, "syncer2")
    assert made["metadata"] == {"name": "syncer2", "namespace": "bh-a", "labels": {"bulkhead.dev/component": "syncer"}}
    assert made["spec"]["volumes"] == [{"name": "pki"}]
    assert made["spec"]["containers"][0]["volumeMounts"] == [{"name": "pki"}]
    assert "nodeName" not in made["spec"]


def test_nothing_is_traced_that_nobody_traces() -> None:
    assert not traces.traced_by(Process(os.getpid(), "python", 0))
    assert not traces.traced_by(Process(2**22 + 1, "gone", 0))


def test_a_stopped_process_of_the_host_is_a_trace_that_can_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        try:
            process = machine.process_at(sleeper.pid)
            assert process is not None
            monkeypatch.setattr(machine, "processes_of_host", lambda: [process])
            monkeypatch.setattr(packets, "present", lambda: False)
            monkeypatch.setattr(packets, "limited", list)
            assert not [trace for trace in traces.left() if str(sleeper.pid) in trace.text]
            process.send(signal.SIGSTOP)
            until("it to stop", lambda: workloads.expect(process.state == "T", process.state), seconds=5)
            (trace,) = [trace for trace in traces.left() if str(sleeper.pid) in trace.text]
            assert trace.remove is not None
            trace.remove()
            until("it to go on", lambda: workloads.expect(process.state == "S", process.state), seconds=5)
        finally:
            sleeper.kill()


def test_a_killed_process_is_gone_and_one_that_stays_is_no_proof() -> None:
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        process = machine.process_at(sleeper.pid)
        assert process is not None
        assert not machine.gone([process], seconds=0.1)
        proven, text = machine.kill([process], "the sleeper")
        assert proven
        assert str(process.pid) in text
    assert machine.kill([], "the sleeper") == (False, "the sleeper: no process found to kill")


def test_frozen_processes_stand_still_until_the_block_ends_and_then_run() -> None:
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        try:
            process = machine.process_at(sleeper.pid)
            assert process is not None
            with parts.frozen(lambda: [process], "the sleeper", interval=0.02) as seen:
                until("samples", lambda: workloads.expect(seen.samples >= 5, f"{seen.samples}"), seconds=10)
                assert process.state == "T"
            proven, text = seen.proof(0.5)
            assert proven
            assert str(process.pid) in text
            until("it to go on", lambda: workloads.expect(process.state == "S", process.state), seconds=5)
        finally:
            sleeper.kill()


def test_processes_that_run_are_no_proof_of_a_freeze() -> None:
    proven, _ = parts.Frozen("etcd", samples=10, still=5).proof()
    assert not proven
    assert not parts.Frozen("etcd").proof()[0]
