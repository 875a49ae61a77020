"""The commands in the README and the other pages are run: word for word without a host, otherwise as far as they are parsed.

Shell blocks run against a real API server with real helm and kubectl; `bulkhead` commands go through its parser, `make` through
`-n`.
"""

import functools
import os
import re
import shlex
import subprocess
import textwrap
from pathlib import Path

import pytest

from tests.kit import yamlfiles
from tests.kit.kubeconfigs import to_yaml
from tests.kit.servers import ApiServer
from workstation.cli.main import build_parser, split
from workstation.hostcluster import binaries
from workstation.hostcluster.images.build import KUBERNETES
from workstation.images import catalogue, valuesfile

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
PAGES = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))}
PLACE = "registry.example.org:5000"  # REGISTRY of the README
DIGEST = "sha256:" + "a" * 64

_FENCE = re.compile(r"^( {0,3})```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(
    r"\bbulkhead (?:host|tenant|kubeconfig|connect|slurm|images|preflight|version|top|why|cohort|quota|usage)\b[^\n#|&<>()…]*"
)
_MAKE = re.compile(r"^(make [a-z][^\n#]*)", re.MULTILINE)


def blocks(language: str, text: str = README) -> list[str]:
    return [textwrap.dedent(body) for _, name, body in _FENCE.findall(text) if name == language]


def code(text: str) -> str:
    """All code of a page, each piece on lines of its own: shell blocks, lines indented by four blanks, text in backticks."""
    pieces = blocks("sh", text)
    for line in _FENCE.sub("", text).splitlines():
        pieces += [line.strip()] if line.startswith("    ") else re.findall(r"`([^`]+)`", line)
    return "\n".join(pieces)


LINES = [line for block in blocks("sh") for line in block.splitlines() if line.strip()]
INSTALL = next(block for block in blocks("sh") if "helm install" in block)
OLDEST = int(re.search(r"Kubernetes 1\.(\d+) or newer", README)[1])  # type: ignore[index]
NEWEST = int(KUBERNETES.rpartition(":v1.")[2].split(".")[0])


def test_every_line_of_shell_is_run_here_in_one_way() -> None:
    assert {shlex.split(line, comments=True)[0] for line in LINES} == {"make", "helm", "kubectl", ".venv/bin/bulkhead"}


def commands(*pages: str) -> list[str]:
    found = {command.strip().rstrip('"').rstrip() for text in pages for command in _COMMAND.findall(code(text))}
    return sorted(found)


@pytest.mark.parametrize("command", commands(*PAGES.values()))
def test_every_command_is_one_that_bulkhead_knows(command: str) -> None:
    words = shlex.split(command)[1:]
    if command not in commands(README) and len(words) <= 2:  # a page may name a command without its arguments
        with pytest.raises(SystemExit) as ended:
            build_parser(words).parse_args([*words, "--help"])
        assert ended.value.code == 0
        return
    arguments, _ = split([word.lower() if word in {"TENANT", "NAME"} else word for word in words])
    build_parser(arguments).parse_args(arguments)


@functools.cache
def targets() -> tuple[str, ...]:
    return tuple(sorted({found.strip() for text in PAGES.values() for found in _MAKE.findall(code(text))}))


@pytest.mark.parametrize("line", targets())
def test_every_target_of_make_is_there(line: str) -> None:
    program, target, *others = shlex.split(line)
    done = subprocess.run([program, "-n", target, *others], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def pushed(folder: Path) -> Path:
    """The values file of a finished push; `tests/images` pushes into registries."""
    (push,) = (shlex.split(line) for line in INSTALL.splitlines() if " images push " in line)
    options = build_parser(push[1:]).parse_args(push[1:])
    digests = {image.title: DIGEST for image in catalogue.published()}
    path = folder / options.values
    path.write_text(valuesfile.values(options.registry.replace("REGISTRY", PLACE), digests, options.pull_secret))
    return path


def helm_template(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    pushed(folder)
    words = shlex.split(next(line for line in INSTALL.splitlines() if line.startswith("helm ")))
    assert words[:2] == ["helm", "install"]
    words = [word.replace("charts/", f"{ROOT}/charts/") for word in words]
    words = [str(binaries.ensure("helm")["helm"]), "template", *words[2:], *arguments]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("minor", range(OLDEST, NEWEST + 1))
def test_the_chart_is_installed_on_every_version_that_is_promised(minor: int, tmp_path: Path) -> None:
    done = helm_template(tmp_path, "--kube-version", f"v1.{minor}.0")
    assert done.returncode == 0, done.stderr
    controller = next(obj for obj in yamlfiles.documents(done.stdout) if obj["kind"] == "Deployment")
    (container,) = controller["spec"]["template"]["spec"]["containers"]
    variables = [each["value"] for each in container["env"] if each["name"].startswith("BULKHEAD_IMAGE_")]
    images = [container["image"], *(value for value in variables if "/" in value and "=" not in value)]
    assert len(images) == 7
    assert {image.rpartition("/")[0] for image in images} == {f"{PLACE}/bulkhead"}
    assert {image.partition("@")[2] for image in images if "{version}" not in image} == {DIGEST}


def test_an_older_version_is_refused(tmp_path: Path) -> None:
    assert "incompatible with Kubernetes" in helm_template(tmp_path, "--kube-version", f"v1.{OLDEST - 1}.9").stderr


def test_an_image_with_a_place_of_its_own_is_left_there(tmp_path: Path) -> None:
    done = helm_template(tmp_path, "--set", "images.etcd=quay.io/coreos/etcd:v3.6.16")
    assert "quay.io/coreos/etcd:v3.6.16" in done.stdout
    assert f"{PLACE}/bulkhead/quay.io" not in done.stdout


@pytest.mark.parametrize("wrong", ["https://registry.example.org", "registry.example.org/", "", "a b"])
def test_a_registry_that_can_be_none_is_refused(wrong: str, tmp_path: Path) -> None:
    done = helm_template(tmp_path, "--set", f"images.registry={wrong}")
    assert "/images/registry" in done.stderr


@pytest.mark.commands
def test_what_installs_it_and_makes_a_tenant_does_so(own_server: ApiServer, tmp_path: Path) -> None:
    """The README's commands for the cluster, on a real API server without a kubelet; `e2e/scenarios/install` runs all of it."""
    config = tmp_path / "kubeconfig"
    config.write_bytes(to_yaml(own_server.admin))
    programs = [binaries.ensure("helm")["helm"].parent, binaries.ensure("kubernetes")["kubectl"].parent]
    paths = ":".join([*(str(each) for each in programs), os.environ["PATH"]])
    environment = {"PATH": paths, "KUBECONFIG": str(config), "HOME": str(tmp_path)}

    def run(script: str, given: str = "") -> str:
        done = subprocess.run(
            ["bash", "-euc", script],
            cwd=ROOT,
            env=environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text('{"auths":{"registry.example.org:5000":{"auth":"YTpi"}}}')
    script = "\n".join(line for line in INSTALL.splitlines() if line.startswith(("kubectl ", "helm ")))
    run(script.replace("images.yaml", str(pushed(tmp_path))))
    (tenant,) = blocks("yaml")
    assert "team-a" in run("kubectl apply --dry-run=server -f -", tenant)
    assert f"{PLACE}/bulkhead/bulkhead:" in run("kubectl get deployments -n bulkhead-system -o yaml")
    assert "name: registry" in run("kubectl get deployments -n bulkhead-system -o yaml").partition("imagePullSecrets:")[2]
    assert set(run("kubectl get tenants -o name").split()) >= {"tenant.bulkhead.dev/team-a", "tenant.bulkhead.dev/team-b"}
