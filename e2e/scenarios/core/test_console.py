"""`bulkhead console` on the host: an admin's page and a user's page have real data, and end without leaving anything."""

import json

from e2e import machine, workloads
from e2e.consolepage import console
from e2e.names import GPU
from e2e.poll import until
from e2e.tenants import Tenant


def test_the_console_shows_an_admin_and_a_user_what_is_there(bob: Tenant) -> None:
    for name, gpus in (("works", 2), ("too-large", 64)):
        bob.api.create(workloads.pod(name, workloads.pod_spec(gpus=gpus, where=workloads.SIMULATED)))
    workloads.wait_running(bob.api, "works")
    workloads.wait_refused(bob.api, "too-large", "QuotaExceeded")

    with console(machine.KUBECONFIG) as page:

        def whole() -> None:
            picture = page.picture
            workloads.expect(bool(picture) and not picture["reading"], f"still being read: {picture.get('reading')}")
            rows = {row["name"]: row for row in picture["tenants"]}
            workloads.expect(rows.get(bob.name, {}).get("used") == 2, f"bob: {rows.get(bob.name)}")
            held = {tenant for item in picture["maps"] for rack in item["racks"] for tenant, _ in rack["held"]}
            workloads.expect(bob.name in held, f"the map has devices of {sorted(held)}")

        until("the admin's picture to be whole", whole, seconds=60)
        assert "pods" not in " ".join(page.picture["unread"])
        # The controller of the host reports certificates, and none ends soon.
        until(
            "the certificates to be known",
            lambda: workloads.expect(not page.picture["unread"], page.picture["unread"]),
            seconds=90,
        )
        assert not [alarm for alarm in page.picture["alarms"] if alarm["reason"].startswith("Certificate")]
        told = page.ask(f"tenant?name={bob.name}")["answer"]
        assert {part["name"] for part in told["parts"]} >= {"plane-0"}
        assert told["certificates"]

    with console(bob.kubeconfig, "-f", str(bob.kubeconfig)) as page:

        def own() -> None:
            picture = page.picture
            workloads.expect(bool(picture), "no picture yet")
            holding = {row["name"]: row for row in picture["holding"]}
            waiting = {row["name"]: row for row in picture["waiting"]}
            workloads.expect("default/works" in holding, f"holding: {sorted(holding)}")
            workloads.expect(waiting.get("default/too-large", {}).get("reason") == "QuotaExceeded", f"waiting: {waiting}")
            lines = {line["name"]: line["rows"][0] for line in picture["lines"]}
            workloads.expect(lines.get(GPU, {}).get("used") == 2, f"quota: {lines}")
            workloads.expect(picture["use"] is not None, "the use of GPUs was not asked for yet")

        until("the user's picture", own, seconds=60)
        # This host has no exporter of GPUs, or one that says that its values are simulated: either is shown.
        assert page.picture["use"]["missing"] or page.picture["use"]["simulated"], page.picture["use"]
        text = json.dumps(page.picture)
        for foreign in ("alice", bob.work, bob.plane):
            assert foreign not in text
    for name in ("works", "too-large"):
        bob.api.delete("Pod", name, "default", grace=0)
