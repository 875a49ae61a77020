"""Computes the place in the network and the features of Slurm's nodes, from the nodes that their workers run on. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from bulkhead.api.objects import Obj
from controller.slurm.answers.view import SlurmView
from controller.slurm.config.topology import features_of, place
from controller.slurm.lease.fleet import Worker
from controller.slurm.spec import SlurmSpec


@dataclass(frozen=True, slots=True)
class Site:
    """The place and features that a Slurm node should have, by the node that its worker runs on."""

    node: str
    topology: str
    features: tuple[str, ...]


def sites(spec: SlurmSpec, view: SlurmView, workers: Iterable[Worker], nodes: Iterable[Obj]) -> tuple[Site, ...]:
    """The Slurm nodes whose place or features differ from the labels of their nodes, with the right ones."""
    hosts = {str(node["metadata"]["name"]): node for node in nodes}
    found = []
    for worker in workers:
        node_set, record, host = spec.node_set(worker.node_set), view.node(worker.name), hosts.get(worker.host_node)
        if node_set is None or record is None or host is None or not worker.live or not record.responds:
            continue
        # A label must not let a worker into another node set's partition.
        others = {node_set.name for node_set in spec.node_sets} - {node_set.name}
        named = [feature for feature in features_of(host, gpus=node_set.gpus > 0) if feature not in others]
        site = Site(worker.name, place(spec.topology, host), tuple(dict.fromkeys((*node_set.all_features, *named))))
        if (site.topology and site.topology != record.topology) or frozenset(site.features) != record.features:
            found.append(site)
    return tuple(found)
