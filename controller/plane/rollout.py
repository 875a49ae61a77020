"""The next step if pods of a plane of three were made from an earlier template. Pure.

    another template ──> every member answers and is ready? ──> evict one pod, the highest first ──> it is back ──> the next
                         a pod that serves nothing is deleted before, in any case: the template may be what heals it

The StatefulSet replaces pods on deletion only. Its own rollout looks at the pods above the next one: with plane-2 done and
plane-0 away it would end plane-1, and the plane has no quorum. An eviction is granted by the API server, which counts all
evictions against the plane's disruption budget, so a drain of a node and a rollout never take two members at once.
"""

from dataclasses import replace

from controller.plane import corruption
from controller.plane.membership import Decision, Evict, Pod, Restart, Standing


def decide(standing: Standing) -> Decision:
    """The next step of whatever a plane of three needs; a rollout comes last."""
    first = corruption.decide(standing)
    outdated = [pod for pod in standing.pods.values() if pod.outdated and not pod.alone]
    is_busy = first.step is not None or first.replacing or first.moving or first.corrupt
    if is_busy or standing.record.recovery is not None or not outdated:
        return first
    names = " and ".join(sorted(pod.name for pod in outdated))
    for pod in outdated:
        if _serves_nothing(standing, pod):
            return replace(first, step=Restart(pod.name, pod.uid), rolling=f"{names} start again with the present settings")
    if _is_whole(standing):
        last = max(outdated, key=lambda pod: pod.name)
        return Decision(Evict(last.name, last.uid), rolling=f"{names} start again with the present settings, one at a time")
    return replace(first, rolling=f"{names} start again with the present settings once every member answers")


def _serves_nothing(standing: Standing, pod: Pod) -> bool:
    """Whether neither its kubelet nor its etcd says that it is there."""
    return not pod.ready and pod.name not in standing.heard


def _is_whole(standing: Standing) -> bool:
    """Whether every member votes, answers and is ready, so that the plane serves without any one of them."""
    pods = standing.urls
    ready = all(pod in standing.pods and standing.pods[pod].ready for pod in pods)
    return ready and len(standing.voters) == len(standing.listed) == len(pods) and all(pod in standing.lists for pod in pods)
