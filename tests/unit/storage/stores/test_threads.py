from __future__ import annotations

import threading

import pytest

from airflow_hiveacid.storage.stores import threads
from airflow_hiveacid.storage.stores.threads import each_in_threads


class Clocks:
    """Only reads move them: each is a millisecond of work, a far one ten of waiting, too."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed = self.worked = 0.0
        monkeypatch.setattr(threads, "perf_counter", lambda: self.passed)
        monkeypatch.setattr(threads, "thread_time", lambda: self.worked)

    def read(self, *, far: bool) -> None:
        self.worked += 0.001
        self.passed += 0.011 if far else 0.001


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 1_000, 5_001])
def test_results_are_returned_in_the_order_of_the_calls(count: int) -> None:
    assert each_in_threads(lambda n: n * n, range(count)) == [n * n for n in range(count)]


@pytest.mark.parametrize(("near", "alone"), [(0, 2), (2, 66), (66, 130)])
def test_calls_run_in_parallel_once_some_calls_had_to_wait(
    monkeypatch: pytest.MonkeyPatch, near: int, alone: int
) -> None:
    clocks = Clocks(monkeypatch)
    together = threading.Barrier(16)
    here = threading.get_ident()

    def read(n: int) -> bool:
        if n < alone:
            clocks.read(far=n >= near)
        else:
            together.wait(30)
        return threading.get_ident() == here

    assert each_in_threads(read, range(alone + 16)) == [True] * alone + [False] * 16


def test_fast_calls_run_in_the_calling_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks(monkeypatch)

    def read(_: int) -> int:
        clocks.read(far=False)
        return threading.get_ident()

    assert set(each_in_threads(read, range(1_000))) == {threading.get_ident()}


def test_an_error_in_one_call_is_raised() -> None:
    def fail(n: int) -> int:
        if n == 700:
            raise ValueError(n)
        return n

    with pytest.raises(ValueError, match="700"):
        each_in_threads(fail, range(1_000))
