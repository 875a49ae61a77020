"""An operator for GpuReports: writes into their status how many GPUs the pods of their namespace have.

kubectl apply -f gpureports.yaml
KUBECONFIG=team-a.yaml kopf run gpu_report_operator.py --namespace default
"""

from collections.abc import Mapping
from typing import Any

import kopf

REPORTS = ("example.org", "v1", "gpureports")
GPU = "nvidia.com/gpu"


@kopf.on.startup()
def settle(settings: kopf.OperatorSettings, **_: Any) -> None:
    # kopf stores its progress in annotations, so that the status has only the report.
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix="gpureports.example.org")
    settings.persistence.finalizer = "gpureports.example.org/operator"


@kopf.index("pods")
def pods(name: str, spec: Mapping[str, Any], status: Mapping[str, Any], **_: Any) -> dict[str, tuple[str, int]]:
    """Phase and GPUs of each pod, kept up to date by kopf's own watch."""
    gpus = sum(int(container.get("resources", {}).get("limits", {}).get(GPU, 0)) for container in spec["containers"])
    return {name: (status.get("phase", "Pending"), gpus)}


@kopf.on.create(*REPORTS)
@kopf.on.update(*REPORTS, field="spec")
def take(body: kopf.Body, spec: Mapping[str, Any], reason: str, **_: Any) -> None:
    kopf.info(body, reason=f"Report{reason.title()}d", message=f"counts the GPUs of pods that are {spec['phase']}")


@kopf.timer(*REPORTS, interval=2.0)  # type: ignore[arg-type] # kopf's types know no names of indexes
def count(spec: Mapping[str, Any], patch: kopf.Patch, pods: kopf.Index[str, tuple[str, int]], **_: Any) -> None:
    """Write the counts of the index into the status; kopf sends no patch if nothing changed."""
    counted = [gpus for store in pods.values() for phase, gpus in store if phase == spec["phase"]]
    patch.status["pods"] = len(counted)
    patch.status["gpus"] = sum(counted)
    patch.status["phase"] = spec["phase"]


@kopf.on.delete(*REPORTS)
def leave(body: kopf.Body, **_: Any) -> None:
    """Write a last event. kopf's finalizer keeps the report until this has run."""
    kopf.info(body, reason="ReportDeleted", message="counts no more")
