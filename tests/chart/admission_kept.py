"""What was let in once and would not be now: the syncer changes labels of it, for which nothing is judged again."""

from tests.chart import admission_ledger as ledger
from tests.chart import admission_pulls as pulls
from tests.chart.admission_objects import (
    EVERY_TAINT,
    Change,
    budget,
    choice,
    devices,
    endpoints,
    ingress,
    mirrored,
    node_ports,
    of_many,
    pod,
    pod_group,
    selectors,
    service,
    service_ports,
    with_path,
    with_paths,
)

LABEL = {"metadata": {"labels": {"app": "db"}}}
OPEN = {"NVIDIA_VISIBLE_DEVICES": "YWxs"}


# Made by the admin, as if under the rules and facts of another day.
KEPT: dict[str, Change] = {
    name: Change(made, LABEL, by_others=True)
    for name, made in {
        **pulls.KEPT,
        **ledger.KEPT,
        "a resource that is no longer allowed": pod({"resources": {"limits": {"kvm/kvm": "1", "nvidia.com/gpu": "1"}}}),
        "node ports at another address": node_ports(externalIPs=["10.112.8.11"]),
        "a Service with many ports": service(ports=service_ports(300)),
        "a claim of a class that was withdrawn": devices({"deviceClassName": "of-the-host"}),
        "a claim with such an alternative": devices(choice({}, {"deviceClassName": "of-others"})),
        "a claim with tolerations": devices({"tolerations": EVERY_TAINT}),
        "a claim for many devices": devices({"count": 16}, {"count": 16}, {"count": 16}),
        "a claim with many selectors": devices(selectors(32), selectors(32), selectors(32)),
        "hosts of a domain that was withdrawn": ingress("team-a.y.org", tls=[{"hosts": ["team-a.y.org"]}]),
        "an ingress without a class": ingress("team-a.x.org", ingressClassName=None),
        "an ingress with a default backend": ingress(
            "team-a.x.org", defaultBackend={"service": {"name": "w", "port": {"number": 1}}}
        ),
        "an ingress of very many paths": with_paths(201),
        "an ingress with another path": with_path(path="/a;", pathType="ImplementationSpecific"),
        "endpoints beyond the networks of pods": endpoints("172.31.255.1"),
        "a budget in per cent": budget(minAvailable="50%"),
        "a budget of every pod": budget(selector={}),
        "a policy of very many pods": of_many(2001),
        "a group of a class that was withdrawn": pod_group(priorityClassName="of-the-host"),
        "settings with a device variable": mirrored("ConfigMap", data={"NVIDIA_VISIBLE_DEVICES": "all"}),
        "a secret with a device variable": mirrored("Secret", data=OPEN),
    }.items()
}
# The same, where what is judged changes with it: message of the rule and change.
JUDGED: dict[str, tuple[str, Change]] = {
    "another port at another address": (
        "service: no external address but that of the tenant's nodes",
        Change(node_ports(externalIPs=["10.112.8.11"]), {"spec": {"publishNotReadyAddresses": True}}, by_others=True),
    ),
    "one more of many ports": (
        "service: at most 250 ports",
        Change(service(ports=service_ports(300)), {"spec": {"ports": service_ports(301)}}, by_others=True),
    ),
    "another host of a domain that was withdrawn": (
        "ingress: each rule has a host of its own tenant",
        Change(ingress("team-a.y.org"), {"spec": {"rules": ingress("b.team-a.y.org")["spec"]["rules"]}}, by_others=True),
    ),
    "one more endpoint": (
        "endpoints: only addresses of pods",
        Change(endpoints("172.31.255.1"), {"endpoints": endpoints("172.31.255.1", "10.244.0.5")["endpoints"]}, by_others=True),
    ),
    "another share of pods": (
        "disruption budget: minAvailable must be a number",
        Change(budget(minAvailable="50%"), {"spec": {"minAvailable": "60%"}}, by_others=True),
    ),
    "a key beside a device variable": (
        "config map: no key that is a variable by which a container runtime hands out devices",
        Change(mirrored("ConfigMap", data={"NVIDIA_VISIBLE_DEVICES": "all"}), {"data": {"a": "b"}}, by_others=True),
    ),
    "a key beside a secret device variable": (
        "secret: no key that is a variable by which a container runtime hands out devices",
        Change(mirrored("Secret", data=OPEN), {"data": {"a": "YQ=="}}, by_others=True),
    ),
    "a device variable that comes later": (
        "config map: no key that is a variable by which a container runtime hands out devices",
        Change(mirrored("ConfigMap"), {"data": {"AWS_NEURON_VISIBLE_DEVICES": "ALL"}}),
    ),
    "a device variable that comes later in a secret": (
        "secret: no key that is a variable by which a container runtime hands out devices",
        Change(mirrored("Secret"), {"data": {"HABANA_VISIBLE_DEVICES_X": "YWxs"}}),
    ),
}
