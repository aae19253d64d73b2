from __future__ import annotations

import threading

import pytest

from airflow_hiveacid.storage.stores.threads import each_in_threads


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 1_000, 5_001])
def test_answers_come_in_the_order_of_what_was_asked(count: int) -> None:
    assert each_in_threads(lambda n: n * n, range(count)) == [n * n for n in range(count)]


def test_many_are_asked_at_once() -> None:
    all_wait = threading.Barrier(16)
    each_in_threads(lambda n: n % 64 or all_wait.wait(10), range(16 * 64))


def test_an_error_comes_through() -> None:
    def fail(n: int) -> int:
        if n == 700:
            raise ValueError(n)
        return n

    with pytest.raises(ValueError, match="700"):
        each_in_threads(fail, range(1_000))
