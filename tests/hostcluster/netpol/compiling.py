"""The rules of a whole cluster in one go: what the rulebook, which works step by step, must come to as well."""

from workstation.hostcluster.netpol.cluster import Cluster
from workstation.hostcluster.netpol.compiler import PodRules, Sources, compile_namespace, policies_by_namespace
from workstation.hostcluster.netpol.index import ClusterIndex


def compile_rules(cluster: Cluster, node: str) -> tuple[PodRules, ...]:
    """The rules of every pod on this node, isolated or not, in the order of their addresses."""
    index, policies = ClusterIndex(cluster.pods, cluster.namespaces), policies_by_namespace(cluster)
    made: list[PodRules] = []
    for name in index.spaces:
        steps = compile_namespace(index, name, Sources(policies.get(name, ())), node)
        try:
            while True:
                next(steps)
        except StopIteration as done:
            made += done.value
    return tuple(sorted(made, key=lambda rules: rules.address))
