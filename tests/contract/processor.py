"""A Thrift processor of the metastore's calls, which the package's generated code lacks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from thrift.protocol.TProtocol import TProtocolBase
from thrift.Thrift import TApplicationException, TMessageType, TType
from thrift.transport.TTransport import TTransportException

from airflow_hiveacid.metastore.gen.service import Metastore

Struct: TypeAlias = Any  # generated code has no types

_log = logging.getLogger(__name__)


class Processor:
    """Answers the methods it was given; all others are unknown to it, as to an older server."""

    def __init__(self, answers: Mapping[str, Callable[..., Struct]]) -> None:
        self.calls: list[str] = []
        self._answers = answers

    def process(self, source: TProtocolBase, out: TProtocolBase) -> None:
        name, _, number = source.readMessageBegin()
        kind, answer = self._answer(name, source)
        out.writeMessageBegin(name, kind, number)
        answer.write(out)
        out.writeMessageEnd()
        out.trans.flush()

    def _answer(self, name: str, source: TProtocolBase) -> tuple[int, Struct]:
        if name not in self._answers:
            source.skip(TType.STRUCT)
            source.readMessageEnd()
            unknown = TApplicationException.UNKNOWN_METHOD
            return TMessageType.EXCEPTION, TApplicationException(unknown, f"no function {name}")
        arguments: Struct = getattr(Metastore, f"{name}_args")()
        arguments.read(source)
        source.readMessageEnd()
        self.calls.append(name)
        try:
            values = [getattr(arguments, field[2]) for field in _fields(arguments)]
            answer = self._answers[name](*values)
        except TTransportException:
            raise
        except TApplicationException as error:
            return TMessageType.EXCEPTION, error
        except Exception as error:  # noqa: BLE001 - a client gets it
            return _raised(name, error)
        result = getattr(Metastore, f"{name}_result")()
        if any(number == 0 for number, *_ in _fields(result)):
            result.success = answer
        return TMessageType.REPLY, result


def _raised(name: str, error: Exception) -> tuple[int, Struct]:
    """A declared exception is part of a reply; another one is an internal error."""
    result = getattr(Metastore, f"{name}_result")()
    for number, _, field, kind, _ in _fields(result):
        if number and isinstance(error, kind[0]):
            setattr(result, field, error)
            return TMessageType.REPLY, result
    _log.error("%s failed", name, exc_info=error)
    internal = TApplicationException(TApplicationException.INTERNAL_ERROR, "Internal error")
    return TMessageType.EXCEPTION, internal


def _fields(struct: Struct) -> list[Struct]:
    return [field for field in struct.thrift_spec or () if field is not None]
