"""Trace of a custom partitioning: the shardings that each function received and returned.

A tracer prints lines ``function => name : value``. Consecutive values of one function are one call;
functions whose name begins with ``OUT`` or ends in ``OUTPUT`` print returned values. Repeated calls
with equal values are one call with a count.

Two shardings place elements alike if every device holds the same part, as ``P('x', 'y')`` and
``P('x', None)`` do if the axis y has size 1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.logs.drawn_shardings import sharding_words
from hlo_lens.render.result import Column, Result, Row, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.logs.jax_values import JaxValue, ShardingLog
    from hlo_lens.shapes.shape import Shape

_STEP = re.compile(
    r"(?P<a>.+?)\s*=>\s*(?P<b>.+)"
    r"|(?:.*\s)?(?P<c>(?:\w+_)?(?:infer_sharding\w*|propagate_user_sharding|partition(?:_\w+)?))"
    r"\W{1,3}(?P<d>[A-Za-z_][\w. ]*)"
)
"""Function and name: ``f => name``, or ``infer_sharding: name`` of the callbacks' own names."""

_ANSWER = re.compile(r"(?:OUT(?:PUT)?_)|_OUT(?:PUT)?$", re.IGNORECASE)
_RESULT_SHARDING = re.compile(r"(?:result|out)\w*[ .]?\w*shardings?$", re.IGNORECASE)
_RESULT_SHAPE = re.compile(r"(?:result|out)_?(?:shape|aval)s?$", re.IGNORECASE)
_LOCAL = re.compile(r"tiled|out_avals|local|shard", re.IGNORECASE)
_LONGEST_CYCLE = 16


@dataclass(frozen=True, slots=True)
class Step:
    """One value or list that a function received or returned.

    Attributes:
        name: Such as ``arg_shapes``.
        values: Its values, several for a list.
    """

    name: str
    values: tuple[JaxValue, ...]


@dataclass(frozen=True, slots=True)
class TracedCall:
    """One call of a function.

    Attributes:
        function: Its name, as printed.
        is_answer: Whether the steps are returned values, not received ones.
        steps: Values in text order.
        line: Line of the first step.
        times: Number of repeats with equal values, also in a cycle with other repeated calls.
    """

    function: str
    is_answer: bool
    steps: tuple[Step, ...]
    line: int
    times: int = 1


