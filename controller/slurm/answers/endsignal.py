"""Which signal a job wants before its end, as its record tells: `--signal=[B:]USR1[@60]`. Pure; hostile input.

slurmrestd does not report the option itself. What it reports is how the job was submitted, where the option may stand, and the
job's comment, where a script puts `signal=B:USR1@60` for what stands in its `#SBATCH` lines.
"""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from controller.slurm.answers.view import EndSignal

_OPTION: Final = "--signal"
_IN_COMMENT: Final = "signal="
_ASKED: Final = re.compile(r"(?:([RB]{1,2}):)?(?:SIG)?([A-Z][A-Z0-9]{1,7}|[1-9][0-9]?)(?:@([0-9]{1,5}))?")
# Those that Slurm knows, without those that end or stop a job at once: that comes by itself.
_NAMES: Final = frozenset(
    {"ABRT", "ALRM", "CONT", "HUP", "INT", "QUIT", "TERM", "TSTP", "TTIN", "TTOU", "URG", "USR1", "USR2", "XCPU"}
)
_NUMBERS: Final = frozenset(map(str, range(1, 32))) - {"9", "19"}
_SPACES: Final = re.compile(r"[\s,;]+")
_TEXT_CHARACTERS: Final = 4096
_USUAL_LEAD_SECONDS: Final = 60  # where a job names none


def signal_of(submit_line: str, comment: str) -> EndSignal | None:
    """The signal; None for a job that names none, or none that can be read."""
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
