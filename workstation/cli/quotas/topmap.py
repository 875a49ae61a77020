"""The map of `bulkhead top`: which tenant has how many accelerators of which nodes, within so many lines. Pure.

    nodes, pods ──> blocks: a letter for each device of a node ──> by domain ──> as much detail as fits:
        a line for each node ──> blocks next to each other ──> equal blocks counted ──> all domains together, cut off

The host's API does not tell which device of a node a pod has. So a block shows how many, with those of one tenant together. A
block with both letters and dots is a partial node; gangs wait for whole nodes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from bulkhead.api.labels import NVLINK_DOMAIN, RACK
from bulkhead.ledger.model import HELD, Node, Pod, Snapshot

FREE: Final = "."
OTHERS: Final = "#"
CLOSED: Final = "!"
_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_BEYOND: Final = "?"
# A node with more devices (time-sliced, MIG) is drawn as numbers.
_DRAWN: Final = 16
_NO_DOMAIN: Final = ("", "")
Paint: TypeAlias = Callable[[str, str], str]  # gets one or more letters, and their tenant


@dataclass(frozen=True, slots=True)
class Block:
    """One node, for one resource."""

    node: str
    domain: tuple[str, str]
    capacity: int
    # Devices by tenant; "" for pods that do not belong to a tenant.
    held: tuple[tuple[str, int], ...]
    usable: bool

    @property
    def free(self) -> int:
        """The number of devices that are not in use."""
        return max(0, self.capacity - sum(number for _, number in self.held))

    @property
    def state(self) -> str:
        """`whole`, `partial` or `full`; `closed` if the node accepts no pods."""
        if not self.usable:
            return "closed"
        return "whole" if not self.held else "partial" if self.free else "full"

    @property
    def look(self) -> tuple[int, tuple[tuple[str, int], ...], bool]:
        """Blocks with the same key look alike."""
        return self.capacity, self.held, self.usable


def blocks(snapshot: Snapshot, resource: str) -> list[Block]:
    """All nodes that have the resource, by domain and name."""
    held: dict[str, Counter[str]] = {}
    for pod in snapshot.pods:
        node, amount = where(pod), pod.asks.get(resource, 0)
        if node and amount:
            held.setdefault(node, Counter())[pod.tenant] += amount
    having = (node for node in snapshot.nodes if node.allocatable.get(resource, 0) > 0 or node.name in held)
    made = [_block(node, resource, held.get(node.name, Counter())) for node in having]
    return sorted(made, key=lambda block: (block.domain == _NO_DOMAIN, block.domain, _natural(block.node)))


def where(pod: Pod) -> str:
    """The node on which a pod has devices, or soon will."""
    return pod.node or pod.pinned if pod.stage in HELD else ""


def _block(node: Node, resource: str, held: Mapping[str, int]) -> Block:
    domain = (node.labels.get(RACK, ""), node.labels.get(NVLINK_DOMAIN, ""))
    tenants = tuple(sorted(held.items(), key=lambda item: (not item[0], item[0])))
    return Block(node.name, domain, node.allocatable.get(resource, 0), tenants, node.usable)


def _natural(name: str) -> tuple[str, int, str]:
    """A sort key that puts node-2 before node-10."""
    stem = name.rstrip("0123456789")
    digits = name[len(stem) :]
    return stem, int(digits[:9] or 0), name


def letters(tenants: Iterable[str]) -> dict[str, str]:
    """A letter for each tenant: if possible one of its name, from the last part first (team-b is B)."""
    found: dict[str, str] = {}
    left = dict.fromkeys(_LETTERS)
    for tenant in tenants:
        own = [letter.upper() for letter in tenant.rpartition("-")[2] + tenant if letter.isascii() and letter.isalnum()]
        letter = next((candidate for candidate in own if candidate in left), next(iter(left), _BEYOND))
        left.pop(letter, None)
        found[tenant] = letter
    return found


def drawn(block: Block, names: Mapping[str, str], paint: Paint) -> tuple[str, int]:
    """A block as text, and its width."""
    parts = [(names.get(tenant, _BEYOND) if tenant else OTHERS, number, tenant) for tenant, number in block.held]
    if block.capacity > _DRAWN:
        words = [(f"{letter}{number}", tenant) for letter, number, tenant in parts] + [(f"{FREE}{block.free}", "")]
        text = " ".join(paint(word, tenant) for word, tenant in words)
        width = sum(len(word) for word, _ in words) + len(words) - 1
    else:
        words = [(letter * number, tenant) for letter, number, tenant in parts]
        text = "".join(paint(word, tenant) for word, tenant in words) + FREE * block.free
        width = sum(len(word) for word, _ in words) + block.free
    return (text, width) if block.usable else (f"{CLOSED}{text}", width + 1)


def picture(shown: Sequence[Block], names: Mapping[str, str], *, lines: int, width: int, paint: Paint) -> list[str]:
    """The nodes in at most `lines` lines of at most `width` columns."""
    for draw in (_by_node, _side_by_side, _counted):
        found = draw(shown, names, width, paint)
        if len(found) <= lines:
            return found
    whole = [Block(block.node, _NO_DOMAIN, block.capacity, block.held, block.usable) for block in shown]
    found = _counted(whole, names, width, paint)
    if len(found) <= max(lines, 2):
        return found
    return [*found[: max(lines, 2) - 1], f"… {len(found) - max(lines, 2) + 1} more lines: enlarge the terminal, or use -o json"]


def _by_node(shown: Sequence[Block], names: Mapping[str, str], width: int, paint: Paint) -> list[str]:
    """A line for each node, under its domain."""
    widest = max((drawn(block, names, paint)[1] for block in shown), default=0)
    room = min(max((len(block.node) for block in shown), default=0), max(8, width - widest - 12))
    found: list[str] = []
    for domain, members in _domains(shown):
        found += [f"{domain}"] if domain else []
        indent = "  " if domain else ""
        found += [
            f"{indent}{_shortened(block.node, room):<{room}}  {drawn(block, names, paint)[0]}  {block.state}"
            for block in members
        ]
    return found


def _shortened(name: str, room: int) -> str:
    """A name within `room` columns; similar names of nodes usually differ at their end, so the end stays."""
    if len(name) <= room:
        return name
    head = (room - 1) // 2
    return f"{name[:head]}…{name[len(name) - (room - 1 - head) :]}"


def _side_by_side(shown: Sequence[Block], names: Mapping[str, str], width: int, paint: Paint) -> list[str]:
    """Nodes in the order of their names, next to each other, without their names."""
    found: list[str] = []
    for domain, members in _domains(shown):
        found += wrapped(domain, [drawn(block, names, paint) for block in members], width)
    return found


def _counted(shown: Sequence[Block], names: Mapping[str, str], width: int, paint: Paint) -> list[str]:
    """Nodes that look alike are drawn once, with their number; nodes in use come first."""
    found: list[str] = []
    for domain, members in _domains(shown):
        looks: dict[object, list[Block]] = {}
        for block in members:
            looks.setdefault(block.look, []).append(block)
        words = []
        for alike in sorted(looks.values(), key=lambda alike: (not alike[0].held, -len(alike), alike[0].node)):
            text, size = drawn(alike[0], names, paint)
            times = f"{len(alike)}x" if len(alike) > 1 else ""
            words.append((f"{times}{text}", len(times) + size))
        found += wrapped(domain, words, width)
    return found


def _domains(shown: Sequence[Block]) -> list[tuple[str, list[Block]]]:
    """Nodes by rack and NVLink domain, if they have the labels."""
    found: dict[tuple[str, str], list[Block]] = {}
    for block in shown:
        found.setdefault(block.domain, []).append(block)
    return [(" / ".join(part for part in domain if part), members) for domain, members in found.items()]


def wrapped(title: str, words: Sequence[tuple[str, int]], width: int) -> list[str]:
    """Words of known width, wrapped into lines that begin with a title or are indented."""
    indent = f"{title}: " if title else ""
    found, line, used = [], indent, len(indent)
    empty = True
    for text, size in words:
        if not empty and used + 1 + size > width:
            found.append(line)
            line, used, empty = " " * min(len(indent), 4), min(len(indent), 4), True
        line += text if empty else f" {text}"
        used += size if empty else size + 1
        empty = False
    return [*found, line]
