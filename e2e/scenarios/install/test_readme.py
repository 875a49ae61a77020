"""The README's install section, word for word, from nothing to working tenants; and then an admin's next steps.

The tests follow each other on one host: the later tests look at what the first one installed. The first one writes the duration
for `make bench NAME=frontdoor`.
"""

import json
import re
import time

from e2e import machine, names, tenants
from e2e.scenarios.install.conftest import NODES, ROOT, Site
from workstation.hostcluster import registry

SECTION = (ROOT / "README.md").read_text().partition("## Install it on your cluster")[2].partition("\n## ")[0]
(WORDS,) = re.findall(r"^```sh\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
BLOCK = WORDS.replace("REGISTRY", registry.ADDRESS)
PULLED = re.compile(rf"{re.escape(registry.ADDRESS)}/bulkhead/\S+@sha256:[0-9a-f]{{64}}")
# Two tenants use only Kubernetes; the third runs Slurm, whose images are the largest.
EXAMPLES = ("team-a", "team-b", "research")


def test_its_lines_make_ready_tenants(site: Site) -> None:
    begin = time.monotonic()
    said = site.shell(BLOCK, seconds=900).text
    assert " 0 FAILED" in said
    tenants.wait_ready(site.host, EXAMPLES[:1], seconds=300)
    took = {"first_ready_s": round(time.monotonic() - begin, 1), "nodes": NODES}
    machine.RESULTS.mkdir(parents=True, exist_ok=True)
    (machine.RESULTS / "frontdoor-install.json").write_text(json.dumps(took) + "\n")
    tenants.wait_ready(site.host, EXAMPLES, seconds=300)


def test_nothing_came_from_elsewhere(site: Site) -> None:
    """The positive control of an empty host: each image in Bulkhead's namespaces was pulled by its digest."""
    spaces = [names.SYSTEM_NAMESPACE, *(names.plane_namespace(name) for name in EXAMPLES)]
    pods = [pod for space in spaces for pod in site.host.list("Pod", space)]
    images = {container["image"] for pod in pods for container in pod["spec"]["containers"]}
    assert len(images) >= 4
    assert [image for image in images if not PULLED.fullmatch(image)] == []
    assert len({pod["spec"].get("nodeName") for pod in site.host.list("Pod")} - {None}) == NODES


def test_a_second_run_changes_nothing(site: Site) -> None:
    lines = [line for line in BLOCK.splitlines() if " images push " in line or line.startswith("kubectl apply")]
    assert len(lines) == 2
    values = site.clone / "images.yaml"
    before = values.read_text()
    said = site.shell("\n".join(lines), seconds=300).text
    assert values.read_text() == before
    assert "created" not in said


def test_a_tenants_user_runs_a_pod(site: Site) -> None:
    listed = site.shell(".venv/bin/bulkhead connect team-a -- kubectl get nodes -o name", seconds=60).out.split()
    assert len(listed) == NODES


def test_a_wrong_password_is_named_and_nothing_is_pushed(site: Site) -> None:
    line = next(line for line in BLOCK.splitlines() if " images push " in line)
    wrong = f"{line} --username {registry.USER} --password-stdin <<< not-this-one"
    done = site.shell(wrong, seconds=120, check=False)
    assert done.code != 0
    assert registry.ADDRESS in done.err
    assert "password" in done.err
    assert tenants.is_ready(site.host.get("Tenant", "team-a"))
