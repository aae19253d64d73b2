from __future__ import annotations

from types import SimpleNamespace

import pytest
from py4j.java_gateway import JavaClass, JavaPackage
from py4j.protocol import SUCCESS_CLASS, SUCCESS_PACKAGE

from airflow_hiveacid.spark.engine.java_names import jvm_of


class Client:
    """A gateway that knows one class, and keeps what it was asked for."""

    converters, gateway_property = None, SimpleNamespace(pool=None)

    def __init__(self) -> None:
        self.asked: list[str] = []

    def send_command(self, command: str) -> str:
        name = command.split("\n")[2]
        self.asked.append(name)
        is_class = name == "org.things.Thing"
        return SUCCESS_CLASS + name if is_class else SUCCESS_PACKAGE


class View:
    def __init__(self, client: Client) -> None:
        self.org = JavaPackage("org", client, "jvm")


def session(client: Client) -> SimpleNamespace:
    return SimpleNamespace(_jvm=View(client))


def test_each_java_name_is_looked_up_in_the_jvm_only_once() -> None:
    client = Client()
    one = session(client)
    for _ in range(3):
        assert isinstance(jvm_of(one).org.things.Thing, JavaClass)
        assert not isinstance(jvm_of(one).org.things.Missing, JavaClass)
    assert client.asked == ["org.things", "org.things.Thing", "org.things.Missing"]


def test_a_session_without_a_jvm_is_refused() -> None:
    with pytest.raises(TypeError, match="classic"):
        jvm_of(SimpleNamespace(_jvm=None))
