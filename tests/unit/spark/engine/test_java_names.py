from __future__ import annotations

from types import SimpleNamespace
from typing import NoReturn

import pytest
from py4j.java_gateway import JavaClass, JavaMember, JavaPackage
from py4j.protocol import SUCCESS_CLASS, SUCCESS_PACKAGE, Py4JError

from airflow_hiveacid.spark.engine import UnknownJavaCallError, call_of_any_release, jvm_of


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


@pytest.mark.parametrize("parameters", [2, 3, 4])
def test_options_that_a_newer_spark_has_added_are_none(parameters: int) -> None:
    def call(*arguments: object) -> list[object]:
        if len(arguments) != parameters:
            raise Py4JError("Constructor DataSource([...]) does not exist")
        return list(arguments)

    answer: list[object] = call_of_any_release(call, ["a", "b"], "None")
    assert answer == ["a", "b", *["None"] * (parameters - 2)]


def test_the_number_of_new_options_of_a_call_is_found_out_only_once() -> None:
    numbers: list[int] = []

    def call(*arguments: object) -> None:
        numbers.append(len(arguments))
        if len(arguments) != 2:
            raise Py4JError("Constructor DataSource([...]) does not exist")

    class Method(JavaMember):
        def __call__(self, *arguments: object) -> None:
            call(*arguments)

    for _ in range(3):
        call_of_any_release(call, ["a"], "None")
        call_of_any_release(Method("createFilter", None, "z:OrcFilters", Client()), [], "None")
    assert numbers == [1, 2, 0, 1, 2, *[2] * 4]


def test_a_call_that_a_release_of_spark_does_not_have_is_an_error_of_its_own() -> None:
    def call(*_: object) -> NoReturn:
        raise Py4JError(message)

    message = "Method createFilter([...]) does not exist"
    with pytest.raises(UnknownJavaCallError):
        call_of_any_release(call, [], None)
    message = "the JVM has ended"
    with pytest.raises(Py4JError, match="has ended"):
        call_of_any_release(call, [], None)
