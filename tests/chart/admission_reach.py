"""What a syncer might do to be reached, or to keep its pods: Services, endpoints, Ingresses, network policies and budgets."""

from typing import Any

from tests.chart.admission_objects import (
    ANNOTATIONS,
    MARKS,
    NODE_ADDRESS,
    SLICE_LABELS,
    Change,
    at_ports,
    budget,
    by_values,
    certificates,
    endpoints,
    ingress,
    mirrored,
    network_policy,
    node_ports,
    of_many,
    service,
    service_ports,
    with_endpoint,
    with_path,
    with_paths,
)

REFUSED: dict[str, dict[str, Any]] = {
    "node port": service(type="NodePort"),
    "load balancer": service(type="LoadBalancer"),
    "external name": mirrored("Service", spec={"type": "ExternalName", "externalName": "kubernetes.default.svc"}),
    "a name of its own": service(externalName="kubernetes.default.svc"),
    "external address": service(externalIPs=["192.0.2.1"]),
    "another tenant's address": node_ports(externalIPs=["10.112.8.11"]),
    "an address beside the own": node_ports(externalIPs=[NODE_ADDRESS, "192.0.2.1"]),
    "no port of a node": node_ports(443),
    "the kubelet's port": node_ports(30080, 10250),
    "a port before the range": node_ports(29999),
    "a port beyond the range": node_ports(32768),
    "callers behind the node's address": node_ports(externalTrafficPolicy="Cluster"),
    "callers behind the node's address by default": node_ports(externalTrafficPolicy=None),
    "node ports of no pods": node_ports(selector=None),
    "node ports of another tenant's pods": node_ports(selector={"bulkhead.dev/tenant": "team-b"}),
    "node ports that open a port": node_ports(type="NodePort"),
    "a port more than a Service has": service(ports=service_ports(251)),
    "another tenant's pods": service(selector={"bulkhead.dev/tenant": "team-b"}),
    "a policy for everyone": network_policy(ingress=[{}]),
    "a policy for address blocks": network_policy(egress=[{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}]),
    "a policy for another tenant": network_policy(ingress=[{"from": [{"podSelector": {}, "namespaceSelector": {}}]}]),
    "a policy of very many pods": of_many(2001),
    "a policy of very many ports": at_ports(6001),
    "a policy for very many labels": network_policy(
        podSelector={"matchExpressions": [{"key": "a", "operator": "In", "values": [str(value) for value in range(6000)]}]}
    ),
    "another tenant's host": ingress("team-a.x.org", "team-b.x.org"),
    "every tenant's host": ingress("*.x.org"),
    "a host that ends alike": ingress("xteam-a.x.org"),
    "a host of no domain": ingress("team-a.y.org"),
    "a rule for every host": ingress("team-a.x.org") | {"spec": ingress("team-a.x.org")["spec"] | {"rules": [{}]}},
    "a default backend": ingress("team-a.x.org", defaultBackend={"service": {"name": "web", "port": {"number": 80}}}),
    "nothing but a default backend": ingress(defaultBackend={"service": {"name": "web", "port": {"number": 80}}}),
    "a resource as backend": with_path(backend={"resource": {"kind": "Secret", "name": "x"}}),
    "a path with a statement": with_path(path="/a;}$x", pathType="ImplementationSpecific"),
    "a certificate for every host": ingress("team-a.x.org", tls=[{"secretName": "c"}]),
    "a certificate for another tenant": ingress("team-a.x.org", tls=[{"hosts": ["team-b.x.org"]}]),
    "no class": ingress("team-a.x.org", ingressClassName=None),
    "a snippet": ingress("team-a.x.org")
    | {
        "metadata": ingress()["metadata"] | {"annotations": ANNOTATIONS | {"nginx.ingress.kubernetes.io/server-snippet": "x"}},
    },
    "endpoints that the host's controller takes for its own": endpoints("10.244.0.5")
    | {
        "metadata": endpoints()["metadata"]
        | {"labels": MARKS | SLICE_LABELS | {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}}
    },
    "endpoints of no Service": endpoints("10.244.0.5")
    | {
        "metadata": endpoints()["metadata"]
        | {"labels": MARKS | {key: value for key, value in SLICE_LABELS.items() if key != "kubernetes.io/service-name"}}
    },
    "endpoints by name": endpoints(addressType="FQDN"),
    "an endpoint without a pod": with_endpoint(targetRef=None),
    "an endpoint of another tenant's pod": with_endpoint(
        targetRef={"kind": "Pod", "namespace": "bh-team-b-work", "name": "p", "uid": "1"}
    ),
    "an endpoint that is a node": with_endpoint(targetRef={"kind": "Node", "name": "n", "uid": "1"}),
    "an endpoint of a pod that may be any": with_endpoint(
        targetRef={"kind": "Pod", "namespace": "bh-team-a-work", "name": "p"}
    ),
    "an endpoint of two addresses": with_endpoint(addresses=["10.244.0.5", "10.244.0.6"]),
    "an endpoint that is a node's address": endpoints("172.31.255.1"),
    "an endpoint that is the host's API": endpoints("10.96.0.1"),
    "an endpoint that is a tenant's Service": endpoints("10.112.8.1"),
    "endpoints at every port": endpoints("10.244.0.5", ports=[{"name": "every"}]),
    "endpoints at very many ports": endpoints(
        "10.244.0.5", ports=[{"name": f"p{port}", "port": port} for port in range(1, 102)]
    ),
    "endpoints in their older form": mirrored(
        "Endpoints", subsets=[{"addresses": [{"ip": "10.244.0.5"}], "ports": [{"port": 80}]}]
    ),
    "a budget in per cent": budget(minAvailable="100%"),
    "a budget of what may go": budget(minAvailable=None, maxUnavailable=0),
    "a budget without a number": budget(minAvailable=None),
    "a budget beyond all numbers": budget(minAvailable=100001),
    "a budget of every pod": budget(selector={}),
    "a budget of another tenant's pods": budget(
        selector={"matchLabels": {"bulkhead.dev/tenant": "team-b", "bulkhead.dev/namespace-hash": "h"}}
    ),
    "a budget of pods of every namespace": budget(selector={"matchLabels": {"bulkhead.dev/tenant": "team-a"}}),
    "a budget that outlasts every drain": budget(
        selector={"matchLabels": {"bulkhead.dev/tenant": "team-a", "bulkhead.dev/namespace-hash": "h"}}
    ),
    "a budget of drained pods": budget(
        selector={
            "matchLabels": {"bulkhead.dev/tenant": "team-a", "bulkhead.dev/namespace-hash": "h"},
            "matchExpressions": [{"key": "bulkhead.dev/drained", "operator": "Exists"}],
        }
    ),
    "a budget that keeps what is not healthy": budget(unhealthyPodEvictionPolicy="IfHealthyBudget"),
    "a budget that does not say what is not healthy": budget(unhealthyPodEvictionPolicy=None),
    "a budget by very many labels": budget(selector=by_values(100)),
    "an ingress of very many paths": with_paths(201),
    "an ingress with a very long path": with_path(path="/" + 512 * "a"),
    "certificates for very many hosts": ingress("team-a.x.org", tls=certificates(201)),
}
ALLOWED: dict[str, dict[str, Any]] = {
    "endpoints": endpoints("10.244.0.5", "10.244.128.9"),
    "endpoints of six": endpoints("fd00:10:244::5", addressType="IPv6", ports=[]),
    "no endpoints": endpoints() | {"endpoints": None, "ports": None},
    "a budget": budget(minAvailable=0),
    "a budget by many labels": budget(selector=by_values(99)),
    "an ingress of many paths": with_paths(200),
    "an ingress with a long path": with_path(path="/" + 511 * "a"),
    "certificates for many hosts": ingress("team-a.x.org", tls=certificates(200)),
    "a budget of nothing": budget(selector=None),
    "a service": service(),
    "a service with as many ports as one has": service(ports=service_ports(250)),
    "node ports": node_ports(30000, 32767),
    "an ingress": ingress("team-a.x.org", "a.b.team-a.x.org", "*.team-a.x.org", tls=[{"hosts": ["*.team-a.x.org"]}]),
    "a policy for its own pods": network_policy(ingress=[{"from": [{"podSelector": {"matchLabels": {"app": "a"}}}]}]),
    "as large a policy as may be": of_many(2000),
    "a policy of as many ports as may be": at_ports(6000),
}
CHANGES: dict[str, Change] = {
    "endpoints that lead to the host's API": Change(
        endpoints("10.244.0.5"), {"endpoints": endpoints("10.96.0.1")["endpoints"]}
    ),
    "endpoints that lose their pod": Change(endpoints("10.244.0.5"), {"endpoints": [{"addresses": ["10.244.0.5"]}]}),
    "endpoints at every port now": Change(endpoints("10.244.0.5"), {"ports": [{"name": "every"}]}),
    "endpoints that leave their Service": Change(
        endpoints("10.244.0.5"), {"metadata": {"labels": {"kubernetes.io/service-name": None}}}
    ),
    "endpoints that the host's controller adopts": Change(
        endpoints("10.244.0.5"), {"metadata": {"labels": {"endpointslice.kubernetes.io/managed-by": None}}}
    ),
    "a policy of very many pods now": Change(network_policy(), {"spec": {"ingress": of_many(2001)["spec"]["ingress"]}}),
    "a budget by very many labels now": Change(budget(), {"spec": {"selector": by_values(100)}}),
    "an ingress of very many paths now": Change(ingress("team-a.x.org"), {"spec": {"rules": with_paths(201)["spec"]["rules"]}}),
    "certificates for very many hosts now": Change(ingress("team-a.x.org"), {"spec": {"tls": certificates(201)}}),
    "a budget in per cent now": Change(budget(), {"spec": {"minAvailable": "50%"}}),
    "a budget that lets none go": Change(budget(), {"status": {"disruptionsAllowed": 0}}, "status"),
}
