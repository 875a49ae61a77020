"""What tests of the ledger's writes stand on: three pods that wait, and a host that answers as it is told to."""

from bulkhead.ledger.model import Admission, Node, Stage
from controller.dispatch.admissions import Admissions
from controller.dispatch.apply import Writes
from controller.dispatch.avoid import Avoided
from controller.dispatch.moves import Moves
from controller.dispatch.reclaims import Reclaims
from controller.dispatch.seen import Pods
from tests.controller.dispatch.pods import FakeHost, host_pod, show
from tests.kit.fakeclock import FakeClock


class World:
    """Three pods that wait."""

    def __init__(self) -> None:
        self.clock, self.host, self.leads = FakeClock(), FakeHost(), True
        self.pods = Pods(self.clock.monotonic, lambda: None)
        self.writes = Writes(self.host, self.pods, self.clock, lambda: self.leads)
        self.avoided = Avoided()
        self.moves = Moves()
        self.reclaims = Reclaims(self.writes, self.pods, self.avoided, self.moves, self.clock)
        for name in ("a", "b", "c"):
            show(self.pods, host_pod(name, gated=True))

    async def admit(self, *names: str) -> None:
        chosen = [pod for pod in self.pods.all() if pod.name in names]
        nodes = {"n0": Node("n0", {}, {"kubernetes.io/hostname": "the-name"})}
        await Admissions(self.writes, self.pods, self.moves, self.clock).carry_out(
            [Admission(pod, "n0") for pod in chosen], nodes
        )

    def stages(self) -> list[Stage]:
        return [pod.stage for pod in self.pods.all()]
