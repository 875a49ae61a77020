"""How large all ConfigMaps and Secrets of a tenant on the host may be together, and what is known of it after a start."""

from bulkhead.kube.objects import Key
from syncer.mirrors.room import Room
from syncer.work import Item

MOST = 10 << 20
LARGEST = 3 << 19
A, B, C = (Item("ConfigMap", Key("team", name)) for name in "abc")
MIB = 1 << 20


def test_what_comes_on_top_needs_room_and_what_is_there_stays() -> None:
    room = Room((), MOST)
    assert room.take(A, 6 * MIB)
    assert room.take(B, 4 * MIB)
    assert not room.take(C, 1)
    assert not room.take(B, 4 * MIB + 1), "nor may one grow"
    assert room.take(B, 4 * MIB), "what stays as large as it was may be written"
    assert room.take(B, 3 * MIB)
    assert room.take(C, MIB)
    room.free(A)
    assert room.take(B, 9 * MIB)
    room.free(C)
    room.free(C)
    assert room.take(B, MOST)
    assert not room.take(A, 1)


def test_what_is_larger_than_the_room_may_shrink() -> None:
    room = Room((), MOST)
    room.set(A, 3 * MOST)
    assert room.take(A, 2 * MOST)
    assert not room.take(A, 3 * MOST)
    assert not room.take(B, 1)


def test_after_a_start_a_copy_counts_as_the_largest_until_it_was_looked_at() -> None:
    held = [Item("Secret", Key("team", f"s{number}")) for number in range(6)]
    room = Room(held, MOST)
    assert not room.knows_others(A)
    assert not room.take(A, 2 * MIB)
    assert room.take(A, MOST - 6 * LARGEST), "what surely fits need not wait"
    room.free(A)
    assert not room.take(held[0], MOST - 5 * LARGEST + 1), "what is written again counts as itself"
    for item in held[:4]:
        room.set(item, 10)
    room.free(held[5])
    assert not room.knows_others(A)
    assert room.knows_others(held[4]), "which waits for no other"
    room.looked_at(held[4])
    assert room.knows_others(A)
    assert not room.take(A, MOST - LARGEST - 39), "its size is not known nevertheless"
    assert not room.take(held[4], MOST - 39), "so whatever it becomes may be growth"
    assert room.take(A, MOST - LARGEST - 40)
    assert room.take(held[4], LARGEST)
