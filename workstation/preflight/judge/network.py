"""Network policies: whether the cluster enforces them both ways, and lets through what they allow. Pure.

allowed, outsider ──> door      `door` accepts `allowed` and `confined`, and no other pod
confined ──> open, door         `confined` may connect to `open`, and to no other pod
outsider ──> open               no policy selects either: shows that the outsider can connect at all
caller, anywhere, entity ──> api, endpoint-N    the Service's address, and each real one; each pod has one way to open it:
                                by the addresses of networkPolicy.hostAPI, by its ports only, by Cilium's entity;
                                none of them may connect to `open`, which shows that the policies are in force
"""

from workstation.preflight.facts import Observed, Phases, Reached, Unseen, known
from workstation.preflight.findings import Finding, failed, ok, skipped, warning
from workstation.preflight.values import Values

PEERS = ("allowed>door", "outsider>door", "outsider>open", "confined>open", "confined>door")
_SERVERS = frozenset({"door", "open"})
# networkPolicy.hostAPIBy ──> the pods of which one must reach the API; the first that works is recommended.
_WAYS = {"Address": ("caller",), "CiliumEntity": ("caller", "entity"), "Port": ("anywhere",)}
_ADDRESSES = "or list the API server's addresses and ports in networkPolicy.hostAPI, if they differ from those there"
_PLUGIN = (
    "install or enable a network plugin that enforces NetworkPolicy (Calico, Cilium, Antrea, …); "
    "without one, every tenant reaches every other tenant and the host"
)


def pods(observed: Observed, _values: Values) -> Finding:
    """The positive control: without a policy, every pod reaches every other."""
    if isinstance(observed.phases, Unseen):
        silent = [
            f"{name}: {probed.trouble}" for name, probed in observed.probes.items() if name in _SERVERS and not probed.ran
        ]
        cure = "see the messages; if the image is not available yet, give one with Python 3 that the nodes have: --image"
        return failed(f"the network could not be tested: {observed.phases.reason}", cure, silent)
    found = observed.phases
    lacking = [pair for pair in PEERS if found.before.get(pair) is not True]
    if lacking:
        cure = "repair the pod network first: planes, syncers and tenants' pods talk to each other across nodes"
        return failed("pods did not reach each other even without any policy", cure, _pairs(lacking))
    return ok("every probe reached every other before there was a policy")


def ingress(observed: Observed, _values: Values) -> Finding:
    """Only the allowed pod gets in, and all pods again when the policy is gone."""
    return _enforced(known(observed.phases), "ingress", opened=("allowed>door", "outsider>open"), closed="outsider>door")


def egress(observed: Observed, _values: Values) -> Finding:
    """Only to the allowed pod, and to all pods again when the policy is gone."""
    return _enforced(known(observed.phases), "egress", opened=("confined>open",), closed="confined>door")


def _enforced(found: Phases, way: str, *, opened: tuple[str, ...], closed: str) -> Finding:
    if any(found.before.get(pair) is not True for pair in (*opened, closed)):
        return skipped("the pods do not reach each other without policies either", "see network.pods")
    if found.under.get(closed) is None:
        return skipped("the probe reported nothing under the policy", "try again, or check why its logs cannot be read")
    if found.under[closed]:
        return failed(f"NetworkPolicy ({way}) is not enforced: {_pair(closed)} although a policy forbids it", _PLUGIN)
    cut = [pair for pair in opened if found.under.get(pair) is not True]
    if cut:
        cure = "see the network plugin's log: planes would be cut off from their own syncers and DNS"
        return failed(f"a NetworkPolicy ({way}) also cuts off what it allows", cure, _pairs(cut, lacking=True))
    if found.after.get(closed) is not True:
        return warning(
            "a connection stayed forbidden for seconds after its NetworkPolicy was deleted",
            "see the network plugin's log: tenants' own policies would take as long to be lifted",
        )
    return ok(f"{_pair(closed)} before and after the policy and not under it; allowed pods did all the time")


def host_api(observed: Observed, values: Values) -> Finding:
    """Whether controller and syncers reach the host's API, as networkPolicy.hostAPIBy allows it, and which other ways work."""
    found: Phases = known(observed.phases)
    calls = [pair for pair in found.before if pair.startswith("caller>") and not pair.endswith(">open")]
    if not any(found.before.get(pair) for pair in calls):
        cure = "check why pods do not reach the Service `kubernetes` in the namespace default"
        return failed("a pod does not reach the host's API, without any policy", cure, _pairs(calls))
    works = [way for way, clients in _WAYS.items() if any(_through(found, client) for client in clients)]
    chosen = values.host_api_by
    allowed = ", ".join(f"{cidr}:{port}" for cidr, port in values.host_api)
    if chosen in works:
        return ok(f"hostAPIBy: {chosen} allows it ({allowed})", *_open(found.under))
    shut = [pair for pair in calls if found.before.get(pair) and not found.under.get(pair)]
    what = f"a pod under a policy as the chart has it (hostAPIBy: {chosen}, {allowed}) does not reach the host's API"
    if works:
        return failed(what, f"set networkPolicy.hostAPIBy: {works[0]}, which works here; {_ADDRESSES}", _pairs(shut))
    cure = f"{_ADDRESSES}; if the plugin needs its own kind of policy, write one, and set networkPolicy.enabled: false"
    return failed(f"{what}, nor by any other way that the chart has", cure, _pairs(shut))


def _through(found: Phases, client: str) -> bool:
    """Whether this pod reached under its policy all that it reached before."""
    calls = [pair for pair, to in found.before.items() if to and pair.startswith(f"{client}>") and not pair.endswith(">open")]
    return bool(calls) and all(found.under.get(pair) is True for pair in calls)


def _open(under: Reached) -> tuple[str, ...]:
    """A warning that a wide networkPolicy.hostAPI was not tested."""
    return ("`confined`, to which no policy opens the API, reached it nevertheless",) if under.get("confined>api") else ()


def _pair(name: str, *, lacking: bool = False) -> str:
    client, _, server = name.partition(">")
    return f"`{client}` {'did not reach' if lacking else 'reached'} `{server}`"


def _pairs(names: list[str], *, lacking: bool = True) -> list[str]:
    return [_pair(pair, lacking=lacking) for pair in names]
