"""Tells jobs why the workers that they wait for are not there, where `scontrol show job` shows it. Pure.

    a waiting worker's condition ──> AdminComment of the jobs that wait for workers of its set

Only Slurm writes the reason that it shows itself. An admin's comment stays; our comments are removed once they no longer apply.
Only a few jobs get a comment at a time, those first that Slurm would start first.
"""

from collections.abc import Iterator
from typing import Final

from controller.slurm.answers.view import SlurmJob, SlurmView
from controller.slurm.lease.demand import is_helped
from controller.slurm.lease.fleet import Fleet, Note
from controller.slurm.spec import REASON_PREFIX

WAITS: Final = f"{REASON_PREFIX} waits for a worker of "
MOST_NOTES_A_RECONCILE: Final = 8
_NOTE_CHARACTERS: Final = 400


def notes(view: SlurmView, fleet: Fleet) -> Iterator[Note]:
    """The comments to write."""
    why: dict[str, str] = {}
    for worker in fleet.workers:
        if worker.why_not_there:
            why.setdefault(worker.node_set, worker.why_not_there)
    left = MOST_NOTES_A_RECONCILE
    for job in sorted(view.jobs or (), key=lambda job: (-job.priority, job.job_id)):
        # Jobs that have ended get no comments.
        ours = (job.pending or job.active) and (job.note == "" or job.note.startswith(WAITS))
        if left and ours and job.note != (text := _comment(job, why)):
            left -= 1
            yield Note(job.job_id, text)


def _comment(job: SlurmJob, why: dict[str, str]) -> str:
    name = next((name for name in job.partitions if name in why), None)
    if name is None or not is_helped(job):
        return ""
    return f"{WAITS}{name}: {why[name]}"[:_NOTE_CHARACTERS]
