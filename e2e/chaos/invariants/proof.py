"""I11: every fault proves that it happened, and what is expected is recorded before it begins. Pure."""

from collections.abc import Sequence

from e2e.chaos.history import Announced, Evidence, History
from e2e.chaos.invariants.violation import Violation


def faults_proven(history: History, experiments: Sequence[str]) -> list[Violation]:
    """I11: every experiment ran, its hypothesis was recorded before its fault, and it proves that its fault happened."""
    evidence = history.all(Evidence)
    began = {span.experiment: span.begin for span in history.spans}
    announced = {item.experiment: item.at for item in history.all(Announced) if item.hypothesis}
    found = [] if experiments else [Violation("I11", "run", "no experiment was asked for")]
    for name in experiments:
        own = [item for item in evidence if item.experiment == name]
        if name not in began:
            found.append(Violation("I11", name, "the experiment did not run to its end"))
        elif not own:
            found.append(Violation("I11", name, "no evidence that the fault happened"))
        if name in began and announced.get(name, began[name] + 1) > began[name]:
            found.append(Violation("I11", name, "no hypothesis was recorded before the fault"))
        found += [Violation("I11", name, f"not proven: {item.text}") for item in own if not item.proven]
    return found
