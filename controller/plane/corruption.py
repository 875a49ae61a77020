"""The next step if a member of a plane of three has other data than the others. Pure.

    etcd compares hashes ──> alarm CORRUPT with the member's ID, or a member that ends at its start
      ──> give its claim up ──> remove the member ──> disarm ──> delete the pod ──> replaced like one that lost its volume

While the alarm stands, etcd refuses reads and writes. So the member is removed at once, if every other voter
answers. An alarm without an ID says that no majority agrees: then nothing is given up, and an admin decides. That alarm stays
in the store of the member that they continue from, and ends while it is the only one.
"""

from controller.plane import forgetting, quorumrecovery
from controller.plane.membership import Claim, Decision, Disarm, Discard, Listed, Remove, Restart, Standing

UNKNOWN = "0"


def decide(standing: Standing) -> Decision:
    """The next step of whatever a plane of three needs, this first."""
    if standing.record.recovery is not None or not standing.quorate:
        return quorumrecovery.decide(standing)
    for identity in standing.corrupt:
        return _alarmed(standing, identity)
    for pod, found in standing.pods.items():
        claim, member = _claim(standing, pod), standing.at(pod)
        if claim is None or not found.on_node:
            continue
        # It cannot start, or it has been removed; the next pod gets an empty volume, which must not find an open record.
        is_over = (member is None and standing.record.open_for != pod) or found.corrupt
        if claim.ends and is_over and pod not in standing.lists:
            return Decision(Restart(pod, found.uid), corrupt=f"{pod} gets another volume")
        if found.corrupt and member is not None and pod not in standing.lists:
            return _given_up(standing, pod, claim, member)
    return forgetting.decide(standing)


def _alarmed(standing: Standing, identity: str) -> Decision:
    member = next((member for member in standing.listed if member.id == identity), None)
    if identity == UNKNOWN and len(standing.listed) == 1:
        return Decision(Disarm(identity), corrupt="the only member has no others to differ from, and serves again")
    if identity == UNKNOWN:
        words = "the members have different data, and no majority agrees which is right, so nothing is changed by itself"
        return Decision(corrupt=f"{words}: restore a snapshot, or give up two volumes and continue from the third")
    if member is None:
        return Decision(Disarm(identity), corrupt="the member with other data is removed, and the others serve again")
    pod = next((pod for pod, url in standing.urls.items() if url == member.peer_url), "")
    if not standing.all_others_answer(member):
        return Decision(corrupt=f"{pod} has other data than the others, and is replaced once every other member answers")
    claim = _claim(standing, pod)
    if claim is not None and not claim.ends:
        return _given_up(standing, pod, claim, member)
    return Decision(Remove(pod, member, "other data"), corrupt=f"{pod} has other data than the others; it is removed")


def _given_up(standing: Standing, pod: str, claim: Claim, member: Listed) -> Decision:
    words = f"{pod} has other data than the others"
    if not standing.all_others_answer(member):
        return Decision(corrupt=f"{words}, and is replaced once every other member answers")
    return Decision(Discard(claim), corrupt=f"{words}; its volume is given up")


def _claim(standing: Standing, pod: str) -> Claim | None:
    return next((claim for claim in standing.claims if claim.pod == pod), None)
