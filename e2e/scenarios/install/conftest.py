"""A host as an admin finds it: three nodes without any of our images, and a registry that requires a password.

A running host on the machine is taken down before, and the three nodes afterwards, so that other tests begin with a host of
their own.
"""

import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e import commands, machine
from e2e.api import Api
from workstation.hostcluster import registry
from workstation.hostcluster.component import HostContext, HostOptions

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
NODES = 3


@dataclass(frozen=True, slots=True)
class Site:
    """An admin's cluster and registry, and a clone of the project."""

    host: Api
    clone: Path
    environment: dict[str, str]

    def shell(self, script: str, *, seconds: float, check: bool = True) -> commands.Outcome:
        """Run lines as typed at a shell in the clone; the first failure ends them."""
        return commands.run(
            ["bash", "-euo", "pipefail", "-c", f"cd {self.clone}\n{script}"],
            seconds=seconds,
            check=check,
            environment=self.environment,
        )


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Three empty nodes, a registry without images, and a shell with the settings that the README asks for."""
    commands.bulkhead("host", "down", seconds=180)
    flags = ("--nodes", str(NODES), "--registry", "--no-imports", "--simulated-nodes", "0")
    machine.bring_up(lambda line: print(f"    {line}", flush=True), *flags)
    ctx = HostContext(HostOptions(data_dir=machine.DATA), {}, Path())
    folder = tmp_path_factory.mktemp("site")
    clone = _clone(folder / "bulkhead")
    (folder / ".docker").mkdir()
    (folder / ".docker" / "config.json").write_bytes((registry.folder(ctx) / "config.json").read_bytes())
    trusted = folder / "trusted.pem"  # what an admin's machine trusts: public authorities, and that of the registry
    trusted.write_bytes(_system_trust() + registry.ca_file(ctx).read_bytes())
    tools = [str(Path(commands.tool(*item)).parent) for item in (("helm", "helm"), ("kubernetes", "kubectl"))]
    yield Site(
        machine.host_api(),
        clone,
        {
            "PATH": ":".join([*tools, os.environ["PATH"]]),
            "KUBECONFIG": str(machine.KUBECONFIG),
            "SSL_CERT_FILE": str(trusted),
            "HOME": str(folder),
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
        },
    )
    commands.bulkhead("host", "down", seconds=180)


def _clone(folder: Path) -> Path:
    """The project as it is, in a folder of its own: the README's commands write there, including a Python environment."""
    folder.mkdir()
    for entry in ROOT.iterdir():
        if entry.name not in {".git", ".venv", "build"} and entry.suffix != ".egg-info":
            (folder / entry.name).symlink_to(entry)
    return folder


def _system_trust() -> bytes:
    found = ssl.get_default_verify_paths().cafile
    return Path(found).read_bytes() + b"\n" if found else b""
