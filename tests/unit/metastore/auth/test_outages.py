from __future__ import annotations

from airflow_hiveacid.metastore.auth.refusals import Outages


def test_a_server_that_failed_is_asked_last_for_a_minute() -> None:
    now = [0.0]
    outages = Outages(clock=lambda: now[0])
    assert outages.note("a")
    for now[0] in (0.0, 59.0):
        assert outages.in_order(["a", "b", "c"]) == ["b", "c", "a"]
    now[0] = 60.0
    assert outages.in_order(["a", "b", "c"]) == ["a", "b", "c"]


def test_after_the_minute_only_one_caller_asks_the_failed_server_first() -> None:
    now = [0.0]
    outages = Outages(clock=lambda: now[0])
    outages.note("a")
    now[0] = 61.0
    asked = [outages.in_order(["a", "b"])[0] for _ in range(3)]
    assert asked == ["a", "b", "b"]


def test_a_server_that_answers_again_is_asked_in_order() -> None:
    outages = Outages(clock=lambda: 0.0)
    outages.note("a")
    outages.forget("a")
    outages.forget("b")
    assert outages.in_order(["a", "b"]) == ["a", "b"]


def test_only_the_first_failure_of_an_outage_is_news() -> None:
    outages = Outages(clock=lambda: 0.0)
    assert [outages.note("a") for _ in range(3)] == [True, False, False]
    outages.forget("a")
    assert outages.note("a")


def test_if_all_servers_failed_all_are_asked() -> None:
    outages = Outages(clock=lambda: 0.0)
    outages.note("a")
    outages.note("b")
    assert outages.in_order(["a", "b"]) == ["a", "b"]
