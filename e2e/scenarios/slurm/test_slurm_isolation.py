"""Two Slurm tenants are isolated: keys, tokens and ports. Every refusal has a positive control."""

import base64

from e2e import workloads
from e2e.api import Api
from e2e.commands import Outcome, kubectl
from e2e.names import SLURM_NAMESPACE
from e2e.slurm import rest
from e2e.slurm.clusters import BOB, Cluster
from e2e.tenants import Tenant

TIMED_OUT = 124  # the exit code of `timeout` for a command that it ended
PORTS = {"slurmctld-0": 6817, "slurmrestd": 6820, "login-0": 22, "gpu-0": 6818}


def address(cluster: Cluster, prefix: str) -> str:
    pods = [pod for pod in cluster.api.list("Pod", SLURM_NAMESPACE) if pod["metadata"]["name"].startswith(prefix)]
    return str(pods[0]["status"]["podIP"])


def opens(cluster: Cluster, host: str, port: int) -> bool:
    """Whether a port is open. The host's policies drop what they do not allow; any other failure has another cause."""
    outcome = cluster.shell(f"timeout 3 bash -c 'exec 3<>/dev/tcp/{host}/{port}'", check=False)
    assert outcome.code in {0, TIMED_OUT}, f"{host}:{port}: exit code {outcome.code}: {outcome.text}"
    return outcome.code == 0


def test_no_port_of_one_tenant_is_reached_from_another(red: Cluster, blue: Cluster) -> None:
    for prefix, port in PORTS.items():
        found = address(blue, prefix)
        assert opens(blue, found, port), f"blue itself does not reach {prefix}:{port}"
        assert opens(red, address(red, prefix), port), f"red does not reach its own {prefix}:{port}"
        assert not opens(red, found, port), f"red reaches blue's {prefix}:{port}"
    for name in ("slurmctld", "slurmrestd", "login"):
        service = blue.api.get("Service", name, SLURM_NAMESPACE)["spec"]["clusterIP"]
        if service != "None":
            port = PORTS.get(name, PORTS.get(f"{name}-0", 0))
            assert opens(blue, service, port), f"blue itself does not reach Service {name}"
            assert not opens(red, service, port), f"red reaches blue's Service {name}"


def test_a_kubernetes_tenant_does_not_reach_slurm(red: Cluster, green: Tenant) -> None:
    def probe(where: str) -> Outcome:
        return kubectl(green.kubeconfig, "exec", "train", "--", "sh", "-c", f"nc -w 2 {where} </dev/null", check=False)

    found = address(red, "slurmctld-0")
    assert opens(red, found, 6817)
    own = probe("$KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT")
    assert own.code == 0, f"green does not reach its own API: {own.text}"
    other = probe(f"{found} 6817")
    assert other.code != 0
    assert "nc: timed out" in other.text, other.text


def test_keys_of_one_tenant_are_not_those_of_another(host: Api, red: Cluster, blue: Cluster) -> None:
    kept = [cluster.api.get("Secret", "slurm-keys", SLURM_NAMESPACE)["data"] for cluster in (red, blue)]
    assert set(kept[0]) == set(kept[1])
    for name in kept[0]:
        assert kept[0][name] != kept[1][name], name
    everywhere = [
        item["metadata"]["namespace"]
        for item in host.list("Secret")
        if set(kept[0].values()) & set((item.get("data") or {}).values())
    ]
    assert red.tenant.work in everywhere, "its own pods have them from there"
    assert set(everywhere) <= {red.tenant.plane, red.tenant.work}


def test_a_client_with_the_keys_of_another_tenant_is_refused(red: Cluster, blue: Cluster) -> None:
    """A pod in red's cluster that vouches for its users with a key: the daemons refuse even without the network policy."""
    pod = red.pod("login-0")["spec"]["containers"][0]
    spec = workloads.pod_spec(("sleep", "3600"))
    spec["containers"][0] |= {"image": pod["image"], "imagePullPolicy": "IfNotPresent"}
    spec["containers"][0]["resources"]["limits"]["memory"] = "256Mi"
    red.api.create(workloads.pod("vouching", spec, namespace=SLURM_NAMESPACE))
    workloads.wait_running(red.api, "vouching", namespace=SLURM_NAMESPACE)
    conf = red.inside("login-0", "tar -c -C /run/slurm/conf . | base64 -w 0").out
    try:
        answers = [
            ping(red, conf, item.api.get("Secret", "slurm-keys", SLURM_NAMESPACE)["data"]["slurm.jwks"]) for item in (red, blue)
        ]
    finally:
        red.api.delete("Pod", "vouching", SLURM_NAMESPACE, grace=0)
    own, other = answers
    assert "is UP" in own.out, f"the positive control: {own.text}"
    assert "is DOWN" in other.out, other.text
    assert "is UP" not in other.out, other.text


