"""A decision of few words, for tests of the shell alone: first come, first served, within each tenant's own quota of GPUs."""

from collections import Counter

from bulkhead.ledger.model import Admission, Decisions, Pod, Snapshot, Stage, Standing, Verdict, Why

GPU = "nvidia.com/gpu"
LINE = ("", GPU)


def decide(snapshot: Snapshot, now: float) -> Decisions:
    del now
    used: Counter[str] = Counter()
    room = {node.name: node.allocatable.get(GPU, 0) for node in snapshot.nodes if node.usable}
    for pod in snapshot.pods:
        if pod.stage in (Stage.ADMITTED, Stage.BOUND):
            used[pod.tenant] += pod.asks.get(GPU, 0)
            where = pod.node or pod.pinned
            if where in room:
                room[where] -= pod.asks.get(GPU, 0)
    gangs: dict[tuple[str, ...], list[Pod]] = {}
    for pod in sorted(snapshot.pods, key=lambda each: (each.created, each.name)):
        if pod.stage is Stage.WAITING and not pod.ending:
            gangs.setdefault((pod.tenant, pod.gang.name) if pod.gang else (pod.uid,), []).append(pod)
    admit: list[Admission] = []
    verdicts: dict[str, Verdict] = {}
    for pods in gangs.values():
        found = _place(pods, dict(room))
        tenant = snapshot.tenants.get(pods[0].tenant)
        nominal = tenant.shares[LINE].nominal if tenant else 0
        asks = sum(pod.asks.get(GPU, 0) for pod in pods)
        whole = pods[0].gang is None or len(pods) >= pods[0].gang.size
        if not whole:
            verdicts |= {pod.uid: Verdict(Why.GANG, "its gang is not there") for pod in pods}
        elif used[pods[0].tenant] + asks > nominal:
            message = f"asks {asks}, {nominal - used[pods[0].tenant]} of {nominal} free in your quota"
            verdicts |= {pod.uid: Verdict(Why.QUOTA, message) for pod in pods}
        elif found is None:
            verdicts |= {pod.uid: Verdict(Why.CAPACITY, "no room") for pod in pods}
        else:
            admit += [Admission(pod, node) for pod, node in zip(pods, found, strict=True)]
            used[pods[0].tenant] += asks
            for pod, node in zip(pods, found, strict=True):
                room[node] -= pod.asks.get(GPU, 0)
    standings = {
        name: {LINE: Standing(tenant.shares[LINE].nominal, tenant.shares[LINE].nominal, used[name], 0, 0, 0)}
        for name, tenant in snapshot.tenants.items()
    }
    return Decisions(tuple(admit), (), verdicts, standings)


def _place(pods: list[Pod], room: dict[str, int]) -> list[str] | None:
    found = []
    for pod in pods:
        node = next((name for name in sorted(room) if room[name] >= pod.asks.get(GPU, 0)), None)
        if node is None:
            return None
        room[node] -= pod.asks.get(GPU, 0)
        found.append(node)
    return found
