"""An older Bulkhead: its tree from the history, its image under another name, and its chart as admins installed it then.

    git archive COMMIT ──> build/upgrade/ ─┬─ its image recipes ──> bulkhead:former ──> the node
                                           └─ its chart and crds/ ──> helm install

Any Bulkhead that the host already has is removed first, as docs/decisions/0032 describes. It writes only to build/ and the
host.
"""

import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from e2e import commands, install, machine, names, tenants, workloads
from e2e.api import Api
from e2e.poll import Note, until
from e2e.tenants import Tenant
from workstation.hostcluster.component import POD_RANGE, RUN_DIR
from workstation.hostcluster.storage.volumes import IMMEDIATE_CLASS

# The last commit without placement, outside addresses and CRD upgrades of planes.
COMMIT = "a4dbc2f82d7a584c14bc43d6ae268d02b771d4d7"
TREE = Path("build/upgrade").absolute() / COMMIT[:12]
IMAGE = "bulkhead:former"
# The tree's own recipes, under another name: both trees have the same version.
_BUILD = f"""
import sys
from dataclasses import replace
from pathlib import Path
from bulkhead.hostcluster import binaries
from bulkhead.hostcluster.images import build
shop = build.Workshop(Path(sys.argv[1]) / "images", binaries.ensure, build.PROJECT)
print(build.image_file(shop, replace(build.bulkhead_image(shop), name="docker.io/bulkhead/{IMAGE}")))
"""
_KEPT = "validatingadmissionpolicies,validatingadmissionpolicybindings,clusterroles,priorityclasses"


def checked_out() -> Path:
    """The older tree; extracted from the history once."""
    if not (TREE / "charts").is_dir():
        done = subprocess.run(["git", "archive", COMMIT], capture_output=True, check=False, timeout=60)
        if done.returncode != 0:
            reason = done.stderr.decode(errors="replace").strip()[-300:]
            raise AssertionError(f"the older tree {COMMIT[:12]} is not in the history here ({reason}); clone without --depth")
        unfinished = TREE.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            archive.extractall(unfinished, filter="tar")  # from our own history: images have links to absolute paths
        unfinished.rename(TREE)
    return TREE


def run(*arguments: str, seconds: float = 120.0) -> str:
    """Run a Python program of the older tree; without -P the modules of this folder would come first."""
    environment = {"PYTHONPATH": str(TREE), "KUBECONFIG": str(machine.KUBECONFIG)}
    return commands.run([sys.executable, "-P", *arguments], seconds=seconds, environment=environment).out


def opened(name: str) -> Tenant:
    """A tenant, opened with the kubeconfig of the older command line."""
    tenants.KUBECONFIGS.mkdir(parents=True, exist_ok=True)
    path = tenants.KUBECONFIGS / f"{name}.yaml"
    path.touch(mode=0o600)
    path.write_text(run("-m", "bulkhead.cli.main", "kubeconfig", name))
    return Tenant(name, Api(path))


def import_image(note: Note) -> None:
    """Build the older image, or use the cached one, and import it on the node."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bulkhead"
    path = run("-c", _BUILD, str(cache), seconds=240).split()[-1]
    note(f"importing {Path(path).name}")
    ctr, socket = commands.tool("containerd", "ctr"), str(RUN_DIR / "containerd" / "containerd.sock")
    commands.run([ctr, "-a", socket, "-n", "k8s.io", "images", "import", path], seconds=120)


def wipe(host: Api, note: Note) -> None:
    """Remove any Bulkhead; refused with a message if there are Tenants that these tests did not create."""
    helm = ("--namespace", names.SYSTEM_NAMESPACE)
    if install.RELEASE in commands.helm(machine.KUBECONFIG, "list", "--short", *helm).out.split():
        # Tenants that an earlier run deleted at its end are still terminating, which needs the Bulkhead that is installed.
        until("deleted tenants to be gone", lambda: _expect_none_going(host), seconds=180)
        note("removing the Bulkhead that is there")
        commands.helm(machine.KUBECONFIG, "uninstall", install.RELEASE, *helm, "--wait")
    kubectl("delete", _KEPT, "-l", "app.kubernetes.io/name=bulkhead")
    kubectl("delete", "-f", "crds", "--ignore-not-found")
    host.delete("Lease", "bulkhead-controller", names.SYSTEM_NAMESPACE)


def _expect_none_going(host: Api) -> None:
    going = [item["metadata"]["name"] for item in host.list("Tenant") if item["metadata"].get("deletionTimestamp")]
    workloads.expect(not going, ", ".join(going))


def kubectl(*arguments: str) -> str:
    return commands.kubectl(machine.KUBECONFIG, *arguments).out


def installed(note: Note) -> None:
    """Install the older chart with the older image, the values of that time, and its class of tenants."""
    import_image(note)
    note("helm install of the older chart")
    values = {"storageClass": IMMEDIATE_CLASS, "podNetworks": f"{{{POD_RANGE}}}", **install.HOST_API, "images.bulkhead": IMAGE}
    given = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    chart = str(checked_out() / "charts" / "bulkhead")
    place = ("--namespace", names.SYSTEM_NAMESPACE, "--create-namespace")
    commands.helm(machine.KUBECONFIG, "install", install.RELEASE, chart, *place, *given, "--wait", "--timeout", "450s")
    kubectl("apply", "-f", str(TREE / "examples" / "tenantclass.yaml"))
