"""Access to Spark: session, tasks on executors, Catalyst, failures and store logins.

This module has cached access to the packages and classes in a Spark session's JVM, and to its
trees. Spark's own classes change between releases: `call_of_any_release` says what this package
expects, and `unknown_calls` tells a release without a class or method from other failures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

from py4j.java_gateway import JavaMember, JavaObject, JavaPackage, JVMView
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

_MOST_NEW_OPTIONS: Final = 2
_ABSENT: Final = "does not exist"
_new_options: Final[dict[object, int]] = {}


class UnknownJavaCallError(Exception):
    """This release of Spark has no such class, or no constructor or method with such arguments."""


class JavaNames:
    """Access through py4j to the packages and classes in a Java package, or in the JVM's root.

    Each of hundreds of names is looked up once: Java searches Spark's 300 jars for a class of a
    package's name, which takes 1.6 ms of CPU time.
    """

    def __init__(self, found: JVMView | JavaPackage) -> None:
        """Wrap a view of the JVM, or a package."""
        self._found = found

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - py4j's classes have no types
        """Look up a name in the JVM, and cache the result."""
        member = getattr(self._found, name)
        if isinstance(member, JavaPackage):
            member = JavaNames(member)
        vars(self)[name] = member
        return member


def jvm_of(spark: SparkSession) -> JavaNames:
    """Return the JVM behind a session; a client of Spark Connect has none (TypeError)."""
    jvm = spark._jvm  # noqa: SLF001 - there is no public way
    if jvm is None:
        raise TypeError("a classic Spark session is needed, not a Spark Connect client")
    return _names_of(jvm)


@lru_cache(maxsize=1)
def _names_of(jvm: JVMView) -> JavaNames:
    return JavaNames(jvm)


def kind_of(node: JavaObject) -> str:
    """Return the name of a tree node's class."""
    return str(node.getClass().getSimpleName())


def each(seq: JavaObject) -> list[JavaObject]:
    """Return the elements of a Scala sequence."""
    return [seq.apply(i) for i in range(seq.size())]


def nodes(tree: JavaObject) -> Iterator[JavaObject]:
    """Yield the nodes of a tree of Spark, from its root."""
    yield tree
    for child in each(tree.children()):
        yield from nodes(child)


def module(package: Any, name: str) -> JavaObject:  # noqa: ANN401 - py4j's packages have no type
    """Return an object of Scala, such as the companion of a class."""
    found: JavaObject = getattr(getattr(package, f"{name}$"), "MODULE$")
    return found


def holding(plan: JavaObject, pattern: JavaObject) -> Iterator[JavaObject]:
    """Yield the expressions of a plan and its subqueries that have a tree pattern, outer first."""
    for query in (plan, *each(plan.subqueriesAll())):
        for node in _down(query, pattern):
            for expression in each(node.expressions()):
                yield from _down(expression, pattern)


def _down(tree: JavaObject, pattern: JavaObject) -> Iterator[JavaObject]:
    if tree.containsPattern(pattern):
        yield tree
        for child in each(tree.children()):
            yield from _down(child, pattern)


@contextmanager
def unknown_calls() -> Iterator[None]:
    """Raise UnknownJavaCallError if this release of Spark lacks what the block calls."""
    try:
        yield
    except Py4JJavaError:
        raise
    except (Py4JError, TypeError) as error:
        # A name that is no class counts as a package, which cannot be called (TypeError).
        text, packages = str(error), ("'JavaNames' ", "'JavaPackage' ")
        if text.startswith(packages) or (isinstance(error, Py4JError) and _ABSENT in text):
            raise UnknownJavaCallError(text.partition("\n")[0]) from error
        raise


def call_of_any_release(
    call: Callable[..., JavaObject], arguments: Sequence[object], none: JavaObject
) -> JavaObject:
    """Call a constructor or method of Spark that newer releases have given further options.

    Spark 4.2 added an option to `DataSource`, and 4.3 one to `OrcFilters.createFilter`, each at the
    end and with the default None. The first call of a process finds out their number. Raises
    UnknownJavaCallError if this release has no such call, with up to two more options. Raises
    Py4JJavaError if the call failed.
    """
    # py4j makes a new object at each access to a method, but not to a class of `JavaNames`.
    key = call.command_header if isinstance(call, JavaMember) else call
    for options in dict.fromkeys((_new_options.get(key, 0), *range(_MOST_NEW_OPTIONS + 1))):
        try:
            with unknown_calls():
                answer = call(*arguments, *[none] * options)
        except UnknownJavaCallError:
            continue
        else:
            _new_options[key] = options
            return answer
    raise UnknownJavaCallError(str(call))
