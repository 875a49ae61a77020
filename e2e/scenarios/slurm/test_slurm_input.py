"""Hostile words in Slurm's fields harm neither slurmctld nor the controller nor the messages that users read."""

import time

import pytest

from e2e import tenants, workloads
from e2e.api import Api, ApiError, Obj
from e2e.poll import until
from e2e.slurm import clusters, jobs, rest
from e2e.slurm.clusters import BOB, Cluster

NAMES = {
    "newline": "first\nSlurmctldParameters=evil\nsecond",
    "shell": "$(touch /tmp/owned); `id` | & ; rm -rf / '\"",
    "quotes": "\"}]},{'",
    "controls": "\x1b[31mred\x07\t%s%n",
    "long": "x" * 10_000,
    "unicode": "ünïcödé 名前 \u202e",
}


@pytest.mark.parametrize("kind", sorted(NAMES))
def test_a_job_name_of_any_kind_does_no_harm(host: Api, quiet: Cluster, kind: str) -> None:
    given = {"job": {"name": NAMES[kind], "current_working_directory": "/home/bob", "environment": ["PATH=/bin:/usr/bin"]}}
    body = given | {"script": "#!/bin/sh\nsleep 5\n"}
    answer = rest.slurm(quiet, "/job/submit", rest.token(quiet, BOB), method="POST", body=body)
    assert answer.status in {200, 400, 422, 500}, answer.body
    number = int(answer.body.get("job_id") or 0) if isinstance(answer.body, dict) else 0
    # Older and newer jobs still work, and the platform still sees the cluster.
    assert jobs.done(quiet, "echo fine") == "fine\n"
    if number:
        jobs.wait(quiet, number, seconds=90)
    observed(host, quiet)
    assert quiet.inside("slurmctld-0", "test ! -e /tmp/owned").code == 0


def test_words_in_comments_reasons_and_features_do_no_harm(host: Api, quiet: Cluster) -> None:
    quiet.run("scontrol", "update", "nodename=cpu-0", "state=drain", f"reason={NAMES['shell']}")
    try:
        number = jobs.submit(quiet, "true", f"--comment={NAMES['shell']}", "--nodelist=cpu-1")
        jobs.wait(quiet, number)
        observed(host, quiet)
    finally:
        quiet.run("scontrol", "update", "nodename=cpu-0", "state=resume")


def test_a_spec_that_smuggles_lines_into_slurm_conf_is_refused_or_harmless(host: Api, fresh_name: str) -> None:
    for hostile in ("Foo=1\nSlurmUser=root", "Include /etc/shadow", "SlurmUser=root", "AuthType=auth/none"):
        found = clusters.slurm(clusters.node_set("cpu")) | {"extraConf": hostile}
        wanted = tenants.manifest(fresh_name, gpus=1, **clusters.spec(found))
        if refused_at_once(host, wanted):
            continue

        def refused() -> None:
            items = tenants.conditions(host.get("Tenant", fresh_name))
            workloads.expect(
                any(item["status"] == "False" and item["reason"] == "InvalidConfiguration" for item in items.values()),
                str(items),
            )

        until(f"{hostile!r} to be refused", refused, seconds=30)
        tenants.remove(host, fresh_name)


def refused_at_once(host: Api, wanted: Obj) -> bool:
    """Whether the API itself refuses the object as invalid."""
    try:
        host.create(wanted)
    except ApiError as exc:
        if exc.status not in {400, 422} or "extraConf" not in exc.message:
            raise
        return True
    return False


def observed(host: Api, cluster: Cluster) -> None:
    """The controller's view of the cluster is fresh, without an error."""
    begin = time.time()

    def well() -> None:
        ready = tenants.conditions(host.get("Tenant", cluster.name)).get("SlurmReady", {})
        workloads.expect(ready.get("status") == "True", f"{ready} {begin}")

    until("SlurmReady", well, seconds=60)
