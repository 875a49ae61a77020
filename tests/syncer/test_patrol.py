"""What is reconciled once more when the settings are others."""

from types import SimpleNamespace
from typing import Any

from bulkhead.kube.objects import Key
from syncer.mirrors.references import ON_REFERENCE
from syncer.patrol import Patrol
from syncer.translate.kinds import drain
from syncer.work import Item
from tests.kit.fakeclock import FakeClock


def test_with_other_settings_every_node_is_looked_at_again_and_its_drain_too() -> None:
    queued: list[Item] = []

    def copy(*names: str) -> Any:
        return SimpleNamespace(store=SimpleNamespace(keys=lambda: [Key("", name) for name in names]))

    virtual = {"Node": copy("one"), **{kind: copy() for kind in ON_REFERENCE}}
    caches: Any = SimpleNamespace(kinds={}, virtual=virtual, host={"Node": copy("one")})
    queue: Any = SimpleNamespace(add=lambda item, _lane: queued.append(item))
    patrol = Patrol(caches, queue, SimpleNamespace(refers=lambda *_: False), FakeClock(), 60.0)  # type: ignore[arg-type]
    patrol.all_again()
    assert set(queued) == {Item("Node", Key("", "one")), Item(drain.KIND, Key("", "one"))}
    # The writes that follow from it do not count as repairs.
    assert patrol.pending == set()
