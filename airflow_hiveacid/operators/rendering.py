"""Rendering of templates that changes neither the type nor the text of a value.

Airflow's own rendering parses a rendered text as a Python literal if the DAG has
`render_template_as_native_obj=True`: the text `1e5` becomes a float. In both modes, it takes a text
with a certain ending for a file's name, and changes the ends of lines. Input is a task's fields.
Output is their values: a text without a template is unchanged; text from a template stays text.
This module knows no argument by its name.

Example:
    >>> from jinja2.nativetypes import NativeEnvironment
    >>> env, context = NativeEnvironment(), {"code": "1e5", "ids": [1]}
    >>> rendered("{{ code }}", context, env), rendered("{{ ids }}", context, env)
    ('1e5', [1])
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from jinja2 import Environment, TemplateNotFound, Undefined, pass_context
from jinja2.lexer import TOKEN_DATA

from airflow_hiveacid.format.errors import ConfigurationError

_NEWLINE: Final = re.compile("\r\n|\r|\n")


class ValueRendering:
    """Renders the templates of a task; a mixin for operators and sensors.

    In native mode, a template that is one expression gives the expression's value, such as a list.
    """

    template_ext: Sequence[str]
    file_fields: ClassVar[tuple[str, ...]] = ()
    """The fields that may name a template file, as one word that ends as in `template_ext`."""
    _mapped: Collection[int] = ()
    """The IDs of the values that a different task has given to this mapped task."""

    def resolve_template_files(self) -> None:
        """Replace the names of template files by the files' texts; Airflow calls this early."""
        try:
            self._read_files(self.get_template_env())  # type: ignore[attr-defined]  # of Airflow's operator
        except TemplateNotFound:
            self.log.exception("a template file is missing")  # type: ignore[attr-defined]  # as above
        self.prepare_template()  # type: ignore[attr-defined]  # as above

    def render_template(
        self,
        content: Any,  # noqa: ANN401 - Airflow's
        context: Any,  # noqa: ANN401 - as above
        jinja_env: Environment | None = None,
        seen_oids: set[int] | None = None,
    ) -> Any:  # noqa: ANN401 - as above
        """Render the templates in a value; `seen_oids` are the IDs of values without templates."""
        if not isinstance(content, str):
            return super().render_template(content, context, jinja_env, seen_oids)  # type: ignore[misc]  # of Airflow's operator
        if id(content) in (seen_oids or ()):
            return content
        return rendered(content, context, jinja_env or self.get_template_env())  # type: ignore[attr-defined]  # as above

    def _do_render_template_fields(
        self,
        parent: object,
        template_fields: Iterable[str],
        context: Any,  # noqa: ANN401 - Airflow's
        jinja_env: Environment,
        seen_oids: set[int],
    ) -> None:
        """Render the fields of this task; mapped tasks, too, call this private method.

        Raise ConfigurationError if a template has the value None. None often means no limit, such
        as every partition, and a template gives it by mistake, such as for a missing `conf`.
        """
        templates = []
        if parent is self:  # otherwise an object in one of the fields
            self._mapped = frozenset(seen_oids)
            self._read_files(jinja_env, seen_oids)
            templates = [name for name, value in vars(self).items() if isinstance(value, str)]
        super()._do_render_template_fields(parent, template_fields, context, jinja_env, seen_oids)  # type: ignore[misc]  # of Airflow's operator
        for name in templates:
            if getattr(parent, name) is None:
                raise ConfigurationError(
                    f"{name}: its template has the value None; give a value, or omit {name} for its"
                    " default"
                )

    def is_literal(self, value: object) -> bool:
        """Return whether a field's value is from the DAG, and not mapped from another task."""
        return id(value) not in self._mapped

    def _read_files(self, env: Environment, seen_oids: Collection[int] = ()) -> None:
        for field in self.file_fields:
            value = getattr(self, field)
            if id(value) in seen_oids:  # a value of another task names no file
                continue
            if isinstance(value, list | tuple):
                setattr(self, field, [self._read_file(entry, env) for entry in value])
            else:
                setattr(self, field, self._read_file(value, env))

    def _read_file(self, text: object, env: Environment) -> object:
        if not names_file(text, self.template_ext):
            return text
        if env.loader is None:
            raise TemplateNotFound(str(text))
        return env.loader.get_source(env, str(text))[0]


def names_file(text: object, endings: Iterable[str]) -> bool:
    """Return whether a text names a template file: SQL text has more than one word.

    Example:
        >>> [names_file(text, (".sql",)) for text in ("daily.sql", "TRUNCATE TABLE demo.sql")]
        [True, False]
    """
    return isinstance(text, str) and text.endswith(tuple(endings)) and len(text.split()) == 1


def rendered(text: str, context: Mapping[str, Any], env: Environment) -> Any:  # noqa: ANN401 - any value
    """Return the value of a template; a text without a template is returned unchanged."""
    if all(token == TOKEN_DATA for _, token, _ in env.lex(text)):
        return text
    newlines = set(_NEWLINE.findall(text))
    if len(newlines) > 1:  # Jinja would make them equal, also inside a literal of SQL
        raise ConfigurationError(
            "a text with a template has several kinds of line ends; write all as \\n, or pass the"
            " value as a parameter"
        )
    exact = env.overlay(
        keep_trailing_newline=True,
        newline_sequence=newlines.pop() if newlines else "\n",
        # Without a `finalize`, Jinja turns constants such as `none` into text.
        finalize=env.finalize or _unchanged,
    )
    template = exact.from_string(text)
    try:
        # Any: in native mode, a part is the value of an expression.
        parts: list[Any] = list(template.root_render_func(template.new_context(dict(context))))
    except Exception:  # noqa: BLE001 - raised again, with the template's lines in the traceback
        exact.handle_exception()
    if len(parts) == 1 and not isinstance(parts[0], Undefined):
        return parts[0]
    return "".join(map(str, parts))


@pass_context
def _unchanged(_context: object, value: object) -> object:
    """Return a value; without this function, Jinja makes a text of a constant such as `none`."""
    return value
