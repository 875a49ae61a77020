"""Finds the signal that a job requests before its end, `--signal=[B:]USR1[@60]`, in its record. Pure; hostile input.

slurmrestd does not report the option itself. It reports the command line of the submission, which may contain the option, and
the job's comment, into which a script can write `signal=B:USR1@60` to repeat an option of its `#SBATCH` lines.
"""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from controller.slurm.answers.view import EndSignal

_OPTION: Final = "--signal"
_IN_COMMENT: Final = "signal="
_ASKED: Final = re.compile(r"(?:([RB]{1,2}):)?(?:SIG)?([A-Z][A-Z0-9]{1,7}|[1-9][0-9]?)(?:@([0-9]{1,5}))?")
# The signals that Slurm knows, without those that end or stop a job at once: these follow by themselves.
_NAMES: Final = frozenset(
    {"ABRT", "ALRM", "CONT", "HUP", "INT", "QUIT", "TERM", "TSTP", "TTIN", "TTOU", "URG", "USR1", "USR2", "XCPU"}
)
_NUMBERS: Final = frozenset(map(str, range(1, 32))) - {"9", "19"}
_SPACES: Final = re.compile(r"[\s,;]+")
_TEXT_CHARACTERS: Final = 4096
_USUAL_LEAD_SECONDS: Final = 60  # if a job names none


def signal_of(submit_line: str, comment: str) -> EndSignal | None:
    """The signal that a job requests; None if it names none, or if it cannot be read."""
    for word in (*_options(submit_line[:_TEXT_CHARACTERS]), *_words(comment[:_TEXT_CHARACTERS])):
        found = _ASKED.fullmatch(word)
        if found is not None and found[2] in _NAMES | _NUMBERS:
            lead = timedelta(seconds=int(found[3]) if found[3] else _USUAL_LEAD_SECONDS)
            return EndSignal(found[2], lead, batch="B" in (found[1] or ""))
    return None


def _options(line: str) -> Iterator[str]:
    words = line.split()
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == _OPTION:
            yield value if equals else "".join(words[at + 1 : at + 2])


def _words(comment: str) -> Iterator[str]:
    for word in _SPACES.split(comment):
        if word.startswith(_IN_COMMENT):
            yield word.removeprefix(_IN_COMMENT)