def ping(cluster: Cluster, conf: str, jwks: str) -> Outcome:
    """The answer of slurmctld to a client whose sackd has these keys."""
    script = f"""
        d=$(mktemp -d /run/vouch-XXXXXX); mkdir $d/conf; echo {conf} | base64 -d | tar -x -C $d/conf
        (umask 077; echo {jwks} | base64 -d > $d/slurm.jwks)
        export SLURM_CONF=$d/conf/slurm.conf SLURM_SACK_JWKS=$d/slurm.jwks
        rm -rf /run/slurm; /usr/sbin/sackd -D -f $d/conf/slurm.conf 2> $d/log & vouching=$!
        for _ in $(seq 100); do [ -S /run/slurm/sack.socket ] && break; sleep 0.1; done
        timeout 20 scontrol ping; cat $d/log >&2; kill -KILL $vouching; rm -rf $d /run/slurm
    """
    return cluster.inside("vouching", script, check=False, seconds=60)


def test_a_token_of_one_tenant_opens_no_other(red: Cluster, blue: Cluster) -> None:
    for own, other in ((red, blue), (blue, red)):
        token = rest.token(own, "alice")
        assert rest.slurm(own, "/jobs/", token).status == 200
        assert rest.slurm(other, "/jobs/", token).status in rest.REFUSED


def test_what_users_can_read_holds_no_key(red: Cluster) -> None:
    values = [base64.b64decode(value) for value in red.api.get("Secret", "slurm-keys", SLURM_NAMESPACE)["data"].values()]
    assert values
    # The positive control: as root the same commands show them.
    words = "ls -l /run/keys/ /etc/slurm-keys-mount/; cat /run/keys/* /etc/slurm-keys-mount/*"
    shown = red.inside("login-0", words).out
    assert any(value.decode("utf-8", "replace").strip() in shown for value in values)
    listed = red.shell(words, check=False)
    assert listed.code != 0
    assert "Permission denied" in listed.err, listed.text
    for value in values:
        assert value.decode("utf-8", "replace").strip() not in listed.out


def test_only_daemons_that_verify_tokens_have_their_key(red: Cluster) -> None:
    for pod, there in (("slurmctld-0", True), ("slurmdbd-0", True), ("login-0", False), ("cpu-0", False), ("gpu-0", False)):
        listed = red.inside(pod, "ls /etc/slurm-keys-mount /run/keys").out.split()
        assert listed.count("slurm.jwks") == 2, pod
        assert listed.count("jwt_hs256.key") == (2 if there else 0), pod


def test_no_user_replaces_what_root_keeps_on_a_node(quiet: Cluster) -> None:
    """Every emptyDir is created writable for all users: keys in /run, jobs' scripts and slurmd's configuration in its spool."""
    wanted = {"/run": "755 0", "/run/keys": "755 0", "/var/spool/slurmd": "755 0", "/dev/shm": "1777 0"}  # noqa: S108
    for path, mode in wanted.items():
        assert quiet.inside("cpu-0", f"stat -c '%a %u' {path}").out.strip() == mode, path
    tried = quiet.run("srun", "-w", "cpu-0", "sh", "-c", "mv /run/keys /run/mine; mkdir /run/x; ls /run", user=BOB)
    assert "keys" in tried.out.split()
    assert not {"mine", "x"} & set(tried.out.split())


def test_slurmctlds_state_is_its_own(red: Cluster) -> None:
    """It contains all jobs' scripts, and its volume may be created writable for all users."""
    assert red.inside("slurmctld-0", "stat -c '%a %u' /var/spool/slurmctld").out.strip() == "700 401"
    assert red.inside("slurmctld-0", "setpriv --reuid=401 --clear-groups ls /var/spool/slurmctld").code == 0
    other = red.inside("slurmctld-0", "setpriv --reuid=10001 --clear-groups ls /var/spool/slurmctld", check=False)
    assert other.code != 0
    assert "Permission denied" in other.err, other.text
