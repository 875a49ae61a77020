"""Tenants in Slurm mode, and commands that run on their login nodes as a user.

    manifest ──> create ──> Ready and SlurmReady ──> Cluster ──> run("sinfo") = kubectl exec into a login pod

Commands run the same way as `bulkhead slurm` runs them, without its checks, so that a test may run hundreds. Nothing is retried
here.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from e2e import commands, tenants, workloads
from e2e.api import Api, Obj
from e2e.commands import Outcome
from e2e.names import SLURM_NAMESPACE
from e2e.poll import Note, NotYetError, until
from e2e.slurm.login import inside
from e2e.tenants import Tenant
from e2e.workloads import is_ready

ALICE = "alice"  # a user who administers the cluster
BOB = "bob"  # a user who does not
READY_SECONDS = 240.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Slurm tenant that is Ready."""

    tenant: Tenant

    @property
    def name(self) -> str:
        return self.tenant.name

    @property
    def api(self) -> Api:
        return self.tenant.api

    def run(
        self, *words: str, user: str = ALICE, given: str | None = None, seconds: float = 60.0, check: bool = True
    ) -> Outcome:
        """A command on the login node, with the user's login environment."""
        arguments = ("-n", SLURM_NAMESPACE, "exec", "--quiet", "-i", "login-0", "-c", "login", "--", *inside(user, words))
        return commands.kubectl(self.tenant.kubeconfig, *arguments, seconds=seconds, check=check, given=given or "")

    def shell(self, script: str, *, user: str = ALICE, seconds: float = 60.0, check: bool = True) -> Outcome:
        """A line of shell on the login node."""
        return self.run("sh", "-c", script, user=user, seconds=seconds, check=check)

    def fetch(self, url: str, *headers: str) -> tuple[int, str]:
        """Status and body of an HTTP GET from the login node."""
        code = (
            "import sys, urllib.request as u, urllib.error as e\n"
            "r = u.Request(sys.argv[1], headers=dict(h.split(': ', 1) for h in sys.argv[2:]))\n"
            "try: a = u.urlopen(r, timeout=10)\n"
            "except e.HTTPError as x: a = x\n"
            "print(a.status); print(a.read().decode())"
        )
        status, _, body = self.run("python3", "-c", code, url, *headers).out.partition("\n")
        return int(status), body

    def inside(self, pod: str, script: str, *, seconds: float = 30.0, check: bool = True) -> Outcome:
        """A line of shell as root in any pod of the cluster."""
        words = ("-n", SLURM_NAMESPACE, "exec", "-i", pod, "--", "sh", "-c", script)
        return commands.kubectl(self.tenant.kubeconfig, *words, seconds=seconds, check=check, given="")

    def nodes(self) -> dict[str, str]:
        """The Slurm nodes and their states, as `sinfo` names them."""
        lines = self.run("sinfo", "-h", "-N", "-o", "%N %T").out.split("\n")
        return dict(line.split(" ", 1) for line in lines if " " in line)

    def show(self, kind: str, name: str) -> dict[str, str]:
        """The fields of `scontrol show` for one object; its values must not contain blanks."""
        return fields(self.run("scontrol", "-o", "show", kind, name).out)

    def pod(self, name: str) -> Obj:
        return self.api.get("Pod", name, SLURM_NAMESPACE)

    def workers(self) -> list[Obj]:
        return self.api.list("Pod", SLURM_NAMESPACE, labels="app.kubernetes.io/name=slurmd")

    def config(self, key: str) -> str:
        """The value that slurmctld uses for a key of slurm.conf."""
        for line in self.run("scontrol", "show", "config").out.splitlines():
            name, _, value = line.partition("=")
            if name.strip() == key:
                return value.strip()
        raise AssertionError(f"{self.name}: slurmctld knows no {key}")


def fields(text: str) -> dict[str, str]:
    """`Key=value Key=value` as a mapping; the first occurrence of a key counts."""
    found: dict[str, str] = {}
    for word in text.split():
        key, separator, value = word.partition("=")
        if separator:
            found.setdefault(key, value)
    return found


