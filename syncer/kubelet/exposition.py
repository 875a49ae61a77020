"""What a virtual node says of the tenant's own pods in Prometheus' text format: the kubelet's paths below `/metrics`. Pure.

    virtual pods on the node + the host's PodMetrics + CPU counted so far ──> /metrics/cadvisor | /metrics/resource | /metrics
    network and disk of own pods (`syncer/nodefigures.py`) ──────────────────^

No text of the host is passed on: every line is made here, of names in the plane and of the host's figures for own containers.
So nothing has to be filtered, and nothing of other tenants or of the node itself can be in it. `/metrics/probes` has no series,
because the host counts probes where only its own kubelets are asked.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings, text
from bulkhead.gpus.exposition import Sample as Figure
from bulkhead.podfigures import FIGURES

Page: TypeAlias = Literal["", "cadvisor", "resource", "probes"]
PAGES: Final[tuple[Page, ...]] = ("", "cadvisor", "resource", "probes")

# A node has some hundred pods at the most; a plane may show more on one.
MOST_SAMPLES: Final = 4096
MOST_FIGURES: Final = 16_384
_LONGEST: Final = 1024
_CPU: Final = ("container_cpu_usage_seconds_total", "counter", "CPU that the container has used, as the host measured it.")
_MEMORY: Final = ("container_memory_working_set_bytes", "gauge", "Memory that the container cannot give back.")


@dataclass(frozen=True, slots=True)
class Sample:
    """One container of one of the tenant's pods on the node."""

    namespace: str
    pod: str
    uid: str
    container: str
    image: str = ""
    # None if the host has not measured it.
    cpu_seconds: float | None = None
    memory_bytes: int | None = None


@dataclass(slots=True)
class NodePods:
    """The tenant's pods on one node: how many, and what was measured of them."""

    pods: int = 0
    samples: list[Sample] = field(default_factory=list)


NO_PODS: Final = NodePods()


def samples_of(virtual: Obj, cpu: Mapping[tuple[str, str], float], memory: Mapping[str, int]) -> Iterator[Sample]:
    """The samples of one pod: only containers that its virtual spec names."""
    meta = mapping(virtual.get("metadata"))
    namespace, pod, uid = (text(meta.get(field)) for field in ("namespace", "name", "uid"))
    spec = mapping(virtual.get("spec"))
    for container in (*mappings(spec.get("initContainers")), *mappings(spec.get("containers"))):
        name = text(container.get("name"))
        if name in memory or (uid, name) in cpu:
            yield Sample(namespace, pod, uid, name, text(container.get("image")), cpu.get((uid, name)), memory.get(name))


def page(about: Page, node: str, here: NodePods, figures: Sequence[Figure] = ()) -> bytes:
    """The text of one page; `figures` are of network and disk, for cAdvisor's."""
    write = {"": _own, "cadvisor": _cadvisor, "resource": _resource, "probes": _probes}[about]
    lines = [*write(node, here.samples[:MOST_SAMPLES], here.pods)]
    if about == "cadvisor":
        lines += _measured(figures[:MOST_FIGURES])
    return ("\n".join(lines) + "\n").encode()


def _own(node: str, samples: list[Sample], pods: int) -> Iterator[str]:
    yield from _family("kubelet_node_name", "gauge", "The node's name. The count is always 1.", [({"node": node}, 1)])
    yield from _family("kubelet_running_pods", "gauge", "Number of your pods on the node.", [({}, pods)])
    yield from _family(
        "kubelet_running_containers",
        "gauge",
        "Number of their containers that were measured.",
        [({"container_state": "running"}, len(samples))],
    )


def _cadvisor(_node: str, samples: list[Sample], _pods: int) -> Iterator[str]:
    yield from _both(
        samples, lambda sample: _labels(sample) | {"id": f"/{sample.uid}/{sample.container}", "image": sample.image}
    )


def _measured(figures: Iterable[Figure]) -> Iterator[str]:
    by_name: dict[str, list[Figure]] = {}
    for figure in figures:
        by_name.setdefault(figure.name, []).append(figure)
    for name, (kind, words) in FIGURES.items():
        if name in by_name:
            yield from _family(name, kind, words, [(figure.labels, figure.value) for figure in by_name[name]])


def _resource(_node: str, samples: list[Sample], _pods: int) -> Iterator[str]:
    yield from _both(samples, _labels)
    for name, kind, attribute, words in (
        ("cpu_usage_seconds_total", "counter", "cpu_seconds", "CPU"),
        ("memory_working_set_bytes", "gauge", "memory_bytes", "Memory"),
    ):
        by_pod: dict[tuple[str, str], float] = {}
        for sample in samples:
            value = getattr(sample, attribute)
            if value is not None:
                by_pod[sample.namespace, sample.pod] = by_pod.get((sample.namespace, sample.pod), 0) + value
        rows = [({"namespace": namespace, "pod": pod}, number) for (namespace, pod), number in sorted(by_pod.items())]
        yield from _family(f"pod_{name}", kind, f"{words} of all containers of the pod.", rows)
        total: list[tuple[dict[str, str], float]] = [({}, sum(by_pod.values()))] if by_pod else []
        yield from _family(f"node_{name}", kind, f"{words} of your pods on the node; not of others.", total)
    yield from _family("resource_scrape_error", "gauge", "1 if there was an error while getting metrics.", [({}, 0)])


def _probes(_node: str, _samples: list[Sample], _pods: int) -> Iterator[str]:
    yield "# Probes are counted on the host and not per tenant: this page has no series."


def _both(samples: list[Sample], labels: Any) -> Iterator[str]:
    cpu = [(labels(sample), sample.cpu_seconds) for sample in samples if sample.cpu_seconds is not None]
    memory = [(labels(sample), sample.memory_bytes) for sample in samples if sample.memory_bytes is not None]
    yield from _family(*_CPU, cpu)
    yield from _family(*_MEMORY, memory)


def _labels(sample: Sample) -> dict[str, str]:
    return {"container": sample.container, "namespace": sample.namespace, "pod": sample.pod}


def _family(name: str, kind: str, words: str, rows: Iterable[tuple[Mapping[str, str], float | int]]) -> Iterator[str]:
    yield f"# HELP {name} {words}"
    yield f"# TYPE {name} {kind}"
    for labels, number in rows:
        written = ",".join(f'{label}="{_escaped(value)}"' for label, value in sorted(labels.items()))
        yield f"{name}{{{written}}} {number}" if written else f"{name} {number}"


def _escaped(value: str) -> str:
    """A label's value, bounded and in UTF-8, on one line."""
    short = value[:_LONGEST].encode("utf-8", "replace").decode()
    return short.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
