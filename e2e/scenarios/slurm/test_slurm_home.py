"""The home directory that all nodes share, and access by ssh."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e import commands, workloads
from e2e.names import SLURM_NAMESPACE
from e2e.poll import until
from e2e.slurm import jobs
from e2e.slurm.clusters import BOB, Cluster
from e2e.workloads import is_ready

PORT = 22022


def test_every_node_shares_the_home(quiet: Cluster) -> None:
    mark = str(time.time_ns())
    quiet.shell(f"echo {mark} > shared")
    seen = quiet.run("srun", "-N", "2", "cat", "shared").out.split()
    assert seen == [mark, mark]
    quiet.run("srun", "-p", "gpu", "sh", "-c", "echo from-gpu-node >> shared")
    assert quiet.shell("tail -n 1 shared").out.strip() == "from-gpu-node"


def test_homes_are_private(red: Cluster) -> None:
    red.shell("echo secret > mine; chmod 600 mine")
    assert red.shell("cat ~alice/mine").out == "secret\n"
    other = red.shell("cat ~alice/mine", user=BOB, check=False)
    assert other.code != 0
    assert "Permission denied" in other.err, other.text


def test_no_user_takes_the_place_of_anothers_home(quiet: Cluster) -> None:
    """The volume is created writable for all users; on login nodes and workers alike it belongs to root from the start."""
    for pod in ("login-0", "cpu-0"):
        assert quiet.inside(pod, "stat -c '%a %u' /home").out.strip() == "755 0", pod
    tries = "mv /home/alice /home/taken; mkdir /home/carol; ln -s /etc /home/dave; ls /home"
    for seen in (quiet.shell(tries, user=BOB), quiet.run("srun", "sh", "-c", tries, user=BOB)):
        assert {"alice", "bob"} <= set(seen.out.split())
        assert not {"taken", "carol", "dave"} & set(seen.out.split())
    quiet.shell("touch ~/mine && rm ~/mine", user=BOB)


def test_the_home_survives_its_pods(quiet: Cluster) -> None:
    mark = str(time.time_ns())
    quiet.shell(f"echo {mark} > kept")
    replace_login(quiet)
    assert quiet.shell("cat kept").out.strip() == mark


def test_ssh_with_the_key_from_the_tenant(red: Cluster, ssh_key: Path) -> None:
    with forwarded(red):
        assert ssh(ssh_key, "alice", "whoami && squeue -h && srun hostname").out.split()[0] == "alice"
        number = ssh(ssh_key, "alice", "sbatch --parsable --wrap 'true'").out.strip()
        jobs.wait(red, int(number))
        denied = ssh(ssh_key, BOB, "true", check=False)
        assert (denied.code, "Permission denied" in denied.err) == (255, True), f"alice's key is not bob's: {denied.text}"
        assert ssh(ssh_key, "root", "id -u").out.strip() == "0", "an administrator is root on login nodes"
        keyless = ssh(Path("/dev/null"), "alice", "true", check=False)
        assert (keyless.code, "Permission denied" in keyless.err) == (255, True), keyless.text


def test_the_host_key_of_the_login_node_stays(red: Cluster) -> None:
    before = offered_key(red)
    replace_login(red)
    assert offered_key(red) == before


def replace_login(cluster: Cluster) -> None:
    """Delete the login pod and wait for its successor."""
    before = cluster.pod("login-0")["metadata"]["uid"]
    cluster.api.delete("Pod", "login-0", SLURM_NAMESPACE)

    def renewed() -> None:
        pod = cluster.pod("login-0")
        workloads.expect(pod["metadata"]["uid"] != before and is_ready(pod), workloads.describe(pod))

    until("a new login pod", renewed, seconds=120)


def offered_key(cluster: Cluster) -> str:
    """The host key that sshd shows to its clients."""
    with forwarded(cluster):
        scan = ["ssh-keyscan", "-T", "10", "-t", "ed25519", "-p", str(PORT), "127.0.0.1"]
        lines = [line for line in commands.run(scan, seconds=30).out.splitlines() if "ssh-ed25519" in line]
    assert len(lines) == 1, lines
    return lines[0]


@contextmanager
def forwarded(cluster: Cluster) -> Iterator[None]:
    """Port 22 of the login Service on a port of this machine, through the tenant's API."""
    command = [commands.tool("kubernetes", "kubectl"), f"--kubeconfig={cluster.tenant.kubeconfig}", "-n", SLURM_NAMESPACE]
    command += ["port-forward", "service/login", f"{PORT}:22"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert "Forwarding from" in line, line
            yield
        finally:
            process.terminate()
            process.wait(timeout=10)


def ssh(key: Path, user: str, line: str, *, check: bool = True) -> commands.Outcome:
    options = ["BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "IdentitiesOnly=yes"]
    options += ["LogLevel=ERROR", "ConnectTimeout=10"]
    flags = [word for option in options for word in ("-o", option)]
    return commands.run(["ssh", *flags, "-i", str(key), "-p", str(PORT), f"{user}@127.0.0.1", line], seconds=60, check=check)
