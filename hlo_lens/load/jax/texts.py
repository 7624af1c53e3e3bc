"""Texts, buffers and byte figures of a JAX executable."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hlo_lens.load.module import BufferTexts
from hlo_lens.text.dump_kinds import TEXT_FLAGS
from hlo_lens.text.errors import DumpSyntaxError, MissingDumpError, MissingPackageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hlo_lens.hlo.framework import Framework
    from hlo_lens.hlo.module import HloModule

_BYTES = re.compile(r"(.+)_size_in_bytes|.+_in_bytes|.+_bytes|.+_allocations")

FAILURES = (RuntimeError, NotImplementedError, ValueError, TypeError, AttributeError)
"""Errors of jax for features that a version or backend lacks; XLA's own is the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledProgram:
    """A compiled program: jax's objects.

    Attributes:
        executable: The ``MeshExecutable`` of a ``Compiled``; None where there is none.
        stage: The ``Compiled`` itself; None where jit compiled without ``lower``.
        before: Returns its text from before optimizations; None where there is none.
        donated: Whether each used argument is donated; None where `stage` has that.
    """

    executable: Any
    stage: Any
    before: Callable[[], str] | None
    donated: Sequence[bool] | None = None

    @property
    def source(self) -> Any:
        """The object whose ``as_text`` and ``memory_analysis`` are called; public if possible."""
        return self.executable if self.stage is None else self.stage


def _parsed(text: str, path: str) -> list[HloModule]:
    from hlo_lens.hlo.module_reader import parse_hlo_modules
    from hlo_lens.text.source import clean

    return parse_hlo_modules(clean(text, path))


def compiled_module(program: CompiledProgram) -> tuple[HloModule, int]:
    """Return the first module of an executable and the number of further ones."""
    try:
        text = program.source.as_text()
    except FAILURES as error:
        raise MissingDumpError(
            f"this executable does not return its text ({_first_line(error)}); compile with "
            f'XLA_FLAGS="{TEXT_FLAGS}" and read the folder'
        ) from error
    if not text:
        raise MissingDumpError("this executable has no text: the backend returns none")
    modules = _parsed(text, "<compiled>")
    return modules[0], len(modules) - 1


def lowered_text(lowered: Any) -> str:
    """Return the HLO text of a lowered program, public or not; raises MissingDumpError."""
    try:
        if hasattr(lowered, "hlo"):
            return str(lowered.hlo().as_hlo_text())
        return str(lowered.as_text(dialect="hlo"))
    except FAILURES as error:
        raise MissingDumpError(
            f"jax cannot return the HLO text of this program ({_first_line(error)})"
        ) from error


def lowered_module(lowered: Any) -> HloModule:
    """Return a lowered program; raises MissingDumpError."""
    return _parsed(lowered_text(lowered), "<lowered>")[0]


def module_before(read: Callable[[], str], facts: Framework) -> HloModule:
    """Return a program from before optimizations; an empty one where jax has no text."""
    from hlo_lens.hlo.module_reader import unread_module

    try:
        module = _parsed(read(), "<lowered>")[0]
    except MissingDumpError:
        return unread_module("<lowered>")
    module.framework = facts
    return module


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__


# ---- buffers -----------------------------------------------------------------------------------

_ASSIGNMENTS = (
    ("serialized_buffer_assignment_proto", "BufferAssignmentProto"),
    ("serialized_hlo_proto", "HloProto"),
    ("serialized_buffer_assignment", "BufferAssignmentProto"),
)
"""Attributes of CompiledMemoryStats, by version, that hold a buffer assignment, and their type.

On TPU they are empty.
"""


def read_buffers(program: CompiledProgram) -> BufferTexts:
    """Return the buffer assignment of an executable; none without protos or protobuf."""
    from hlo_lens.load.protos import compiled_buffers

    try:
        stats = program.source.memory_analysis()
        found = [(getattr(stats, name, None), kind) for name, kind in _ASSIGNMENTS]
        data, kind = next((pair for pair in found if pair[0]), (b"", ""))
        if not data:
            return BufferTexts()
        executable = getattr(program.executable, "xla_executable", None)
        if executable is None:
            executable = program.source.runtime_executable()
        (proto, *_) = executable.hlo_modules()
        return compiled_buffers(kind, data, proto.as_serialized_hlo_module_proto())
    except (*FAILURES, MissingPackageError, DumpSyntaxError):
        return BufferTexts()


def memory_of(source: Any) -> dict[str, int]:
    """Return the byte figures of ``memory_analysis()``; empty where the backend has none."""
    try:
        stats = source.memory_analysis()
    except FAILURES:
        return {}
    figures = ((name, getattr(stats, name, None)) for name in dir(stats) if _BYTES.fullmatch(name))
    return {name: value for name, value in figures if isinstance(value, int)}
