"""The compiled rules let through exactly what the policies mean."""

from ipaddress import IPv4Address
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hostcluster.netpol.compiling import compile_rules
from tests.hostcluster.netpol.naive import Packet, World
from workstation.hostcluster.netpol.cluster import cluster_from
from workstation.hostcluster.netpol.compiler import PodRules, Profile
from workstation.hostcluster.netpol.render import render

NODE = "node"
OUTSIDE = ("192.0.2.1", "10.1.2.3", "172.31.255.1")
PORTS = (53, 80, 81, 8080, 9000)
NAMES = ("web", "dns")

labels = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["a", "b"]), max_size=2)
expressions = st.builds(
    lambda key, operator, values: {"key": key, "operator": operator, "values": values},
    st.sampled_from(["app", "tier"]),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=2),
)
selectors = st.fixed_dictionaries({}, optional={"matchLabels": labels, "matchExpressions": st.lists(expressions, max_size=2)})
blocks = st.builds(
    lambda cidr, holes: {"ipBlock": {"cidr": cidr, "except": holes}},
    st.sampled_from(["0.0.0.0/0", "10.0.0.0/8", "10.244.0.0/30", "192.0.2.1/32"]),
    st.lists(st.sampled_from(["10.244.0.0/30", "10.1.0.0/16", "0.0.0.0/0", "10.244.0.2/32"]), max_size=2),
)
by_labels = st.fixed_dictionaries({}, optional={"podSelector": selectors, "namespaceSelector": selectors}).filter(bool)
plain_ports = st.fixed_dictionaries(
    {}, optional={"protocol": st.sampled_from(["TCP", "UDP", "SCTP"]), "port": st.sampled_from([*PORTS, *NAMES])}
)
ranges = st.builds(
    lambda first, length: {"port": first, "endPort": first + length}, st.sampled_from(PORTS), st.integers(0, 2000)
)
ports = st.lists(plain_ports | ranges, max_size=3)


def rules(peers: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(
        st.fixed_dictionaries({}, optional={peers: st.lists(blocks | by_labels, max_size=3), "ports": ports}), max_size=3
    )


policies = st.builds(
    lambda namespace, spec: {"metadata": {"namespace": namespace, "name": "p"}, "spec": spec},
    st.sampled_from(["red", "blue"]),
    st.fixed_dictionaries(
        {"podSelector": selectors},
        optional={
            "policyTypes": st.lists(st.sampled_from(["Ingress", "Egress"]), min_size=1, max_size=2, unique=True),
            "ingress": rules("from"),
            "egress": rules("to"),
        },
    ),
)
container_ports = st.lists(
    st.builds(
        lambda name, port, protocol: {"name": name, "containerPort": port, "protocol": protocol},
        st.sampled_from(NAMES),
        st.sampled_from(PORTS),
        st.sampled_from(["TCP", "UDP"]),
    ),
    max_size=2,
)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Any], list[Any], list[Any]]:
    pods = [
        {
            "metadata": {"namespace": draw(st.sampled_from(["red", "blue"])), "name": f"pod-{index}", "labels": draw(labels)},
            "spec": {"nodeName": NODE, "containers": [{"ports": draw(container_ports)}]},
            "status": {"phase": "Running", "podIP": f"10.244.0.{index + 2}"},
        }
        for index in range(draw(st.integers(1, 4)))
    ]
    namespaces = [{"metadata": {"name": name, "labels": draw(labels)}} for name in ("red", "blue")]
    return pods, namespaces, draw(st.lists(policies, max_size=4))


def _through(profile: Profile | None, address: str, protocol: str, port: int) -> bool:
    if profile is None:
        return True
    return any(
        (rule.peers is None or any(IPv4Address(address) in network for network in rule.peers))
        and (rule.ports is None or any(one.protocol == protocol and one.first <= port <= one.last for one in rule.ports))
        for rule in profile
    )


def _arrives(compiled: dict[str, PodRules], packet: Packet) -> bool:
    if packet.source == packet.target:
        return True
    sender, receiver = compiled.get(packet.source), compiled.get(packet.target)
    out = sender is None or _through(sender.egress, packet.target, packet.protocol, packet.port)
    return out and (receiver is None or _through(receiver.ingress, packet.source, packet.protocol, packet.port))


@settings(max_examples=150, deadline=None)
@given(world=worlds(), port=st.sampled_from(PORTS), protocol=st.sampled_from(["TCP", "UDP", "SCTP"]))
def test_compiled_rules_mean_what_the_policies_mean(
    world: tuple[list[Any], list[Any], list[Any]], port: int, protocol: str
) -> None:
    pods, namespaces, chosen = world
    compiled = {str(one.address): one for one in compile_rules(cluster_from(pods, namespaces, chosen), NODE)}
    naive = World(pods, namespaces, chosen)
    addresses = [pod["status"]["podIP"] for pod in pods]
    for source in [*addresses, *OUTSIDE]:
        for target in [*addresses, *OUTSIDE]:
            packet = Packet(source, target, protocol, port)
            assert _arrives(compiled, packet) == naive.allows(packet), packet


@settings(max_examples=50, deadline=None)
@given(world=worlds(), random=st.randoms(use_true_random=False))
def test_text_does_not_depend_on_the_order_of_objects(world: tuple[list[Any], list[Any], list[Any]], random: Any) -> None:
    pods, namespaces, chosen = world
    text = render(compile_rules(cluster_from(pods, namespaces, chosen), NODE))
    for one in (pods, namespaces, chosen):
        random.shuffle(one)
    assert render(compile_rules(cluster_from(pods, namespaces, chosen), NODE)) == text