def node_set(name: str, **more: Any) -> Obj:
    """Workers for a small machine: they declare more to Slurm than they request from the host."""
    return {"name": name, "replicas": 1, "cpus": 2, "memory": "512Mi", "requests": {"cpu": "20m", "memory": "64Mi"}} | more


def slurm(
    *node_sets: Obj,
    users: Sequence[Obj] | None = None,
    accounting: bool = False,
    keys: Mapping[str, str] | None = None,
    **more: Any,
) -> Obj:
    """The `scheduling.slurm` of a tenant with two users."""
    people: list[Obj] = [{"name": ALICE, "uid": 10001, "admin": True}, {"name": BOB, "uid": 10002}]
    listed = people if users is None else list(users)
    for item in listed:
        if key := (keys or {}).get(item["name"]):
            item["sshKeys"] = [key]
    return {
        "nodeSets": list(node_sets) or [node_set("cpu")],
        "users": listed,
        "accounting": {"enabled": accounting},
        "homeStorage": {"size": "1Gi"},
    } | more


def spec(found: Obj, *, mode: str = "Slurm") -> Obj:
    """The part of a Tenant's spec that asks for Slurm."""
    return {"scheduling": {"mode": mode, "slurm": found}}


def create(
    host: Api,
    name: str,
    found: Obj,
    *,
    gpus: int = 8,
    mode: str = "Slurm",
    seconds: float = READY_SECONDS,
    note: Note | None = None,
) -> Cluster:
    """Create a tenant with Slurm, or give an existing one this spec, and wait until its users can work."""
    wanted = tenants.manifest(name, gpus=gpus, **spec(found, mode=mode))
    if host.find("Tenant", name) is None:
        host.create(wanted)
    else:
        host.patch("Tenant", name, {"spec": wanted["spec"]})
    return wait_ready(host, name, seconds=seconds, note=note)


def wait_ready(host: Api, name: str, *, seconds: float = READY_SECONDS, note: Note | None = None) -> Cluster:
    """Wait for the tenant, then for its Slurm."""
    tenants.wait_condition(host, name, "PlaneReady", status="True", seconds=seconds)
    cluster = Cluster(tenants.open_tenant(name))

    def probe() -> None:
        tenant = host.get("Tenant", name)
        ready = tenants.conditions(tenant).get("SlurmReady", {})
        observed = ready.get("observedGeneration") == tenant["metadata"]["generation"]
        if ready.get("status") != "True" or not observed:
            raise NotYetError(f"SlurmReady: {ready.get('reason')}: {ready.get('message')}; {pods(cluster)}")

    until(f"Slurm of {name} to be ready", probe, seconds=seconds, note=note)
    return cluster


def wait_nodes(cluster: Cluster, *names: str, state: str = "idle", seconds: float = 90.0) -> None:
    """Wait until these Slurm nodes are in a state."""
    if not names:
        raise ValueError("wait_nodes: no node is named, so none would be waited for")

    def probe() -> None:
        outcome = cluster.run("sinfo", "-h", "-N", "-o", "%N %T", check=False)
        seen = dict(line.split(" ", 1) for line in outcome.out.splitlines() if " " in line)
        workloads.expect(all(seen.get(name) == state for name in names), f"{seen or outcome.text}; {pods(cluster)}")

    until(f"{', '.join(names)} of {cluster.name} to be {state}", probe, seconds=seconds)


def pods(cluster: Cluster) -> str:
    """One line about the pods that are not ready."""
    listed = cluster.api.list("Pod", SLURM_NAMESPACE)
    waiting = [workloads.describe(item) for item in listed if not is_ready(item)]
    return f"{len(listed)} pods; " + ("; ".join(waiting)[:600] or "all ready")


def quoted(words: Sequence[str]) -> str:
    """Words as one line of shell."""
    return shlex.join(words)
