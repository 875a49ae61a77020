"""What the ledger reports to metering on a real API server: which free devices it reserves, and when no longer."""

from collections.abc import Sequence

from bulkhead.api import names
from bulkhead.api.quotalines import ReservedRoom
from bulkhead.kube.resources import PODS
from controller.dispatch.loop import Ledger
from tests.kit.leading import leading
from tests.kit.ledgerhost import GPU, LedgerHost, leads
from tests.kit.syncerbed import until


async def test_reserved_devices_are_told_until_they_are_released_or_the_ledger_stops(ledger_host: LedgerHost) -> None:
    host = ledger_host
    for number in range(2):
        await host.node(f"n{number}")
    ada, bob = await host.tenant("ada", 16), await host.tenant("bob", 16)
    wanted = ReservedRoom(ada, "default", "Pod/train", {("", GPU): 3})
    told: list[tuple[ReservedRoom, ...]] = []

    def hear(rooms: Sequence[ReservedRoom]) -> None:
        told.append(tuple(rooms))

    async def last_is(*rooms: ReservedRoom) -> None:
        async def so() -> bool:
            return bool(told) and told[-1] == rooms

        await until(so, f"the ledger reserves {rooms}")

    async with leading(Ledger(host.client, leads, reserved=hear)):
        for number in range(2):
            await host.run(bob, f"b{number}", 5)
        await host.admitted(bob, 2)
        await host.run(ada, "train", 8)
        await last_is(wanted)
        # The workload goes, as all of a tenant does that is deleted.
        await host.client.delete(PODS, "train", names.work_namespace(ada), grace_seconds=0)
        await last_is()
        await host.run(ada, "train", 8)
        await last_is(wanted)
    # No other process knows of it before its own first decision.
    assert told[-1] == ()
