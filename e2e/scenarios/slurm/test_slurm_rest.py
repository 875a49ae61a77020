"""slurmrestd: tokens are issued, expire, and end with their key; its OpenAPI is served; each user is the one in the token."""

import base64
import json
import time

from e2e.api import Api
from e2e.names import SLURM_NAMESPACE
from e2e.poll import until
from e2e.slurm import jobs, rest
from e2e.slurm.clusters import BOB, Cluster
from e2e.workloads import expect


def test_a_token_opens_the_api_as_its_user(red: Cluster) -> None:
    answer = rest.slurm(red, "/ping/", rest.token(red, "alice"))
    assert answer.status == 200
    assert answer.body["pings"][0]["responding"] is True
    body = {"job": {"name": "by-rest", "current_working_directory": "/home/bob", "environment": ["PATH=/bin:/usr/bin"]}}
    body["script"] = "#!/bin/sh\nid -un\n"  # type: ignore[assignment]
    made = rest.slurm(red, "/job/submit", rest.token(red, BOB), method="POST", body=body)
    assert made.status == 200, made.body
    number = int(made.body["job_id"])
    jobs.wait(red, number)
    assert red.shell(f"cat slurm-{number}.out", user=BOB).out == "bob\n"


def test_without_a_good_token_every_request_is_refused(red: Cluster, blue: Cluster) -> None:
    good = rest.token(red, "alice")
    assert rest.slurm(red, "/jobs/", good).status == 200
    forged = good[:-6] + ("AAAAAA" if good[-6:] != "AAAAAA" else "BBBBBB")
    for bearer in (None, "", "nonsense", forged, rest.token(blue, "alice")):
        assert rest.slurm(red, "/jobs/", bearer).status in rest.REFUSED, bearer


def test_a_user_does_not_become_another_by_a_header(red: Cluster) -> None:
    """A token is valid only for its own user; only Slurm's administrators may name another user."""
    number = jobs.submit(red, "sleep 100", "--hold")
    mine = rest.slurm(red, f"/job/{number}", rest.token(red, BOB), method="DELETE", user="alice")
    assert mine.status != 200 or mine.body.get("errors"), mine.body
    found = jobs.find(red, number)
    assert found is not None
    assert found.state == "PENDING"
    own = rest.slurm(red, f"/job/{number}", rest.token(red, "alice"), method="DELETE")
    assert (own.status, own.body.get("errors") or []) == (200, []), own.body
    jobs.wait(red, number, "CANCELLED")


def test_a_token_expires(red: Cluster) -> None:
    short = rest.token(red, "alice", lifetime="20s")  # longer than it takes to issue it and use it
    assert rest.slurm(red, "/jobs/", short).status == 200
    until("the token to expire", lambda: _refused(red, short), seconds=90)
    assert rest.slurm(red, "/jobs/", rest.token(red, "alice")).status == 200


def test_the_openapi_document_is_served(red: Cluster) -> None:
    bearer = rest.token(red, "alice")
    answer = rest.call(red.api, "/openapi/v3", bearer)
    assert answer.status == 200
    assert answer.body["openapi"].startswith("3.")
    assert f"/slurm/{rest.VERSION}/jobs/" in answer.body["paths"]
    assert f"/slurmdb/{rest.VERSION}/accounts/" in answer.body["paths"]


def test_the_api_answers_inside_the_tenant_by_its_service(red: Cluster) -> None:
    bearer = rest.token(red, "alice")
    url = f"http://slurmrestd:6820/slurm/{rest.VERSION}/ping/"
    status, body = red.fetch(url, f"X-SLURM-USER-TOKEN: {bearer}")
    assert status == 200
    assert '"responding"' in body
    assert red.fetch(url)[0] in rest.REFUSED


def test_revoked_tokens_are_refused_and_jobs_run_on(blue: Cluster, host: Api) -> None:
    number = jobs.submit(blue, "sleep 60; echo survived")
    jobs.wait(blue, number, "RUNNING")
    old = rest.token(blue, "alice")
    assert rest.slurm(blue, "/jobs/", old).status == 200
    annotate(host, blue, "bulkhead.dev/revoke-tokens")
    until("the former token to be refused", lambda: _refused(blue, old), seconds=180, interval=2)
    until("a new token to be accepted", lambda: _accepted(blue), seconds=180, interval=2)
    jobs.wait(blue, number, seconds=120)
    assert jobs.output(blue, number) == "survived\n"


def test_rotating_the_signing_key_loses_no_job(blue: Cluster, host: Api) -> None:
    """The new key is distributed for three minutes before it signs; a job sees both."""
    before = signing_key(blue)
    number = jobs.submit(blue, "sleep 270; srun echo survived")
    jobs.wait(blue, number, "RUNNING")
    annotate(host, blue, "bulkhead.dev/rotate-keys")
    until("the new key to sign", lambda: expect(signing_key(blue) != before, before), seconds=400, interval=5)
    jobs.wait(blue, number, seconds=300)
    assert jobs.output(blue, number) == "survived\n"
    assert blue.run("srun", "hostname").out.strip() == "gpu-0"


def annotate(host: Api, cluster: Cluster, name: str) -> None:
    host.patch("Tenant", cluster.name, {"metadata": {"annotations": {name: str(int(time.time()))}}})


def signing_key(cluster: Cluster) -> str:
    """The name of the signing key."""
    data = cluster.api.get("Secret", "slurm-keys", SLURM_NAMESPACE)["data"]["slurm.jwks"]
    return next(str(key["kid"]) for key in json.loads(base64.b64decode(data))["keys"] if key.get("use") == "default")


def _refused(cluster: Cluster, bearer: str) -> None:
    status = rest.slurm(cluster, "/jobs/", bearer).status
    expect(status in rest.REFUSED, f"status {status}")


def _accepted(cluster: Cluster) -> None:
    status = rest.slurm(cluster, "/jobs/", rest.token(cluster, "alice")).status
    expect(status == 200, f"status {status}")
