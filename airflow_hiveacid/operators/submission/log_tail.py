r"""Parts of a driver's log: its end, the lines since an earlier part, or one line.

Input is a server's answer, which is read with limits of time and size. Output is bytes without a
line that is cut, because a cut line may contain a part of a secret, which no filter recognizes.

Example:
    >>> contents_of(b"LogLength:6\nLogContents:\nhello\nEnd of LogType:a.\n***\n", "a")
    (b'hello\n', 6)
    >>> part = new_stamped(b"2026-01-01T00:00:00.5Z one\n2026-01-01T00:00:01Z tw", None)
    >>> part.text
    b'one\n'
    >>> answer = b"2026-01-01T00:00:00.5Z one\n2026-01-01T00:00:01Z two\n"
    >>> new_stamped(answer, part.place).text
    b'two\n'
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import requests

from airflow_hiveacid.format.words import printable

LAST_LINES: Final = 20
LOG_S: Final = 5.0
"""The longest time, in seconds, for which a task waits for a part of its driver's log."""

LOG_BYTES: Final = 64 * 1024
"""The most bytes of a log that are shown at once; YARN is asked for as many."""

READ_BYTES: Final = 4 * 1024 * 1024
"""The most bytes of an answer that are read."""

LOGIN_IN_URL: Final = re.compile(r"//[^/\s]*@")

