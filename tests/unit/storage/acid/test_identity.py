"""Row identity over columns behaves as tuples of three integers do."""

from __future__ import annotations

import itertools
import random

from airflow_hiveacid.storage.acid.identity import Key, Keys
from tests.unit.storage.orc_tables import identities

ROWS: list[Key] = [
    (-(1 << 63), -5, 0),
    (0, 7, 1),
    (0, 7, 1),
    (0, 536870912, -1),
    (1, 536870912, 0),
    (1, 536870912, 9),
    (1, 536870913, 3),
    (1 << 62, 0, (1 << 63) - 1),
]


def keys(rows: list[Key]) -> Keys:
    return Keys.of(identities(rows))


def test_keys_are_read_as_tuples() -> None:
    assert [keys(ROWS).at(i) for i in range(len(ROWS))] == ROWS
    assert keys(ROWS).at(-1) == ROWS[-1]
    assert keys(ROWS).part(2, 4).at(0) == ROWS[2]


def test_keys_are_ordered_as_signed_integers_column_by_column() -> None:
    assert keys(ROWS).is_sorted()
    assert keys([]).is_sorted()
    for at in range(len(ROWS) - 1):
        turned = [*ROWS]
        turned[at], turned[at + 1] = turned[at + 1], turned[at]
        assert keys(turned).is_sorted() == (ROWS[at] == ROWS[at + 1])
    assert [keys(ROWS[::-1]).at(i) for i in keys(ROWS[::-1]).order()] == ROWS


def test_the_first_row_out_of_order_is_found_in_every_short_sequence() -> None:
    some = [(1, 1, 1), (1, 1, 2), (1, 2, 1), (2, 1, 1)]
    for rows in itertools.chain(*(itertools.product(some, repeat=n) for n in range(5))):
        found, pairs = keys(list(rows)), list(itertools.pairwise(rows))
        below = (at for at, (one, after) in enumerate(pairs, 1) if after < one)
        not_above = (at for at, (one, after) in enumerate(pairs, 1) if after <= one)
        assert found.first_out_of_order() == next(below, None), rows
        assert found.first_out_of_order(strictly=True) == next(not_above, None), rows
        assert found.is_one_run() == (len({row[:2] for row in rows}) <= 1), rows


def test_equal_rows_keep_their_order_when_sorted() -> None:
    assert keys([(2, 1, 1), (1, 1, 1), (2, 1, 1), (1, 1, 1)]).order().tolist() == [1, 3, 0, 2]


def test_keys_below_or_up_to_a_given_key_are_counted() -> None:
    for key in [*ROWS, (0, 7, 0), (0, 7, 2), (0, 8, 0), (1, 0, 0), (5, 0, 0)]:
        assert keys(ROWS).count_below(key) == sum(row < key for row in ROWS)
        assert keys(ROWS).count_up_to(key) == sum(row <= key for row in ROWS)


def test_membership_requires_all_three_parts_to_be_equal() -> None:
    others = [(0, 7, 1), (0, 536870912, 0), (1, 536870912, 9), (1, 536870913, 9)]
    wanted = [row in others for row in ROWS]
    assert keys(ROWS).found_in(keys(others)).tolist() == wanted
    assert not keys(ROWS).found_in(keys([])).any()
    assert len(keys([]).found_in(keys(others))) == 0


def test_positions_are_those_of_all_rows_that_occur_in_the_other_keys() -> None:
    dice = random.Random(7)
    for _ in range(300):
        every = [(w, b, r) for w in range(3) for b in (-1, 4) for r in range(-3, 4)]
        some = sorted(dice.sample(every, dice.randint(0, 20)))
        others = sorted(dice.sample(every, dice.randint(0, 20)))
        if dice.randrange(3) == 0 and some:  # a row that is there twice
            some = sorted([*some, dice.choice(some)])
        found = keys(some).positions_of(keys(others)).tolist()
        assert found == [at for at, row in enumerate(some) if row in others], (some, others)
    ends = [(0, 0, -(1 << 63)), (0, 0, (1 << 63) - 1)]
    assert keys(ends).positions_of(keys(ends)).tolist() == [0, 1]


def test_repeats_are_the_second_and_later_of_equal_rows() -> None:
    assert keys(ROWS).repeats().tolist() == [False, False, True, *[False] * 5]
    assert keys([]).repeats().tolist() == []


def test_runs_share_write_id_and_bucket() -> None:
    assert keys(ROWS).runs() == [(0, 1), (1, 3), (3, 4), (4, 6), (6, 7), (7, 8)]
    assert keys([]).runs() == []