CHANGE_COLUMNS = (
    Column("line", Unit.NONE, "1-based line of the first"),
    Column("said", Unit.NONE, "sharding"),
    Column("by", Unit.NONE, "function that printed it"),
    Column("next_line", Unit.NONE, "1-based line of the next"),
    Column("then", Unit.NONE, "sharding"),
    Column("next_by", Unit.NONE, "function that printed it"),
    Column("places_alike", Unit.NONE, "whether every device holds the same part"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingChange:
    """Two different shardings of one result, printed one after the other.

    Attributes:
        before: The first value.
        after: The next value.
        places_alike: Whether every device holds the same part.
        before_function: Function that printed the first.
        after_function: Function that printed the next.
    """

    before: JaxValue
    after: JaxValue
    places_alike: bool
    before_function: str
    after_function: str

    @property
    def row(self) -> Row:
        """Its cells, as in `CHANGE_COLUMNS`."""
        return (
            self.before.line,
            _short(self.before),
            self.before_function,
            self.after.line,
            _short(self.after),
            self.after_function,
            self.places_alike,
        )


CHECK_COLUMNS = (
    Column("line", Unit.NONE, "1-based line"),
    Column("name", Unit.NONE, "words before the shape"),
    Column("printed", Unit.NONE, "shape"),
    Column("expected", Unit.NONE, "shape of a device's part"),
    Column("agrees", Unit.NONE, "whether both are equal"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalShapeCheck:
    """A printed per-device shape, compared with that of the result's sharding.

    Fields are columns of `CHECK_COLUMNS`. The expected shape is that of the global result under its
    last sharding; None if either is not known.
    """

    line: int
    name: str
    printed: Shape
    expected: Shape | None

    @property
    def agrees(self) -> bool | None:
        """Whether both are equal; None if no shape is expected."""
        if self.expected is None:
            return None
        return self.printed.dimensions == self.expected.dimensions

    @property
    def row(self) -> Row:
        """Its cells, as in `CHECK_COLUMNS`."""
        expected = None if self.expected is None else self.expected.to_text(layout=False)
        return self.line, self.name, self.printed.to_text(layout=False), expected, self.agrees


VALUE_COLUMNS = (
    Column("kind", Unit.NONE, "class of the value"),
    Column("value", Unit.NONE, "sharding, mesh or type"),
    Column("shape", Unit.NONE, "global shape, if the value has one"),
    Column("device_shape", Unit.NONE, "shape of one device's part"),
    Column("sharding", Unit.NONE, "in XLA's notation"),
)
"""Columns of the cells that `value_cells` returns."""


@dataclass(frozen=True, kw_only=True)
class ShardingTrail(Result):
    """Calls of a trace, in text order.

    Attributes:
        calls: All calls, repeats folded.
        changes: Changes of the printed sharding of the result.
        checks: Printed per-device shapes, compared with the shardings.
    """

    KIND: ClassVar[str] = "sharding-trail"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("line", Unit.NONE, "1-based line, of the first time"),
        Column("times", Unit.COUNT, "number of repeats in a row"),
        Column("function", Unit.NONE, "function that printed it"),
        Column("direction", Unit.NONE, "given (received) or answered (returned)"),
        Column("name", Unit.NONE, "printed name of the value"),
        *VALUE_COLUMNS,
    )
    calls: tuple[TracedCall, ...]
    changes: tuple[ShardingChange, ...]
    checks: tuple[LocalShapeCheck, ...]

    def rows(self) -> Iterator[Row]:
        """Yield a row for each value."""
        for call in self.calls:
            for step in call.steps:
                for value in step.values:
                    yield (
                        value.line,
                        call.times,
                        call.function,
                        "answered" if call.is_answer else "given",
                        step.name,
                        *value_cells(value),
                    )


def _short(value: JaxValue) -> str:
    return value.spec.text if value.spec is not None else sharding_words(value)


def value_cells(value: JaxValue) -> tuple[str | None, ...]:
    """Return kind, value, global shape, per-device shape and sharding of a value as text."""
    shape, local, sharding = value.shape, value.device_shape(), value.sharding()
    return (
        value.kind,
        value_words(value),
        None if shape is None else shape.to_text(layout=False),
        None if local is None else local.to_text(layout=False),
        None if sharding is None else sharding.text,
    )


def value_words(value: JaxValue) -> str:
    """Return a value as a short text."""
    if value.kind in ("ShapedArray", "Shape", "type"):
        return value.text.removeprefix("ShapedArray(").removesuffix(")")
    if value.spec is not None and value.mesh is None:
        return value.spec.text
    if value.spec is not None or value.hlo_sharding is not None:
        return sharding_words(value)
    if value.mesh is not None:
        return value.mesh.text
    return value.text


def sharding_trail(log: ShardingLog) -> ShardingTrail:
    """Return the trace in a log; without calls if no line names a function."""
    calls = tuple(_folded(list(_calls(log.values))))
    return ShardingTrail(calls=calls, changes=tuple(_changes(calls)), checks=tuple(_checks(calls)))


def _calls(values: Sequence[JaxValue]) -> Iterator[TracedCall]:
    """Yield the calls; a repeated name begins another call."""
    function, line = "", 0
    steps: dict[str, list[JaxValue]] = {}
    last_line = 0
    for value in values:
        who, name = _step(value, function if value.line == last_line else "")
        if not who:
            continue
        is_new = who != function or (name in steps and value.line != last_line)
        if is_new and steps:
            yield _call(function, steps, line)
            steps = {}
        if is_new:
            function, line = who, value.line
        steps.setdefault(name, []).append(value)
        last_line = value.line
    if steps:
        yield _call(function, steps, line)


def _step(value: JaxValue, last: str) -> tuple[str, str]:
    """Return function and name of a value; a line may name the function once."""
    match = _STEP.fullmatch(value.label)
    if match is not None:
        return match["a"] or match["c"], match["b"] or match["d"]
    return last, value.label.strip(" ,;)|]") or "value"


def _call(function: str, steps: dict[str, list[JaxValue]], line: int) -> TracedCall:
    listed = tuple(Step(name, tuple(values)) for name, values in steps.items())
    return TracedCall(function, _ANSWER.search(function) is not None, listed, line)


def _folded(calls: list[TracedCall]) -> Iterator[TracedCall]:
    """Yield the calls; a repeated cycle of calls is yielded once, with its count."""
    place = 0
    while place < len(calls):
        length, times = _cycle(calls, place)
        for call in calls[place : place + length]:
            yield replace(call, times=times)
        place += length * times


def _cycle(calls: Sequence[TracedCall], place: int) -> tuple[int, int]:
    """Return the length of the cycle that begins at a call, and its number of repeats."""
    keys = [(call.function, call.steps) for call in calls[place:]]
    for length in range(1, min(_LONGEST_CYCLE, len(keys) // 2) + 1):
        times = 1
        while keys[times * length : (times + 1) * length] == keys[:length]:
            times += 1
        if times > 1:
            return length, times
    return 1, 1


def _changes(calls: Sequence[TracedCall]) -> Iterator[ShardingChange]:
    """Yield the changes of the printed sharding of the result."""
    before: JaxValue | None = None
    who = ""
    for call in calls:
        for step in call.steps:
            value = step.values[0]
            is_said = _RESULT_SHARDING.search(step.name) or _RESULT_SHAPE.search(step.name)
            if not is_said or (after := value.sharding()) is None:
                continue
            if before is not None and sharding_words(before) == sharding_words(value):
                continue
            if before is not None and (sharding := before.sharding()) is not None:
                yield ShardingChange(
                    before=before,
                    after=value,
                    places_alike=sharding.equivalent(after),
                    before_function=who,
                    after_function=call.function,
                )
            before, who = value, call.function


def _checks(calls: Sequence[TracedCall]) -> Iterator[LocalShapeCheck]:
    """Yield each printed per-device shape and the one of the result's last sharding."""
    shape: Shape | None = None
    sharding: JaxValue | None = None
    for call in calls:
        for step in call.steps:
            value = step.values[0]
            if _LOCAL.search(step.name) and value.shape is not None and value.spec is None:
                yield LocalShapeCheck(
                    line=value.line,
                    name=step.name,
                    printed=value.shape,
                    expected=_local(shape, sharding),
                )
            elif _RESULT_SHAPE.search(step.name) and value.shape is not None:
                shape = value.shape
            elif _RESULT_SHARDING.search(step.name):
                sharding = value


def _local(shape: Shape | None, value: JaxValue | None) -> Shape | None:
    if shape is None or value is None:
        return None
    found = value.sharding(shape.rank)
    return None if found is None else found.shard_shape(shape)