_CONTENTS: Final = b"LogContents:\n"
_LENGTH: Final = re.compile(rb"^LogLength:(\d+)$", re.MULTILINE)
_STAMP: Final = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d) ")
_SECOND: Final = timedelta(seconds=1)
_CHUNK: Final = 64 * 1024
_UNKNOWN: Final = "the answer has an unknown form"
_LINE: Final = re.compile(
    r"(?:\d\d/\d\d/\d\d |\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d(?:[.,]\d+)?"
    r" (TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL) (.+)",
    re.DOTALL,
)
_METHODS: Final = {"WARN": "warning", "WARNING": "warning"} | dict.fromkeys(
    ("ERROR", "FATAL", "CRITICAL"), "error"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLines:
    """The newest lines since an earlier part; at least `left_out` bytes before them are missing.

    If `has_gap` is true, an unknown number of bytes may be missing there. The next part begins at
    `place`, whose form only the client of the cluster knows. If `has_more` is true, the log already
    has later lines.
    """

    text: bytes
    place: Any
    left_out: int = 0
    has_gap: bool = False
    has_more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StampedPlace:
    """A place in a log whose lines have time stamps.

    `count` lines since the second `since` are known; `last` is the last of them.
    """

    since: datetime
    count: int = 0
    last: bytes = b""


def body_of(answer: requests.Response) -> bytes:
    """Return the first `READ_BYTES` of a text answer, which must not have been read yet."""
    if answer.status_code != requests.codes.ok:
        raise OSError(f"HTTP {answer.status_code}")
    kind = answer.headers.get("Content-Type", "")
    if not kind.startswith("text/plain"):
        raise OSError(f"the answer is not plain text but {kind[:40]!r}")
    body = bytearray()
    for chunk in answer.iter_content(_CHUNK):
        body += chunk
        if len(body) >= READ_BYTES:
            break
    return bytes(body[:READ_BYTES])


def contents_of(answer: bytes, name: str) -> tuple[bytes, int]:
    """Return the end of the log file `name`, and the file's length, from YARN's answer.

    YARN was asked for the last `LOG_BYTES`. If a node aggregates logs while a container runs, the
    answer has two parts with a header each. The first part is the newer one. Raise OSError if its
    form is unknown.
    """
    header, has_header, rest = answer.partition(_CONTENTS)
    length_match = _LENGTH.search(header)
    if has_header and length_match is None:
        raise OSError(_UNKNOWN)
    # YARN writes no header for an empty file.
    length = 0 if length_match is None else int(length_match[1])
    size = min(length, LOG_BYTES)
    # Cut by the length, because the driver may write a line that looks like YARN's footer.
    if f"End of LogType:{name}".encode() not in (rest[size:] if has_header else answer):
        raise OSError(_UNKNOWN)
    return rest[:size], length


def last_contents(answer: bytes, name: str) -> bytes:
    """Return the whole lines at the end of the log file `name` from YARN's answer."""
    contents, length = contents_of(answer, name)
    return _whole_lines(contents, length - len(contents))[0]


def new_contents(answer: bytes, name: str, place: int, *, has_ended: bool) -> NewLines:
    """Return the lines of the log file `name` after its byte `place`, from YARN's answer."""
    contents, length = contents_of(answer, name)
    begin = length - len(contents)  # the place of the first byte of `contents`
    place = place if place <= length else 0  # the file has begun again
    new = contents[max(0, place - begin) :]
    unfinished = b"" if has_ended else new[new.rfind(b"\n") + 1 :]
    if new == unfinished:
        return NewLines(text=b"", place=place)
    lines, left_out = _whole_lines(new.removesuffix(unfinished), max(0, begin - place))
    return NewLines(text=lines, place=length - len(unfinished), left_out=left_out)


def new_stamped(answer: bytes, place: StampedPlace | None, *, has_ended: bool = False) -> NewLines:
    """Return the lines after a place, without stamps, from Kubernetes' answer with stamps.

    Kubernetes was asked for the lines since `place.since`, by default for all lines. Kubernetes
    ignores the fraction of a second in such a request. The stamps of two lines may be equal, and
    those of a container's two streams may be out of order by some milliseconds. So the lines of the
    last two seconds are read again, and known lines are counted.
    """
    has_more = len(answer) >= READ_BYTES
    *lines, unfinished = answer.split(b"\n")
    if unfinished and has_ended and not has_more:
        lines.append(unfinished)
    if place is not None and len(lines) > 1 and _STAMP.match(lines[0]) is None:
        # The rest of a long line: a container writes it in parts, of which only the first has a
        # stamp, and Kubernetes leaves out the parts before `place.since`.
        del lines[0]
    if not lines:
        if has_more:
            raise OSError(f"a line has more than {READ_BYTES} bytes")
        return NewLines(text=b"", place=place)
    stamps = [_stamp_of(line) for line in lines]
    # A place after an answer with `has_more` has the count 0, and so no known line.
    is_known = place is not None and lines[place.count - 1 : place.count] == [place.last]
    known_count = place.count if place is not None and is_known else 0
    text = b"".join(
        line[end:] + b"\n"
        for line, (_, end) in zip(lines[known_count:], stamps[known_count:], strict=True)
    )
    shown = text[-LOG_BYTES:]
    shown, left_out = _whole_lines(shown, len(text) - len(shown))
    if has_more:
        # One second may have more lines than an answer, so the next answer must begin after it.
        next_place = StampedPlace(since=stamps[-1][0] + _SECOND)
    else:
        since = stamps[-1][0] - _SECOND
        if place is not None:
            since = max(since, place.since)  # this answer has no earlier lines to count
        count = sum(second >= since for second, _ in stamps)
        next_place = StampedPlace(since=since, count=count, last=lines[-1])
    return NewLines(
        text=shown,
        place=next_place,
        left_out=left_out,
        has_gap=place is not None and not is_known,
        has_more=has_more,
    )


def whole_lines(text: bytes) -> bytes:
    """Return a text without its last line if the text was cut there."""
    return text if len(text) < LOG_BYTES else text[: text.rfind(b"\n") + 1]


def _whole_lines(text: bytes, left_out: int) -> tuple[bytes, int]:
    """Return a text without its first line if bytes before it are left out, and their number."""
    if left_out == 0:
        return text, 0
    cut, _, lines = text.partition(b"\n")
    return lines, left_out + len(cut) + 1


def _stamp_of(line: bytes) -> tuple[datetime, int]:
    stamp = _STAMP.match(line)
    if stamp is None:
        raise OSError(_UNKNOWN)
    return datetime.fromisoformat(f"{stamp[1].decode()}{stamp[2].decode()}"), stamp.end()


def leveled(line: str) -> tuple[str, str]:
    """Return the name of a logger's method for a line's level, and the line without time and level.

    A line without them has the level INFO. Lines below INFO have it, too: a user who asked Spark
    for them wants to see them.

    Example:
        >>> leveled("19:05:41 ERROR merge failed: see the error")
        ('error', 'merge failed: see the error')
        >>> leveled("26/11/27 19:05:41 WARN NativeCodeLoader: no library")
        ('warning', 'NativeCodeLoader: no library')
        >>> leveled("a line of a user's program")
        ('info', "a line of a user's program")
    """
    match = _LINE.fullmatch(line)
    return ("info", line) if match is None else (_METHODS.get(match[1], "info"), match[2])


def log_line(log: Any, line: str) -> None:  # noqa: ANN401 - of `logging` or of Airflow
    """Log a line of a driver at its level, with names of other clients escaped.

    Airflow's log adds time and level to each line, and filters lines by their level.
    """
    method, text = leveled(line)
    getattr(log, method)("%s", printable(text, keep="\t"))
