"""The next step by which a plane of three comes back from one member, after its quorum was lost. Pure.

    Recovery(plane-2), asked for ──> quarantine ──> note what is given up ──> delete the claims and pods of the others
      closed <── it is the only voter, and leads <── restart it alone <── allow it to start alone ──┘

An admin asks for it (`bulkhead tenant recover`), because acknowledged writes may be lost. etcd's own `--force-new-cluster`
makes a member forget all others. The containers of all pods read that flag from one record, so it is set only when no pod can
have another volume than the chosen one: a claim that is being deleted is not mounted again, and a member with an empty volume
does not start while the record is closed. The members that then are missing are replaced one at a time (`membership`).

Each step is decided from what is there now, so that a controller may die between any two. Before anything is deleted, a quorum
that is back ends the recovery.
"""

from dataclasses import replace
from typing import Final

from controller.plane import membership
from controller.plane.memberrecord import Record, Recovery
from controller.plane.membership import Decision, Discard, Quarantine, Restart, Standing, Write

# Longer than an etcd that starts alone takes to read its log and to lead.
_STARTS_WITHIN_SECONDS: Final = 120.0


def decide(standing: Standing) -> Decision:
    """The next step of a recovery; without one, the next step of the members."""
    recovery = standing.record.recovery
    if recovery is None:
        return membership.decide(standing)
    if recovery.pod not in standing.urls:
        return Decision(_closed(standing), trouble=f"there is no member {recovery.pod} to recover from")
    if not recovery.former:
        return _asked(standing, recovery)
    return _alone(standing, recovery) if recovery.forced else _given_up(standing, recovery)


def _asked(standing: Standing, recovery: Recovery) -> Decision:
    """Nothing has changed yet."""
    pod = recovery.pod
    if standing.quorate:
        return Decision(_closed(standing), trouble=f"a quorum answers again, so nothing is recovered from {pod}")
    if pod not in standing.heard or pod not in standing.pods:
        return Decision(recovering=f"waits until {pod} answers")
    if not any(claim.pod == pod and not claim.ends for claim in standing.claims):
        return Decision(recovering=f"waits: the volume of {pod} is being deleted, so nothing can be recovered from it")
    if not standing.quarantined:
        return Decision(Quarantine(f"recovered from member {pod} after its quorum was lost: writes may be missing"))
    others = tuple(sorted(claim.uid for claim in standing.claims if claim.pod != pod))
    noted = replace(recovery, former=standing.pods[pod].uid, discards=others)
    return Decision(Write(Record(recovery=noted, version=standing.record.version)), recovering="begins")


def _given_up(standing: Standing, recovery: Recovery) -> Decision:
    """Nothing of the others may be left before one member starts alone: two of them would be a quorum of the old cluster."""
    left = [claim for claim in standing.claims if claim.uid in recovery.discards and claim.pod != recovery.pod]
    for claim in left:
        if not claim.ends:
            return Decision(Discard(claim), recovering=f"the volume of {claim.pod} is given up")
    for claim in left:
        pod = standing.pods.get(claim.pod)
        if pod is not None and pod.on_node:
            return Decision(Restart(pod.name, pod.uid), recovering=f"{pod.name} ends")
    if left:
        names = " and ".join(sorted(claim.pod for claim in left))
        words = "if its node is off for good, delete the pod with --grace-period=0 --force"
        return Decision(recovering=f"waits until the pod of {names} has ended; {words}")
    return Decision(
        Write(replace(standing.record, recovery=replace(recovery, forced=True))), recovering=f"{recovery.pod} starts alone"
    )


def _alone(standing: Standing, recovery: Recovery) -> Decision:
    pod = recovery.pod
    voters = standing.voters
    if pod in standing.lists and [voter.name for voter in voters] == [pod] and len(standing.listed) == 1:
        return Decision(_closed(standing), recovering=f"{pod} serves alone")
    found = standing.pods.get(pod)
    if found is not None and (found.uid == recovery.former or found.runs_for > _STARTS_WITHIN_SECONDS):
        return Decision(Restart(pod, found.uid), recovering=f"{pod} starts alone")
    return Decision(recovering=f"waits until {pod} serves alone")


def _closed(standing: Standing) -> Write:
    """The recovery ends; no member without data may start, and none may start alone."""
    return Write(Record(version=standing.record.version))
