"""Reads reviewed YAML by libyaml, and refuses a key that stands twice in one mapping. Pure.

YAML's own readers take the last of the two without a word, so an entry that was reviewed would count for nothing.
"""

from collections.abc import Iterator
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode


class DuplicateKeyError(Exception):
    """A mapping has a key twice; the text names key, file and both lines."""


class _Strict(yaml.CSafeLoader):
    """A safe loader that looks at each document before it builds it: merge keys (`<<`) are still apart then."""

    def construct_document(self, node: Node) -> Any:
        for mapping in _mappings(node):
            _check(mapping)
        return super().construct_document(node)


def load(text: str, name: str) -> Any:
    """The one document of a text; `name` is what errors call it. Raises DuplicateKeyError, yaml.YAMLError."""
    try:
        return yaml.load(text, Loader=_Strict)  # noqa: S506 -- a safe loader
    except DuplicateKeyError as error:
        raise DuplicateKeyError(f"{name}: {error}") from None


def documents(text: str, name: str) -> list[Any]:
    """Every document of a text that is not empty. Raises DuplicateKeyError, yaml.YAMLError."""
    try:
        return [item for item in yaml.load_all(text, Loader=_Strict) if item]
    except DuplicateKeyError as error:
        raise DuplicateKeyError(f"{name}: {error}") from None


def _mappings(root: Node) -> Iterator[MappingNode]:
    """Each mapping below a node, itself included; one that has several aliases once."""
    waiting, seen = [root], {id(root)}
    while waiting:
        node = waiting.pop()
        if isinstance(node, MappingNode):
            yield node
            inner = [part for pair in node.value for part in pair]
        else:
            inner = node.value if isinstance(node, SequenceNode) else []
        for part in inner:
            if id(part) not in seen:
                seen.add(id(part))
                waiting.append(part)


def _check(mapping: MappingNode) -> None:
    lines: dict[tuple[str, str], int] = {}  # of each key with its type: 1 and "1" are two keys
    for key, _ in mapping.value:
        if not isinstance(key, ScalarNode):
            continue
        line = key.start_mark.line + 1
        if (first := lines.get((key.tag, key.value))) is not None:
            raise DuplicateKeyError(
                f"key {key.value!r} stands on line {first} and again on line {line}; merge the two, or rename one"
            )
        lines[key.tag, key.value] = line
