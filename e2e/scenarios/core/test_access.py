"""Logs, exec, attach, port-forward and cp through the kubelet shim, with the real kubectl."""

import socket
import subprocess
from pathlib import Path

import pytest

from e2e import commands, workloads
from e2e.api import Api
from e2e.commands import kubectl
from e2e.poll import until
from e2e.tenants import Tenant


@pytest.fixture(scope="module")
def shell(alice: Tenant) -> str:
    """A running pod that logs a line and serves a page."""
    text = "echo first; echo second; mkdir -p /tmp/www; echo page > /tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www"
    alice.api.apply(workloads.pod("shell", workloads.pod_spec(("sh", "-c", text), ports=[8080])))
    workloads.wait_running(alice.api, "shell")

    def said() -> None:
        printed = kubectl(alice.kubeconfig, "logs", "shell", check=False)
        workloads.expect("second" in printed.out, printed.text)

    # The pod is running before it has printed anything.
    until("its lines to be in the log", said, seconds=20)
    return "shell"


def test_item_85_logs_with_their_options(alice: Tenant, shell: str) -> None:
    assert kubectl(alice.kubeconfig, "logs", shell).out.splitlines() == ["first", "second"]
    assert kubectl(alice.kubeconfig, "logs", shell, "--tail=1").out.splitlines() == ["second"]
    assert kubectl(alice.kubeconfig, "logs", shell, "-c", "main", "--timestamps").out.splitlines()[0].endswith(" first")


def test_item_85_exec_carries_input_output_errors_and_exit_codes(alice: Tenant, shell: str) -> None:
    done = kubectl(
        alice.kubeconfig, "exec", "-i", shell, "--", "sh", "-c", "cat; echo bad >&2; exit 7", given="in\n", check=False
    )
    assert done.out == "in\n"
    assert "bad" in done.err
    assert done.code == 7


def test_exec_into_what_is_not_there_says_so(alice: Tenant, shell: str) -> None:
    missing = kubectl(alice.kubeconfig, "exec", "nobody", "--", "true", check=False)
    assert missing.code != 0
    assert "not found" in missing.text
    wrong = kubectl(alice.kubeconfig, "exec", shell, "-c", "nobody", "--", "true", check=False)
    assert wrong.code != 0
    assert "container" in wrong.text, wrong.text
    assert "nobody" in wrong.text, wrong.text
    assert kubectl(alice.kubeconfig, "exec", shell, "-c", "main", "--", "true").code == 0


def test_item_85_cp_there_and_back(alice: Tenant, shell: str, tmp_path: Path) -> None:
    there, back = tmp_path / "there", tmp_path / "back"
    there.write_bytes(bytes(range(256)) * 4096)
    kubectl(alice.kubeconfig, "cp", str(there), f"{shell}:/tmp/copied")
    kubectl(alice.kubeconfig, "cp", f"{shell}:/tmp/copied", str(back))
    assert back.read_bytes() == there.read_bytes()


def test_item_85_port_forward(alice: Tenant, shell: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    binary = commands.tool("kubernetes", "kubectl")
    command = [binary, f"--kubeconfig={alice.kubeconfig}", "port-forward", f"pod/{shell}", f"{port}:8080"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            assert "page" in until("the forwarded port to answer", lambda: fetch(port), seconds=20)
        finally:
            process.terminate()
            process.wait(timeout=10)


def test_item_86_the_shim_refuses_all_clients_but_its_planes_api_server(host: Api, alice: Tenant, bob: Tenant) -> None:
    address = host.get("Service", "kubelet-shim", alice.plane)["spec"]["clusterIP"]
    url = f"https://{address}:10250/containerLogs/default/shell/main"
    # From the node itself, which no policy blocks: the shim itself must refuse.
    outcome = commands.run(["curl", "-sk", "--max-time", "5", "-o", "/dev/null", "-w", "%{http_code}", url], check=False)
    assert outcome.out in {"000", "401", "403"}
    assert bob.name != alice.name


def fetch(port: int) -> str:
    with socket.socket() as client:
        client.settimeout(3)
        try:
            client.connect(("127.0.0.1", port))
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            answer = b""
            while part := client.recv(4096):
                answer += part
        except OSError as exc:
            answer = str(exc).encode()
    workloads.expect(b"200 OK" in answer, answer.decode("utf-8", "replace")[:200])
    return answer.decode()
