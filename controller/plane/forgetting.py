"""The next step if a member that was being added lost its volume after it had received data. Pure.

    it started while the record was open, acknowledged entries ──> its volume is empty again, under the same ID
      ──> its leader expects those entries, and etcd ends, at every start ──> give its claim up ──> remove the member
      ──> close the record ──> delete the pod ──> added again like one that lost its volume

A learner's acknowledgements count for nothing, so it may go. A voter that has never started goes if every other voter answers.
A voter that has started is left as it is: an admin decides what its volume is worth.
"""

from controller.plane import quorumrecovery
from controller.plane.membership import Decision, Discard, Listed, Remove, Standing


def decide(standing: Standing) -> Decision:
    """The next step of whatever a plane of three needs, this first."""
    if standing.record.recovery is None and standing.quorate:
        for pod, found in standing.pods.items():
            member = standing.at(pod) if pod in standing.urls and found.forgot else None
            if member is not None and (member.learner or not member.name) and pod not in standing.lists:
                return _given_up(standing, pod, member)
    return quorumrecovery.decide(standing)


def _given_up(standing: Standing, pod: str, member: Listed) -> Decision:
    words = f"{pod} has lost what it had received before it voted"
    if not standing.can_spare(member):
        return Decision(trouble=f"{words}; it is added again once every other member answers")
    claim = next((claim for claim in standing.claims if claim.pod == pod), None)
    # The claim goes with its pod. It is marked first: once the member is removed, its etcd ends with other words.
    step = Discard(claim) if claim is not None and not claim.ends else Remove(pod, member, "forgotten")
    return Decision(step, moving=f"{words}; it is added again with another volume")
