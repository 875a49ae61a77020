"""How a class bounds the nodes of its tenants. Pure."""

from collections.abc import Iterator
from typing import Final

from controller.decide.bounds.question import Excess, Question
from controller.sections import section_of

_DEDICATED: Final = ("nodes", "dedicated")


def node_selector(question: Question) -> Iterator[Excess]:
    """A tenant's selector may only narrow the pool of its class."""
    asked, offered = (section_of(section_of(side, "nodes"), "selector") for side in (question.asked, question.offer))
    for key, value in sorted(asked.items()):
        if key in offered and offered[key] != value:
            message = f"spec.nodes.selector[{key}]: must be {offered[key]!r} as in the pool of the class, not {value!r}"
            yield Excess(("nodes", "selector", key), message)


def dedicated(question: Question) -> Iterator[Excess]:
    """A dedicated pool of the class must stay dedicated; a tenant may dedicate nodes only if the class allows some."""
    asked, offer = section_of(question.asked, "nodes").get("dedicated"), section_of(question.offer, "nodes")
    if asked is False and offer.get("dedicated") is True:
        yield Excess(_DEDICATED, "spec.nodes.dedicated: false is not allowed: the class requires true; leave it out")
    if asked is True and offer.get("dedicated") is not True and not offer.get("maxDedicated"):
        most = offer.get("maxDedicated") or 0
        message = f"spec.nodes.dedicated: true is not allowed: the class allows {most} nodes (nodes.maxDedicated)"
        yield Excess(_DEDICATED, message)
