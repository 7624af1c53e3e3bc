"""ModuleDump: one module with the dumps that belong to it; Dump: all that a path holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from hlo_lens.text.errors import UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hlo_lens.model.buffers.assignment import BufferAssignment
    from hlo_lens.model.buffers.heap_trace import HeapTrace
    from hlo_lens.model.buffers.live_range import HloLiveRange
    from hlo_lens.model.buffers.memory_usage_report import MemoryUsageReport
    from hlo_lens.model.buffers.values import BufferValues
    from hlo_lens.model.call_tree import CallTrees
    from hlo_lens.model.hlo.framework import Framework
    from hlo_lens.model.hlo.module import HloModule
    from hlo_lens.model.logs.buffer_log import BufferLog
    from hlo_lens.model.logs.log import LogText
    from hlo_lens.text.dump_kinds import DumpKind
    from hlo_lens.text.errors import Gap

T = TypeVar("T")


class Lazy(Generic[T]):
    """Something that is read when it is first asked for; `get` always returns the same.

    Args:
        read: Reads it.
    """

    __slots__ = ("_made", "_read")

    def __init__(self, read: Callable[[], T]) -> None:
        self._read: Callable[[], T] | None = read
        self._made: T | None = None

    @property
    def made(self) -> T | None:
        """It, if it has been read already; else None."""
        return self._made

    def get(self) -> T | None:
        """Return it."""
        if self._read is not None:
            self._made, self._read = self._read(), None
        return self._made


def given(value: T) -> Lazy[T]:
    """Return something that is there already, as if it were still to be read."""
    return Lazy(lambda: value)


@dataclass(slots=True)
class BufferTexts:
    """The buffer-side texts of one module, each None where there is no such file."""

    assignment: Lazy[BufferAssignment | None] | Lazy[BufferAssignment] | None = None
    values: Lazy[BufferValues] | None = None
    live_range: Lazy[HloLiveRange | None] | Lazy[HloLiveRange] | None = None
    usage_report: Lazy[MemoryUsageReport] | None = None
    traces: Lazy[tuple[HeapTrace, ...] | None] | Lazy[tuple[HeapTrace, ...]] | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the compilation of a module, of which there are texts.

    Attributes:
        name: As in the file names: ``before_optimizations``, ``0003.simplification.after_dce...``.
        files: Its files, the HLO text first where there is one.
        dump: The module at this stage.
        is_hlo: Whether there is an HLO text.
    """

    name: str
    files: tuple[str, ...]
    dump: Lazy[ModuleDump] = field(repr=False, compare=False)
    is_hlo: bool = True

    @property
    def pass_number(self) -> int | None:
        """Position among the texts that ``--xla_dump_hlo_pass_re`` writes; None for others."""
        number, dot, _ = self.name.partition(".")
        return int(number) if dot and number.isdecimal() else None


@dataclass(slots=True)
class ModuleDump:
    """One module and the files that belong to it.

    Attributes:
        name: Name of the module; of the file where the text names none.
        kind: Kind of the text that was asked for.
        stage: Stage of compilation that the file name tells, such as ``cpu_after_optimizations``.
        files: The files that it is read from: that of `hlo` first where there is one.
        parts: Kind of buffer-side text to its file, as far as there are any.
        module_text: Reads the HLO module; None where there is no HLO text.
        before_text: Reads the module as it was before optimizations; None where there is no such
            text, or where it is the one of `module_text`.
        buffers: Read the buffer-side texts.
        framework: What the framework that compiled it knows of it; None for dumps.
        number: Number in the file names; None where they have none.
        folder: Folder of its files below what was loaded; empty for its top.
        stage_list: Finds its stages; None for a text of no stage.
        log_text: Reads the log; None where the text is none.
        target_text: Reads what libtpu says of the TPU that it was compiled for; None where there is
            nothing of it.
    """

    name: str
    kind: DumpKind
    stage: str | None = None
    files: tuple[str, ...] = ()
    parts: Mapping[str, str] = field(default_factory=dict)
    module_text: Lazy[HloModule] | None = field(default=None, repr=False)
    before_text: Lazy[HloModule] | None = field(default=None, repr=False)
    buffers: BufferTexts = field(default_factory=BufferTexts, repr=False)
    log_text: Lazy[LogText] | None = field(default=None, repr=False)
    trees: Lazy[CallTrees] | None = field(default=None, repr=False)
    framework: Framework | None = field(default=None, repr=False)
    number: int | None = None
    folder: str = ""
    stage_list: Lazy[tuple[Stage, ...]] | None = field(default=None, repr=False)
    target_text: Lazy[str | None] | None = field(default=None, repr=False)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Stages of compilation that there are texts of, in the order of compilation."""
        return (self.stage_list.get() if self.stage_list is not None else None) or ()

    def at_stage(self, wanted: str) -> ModuleDump:
        """Return the module at another stage.

        Args:
            wanted: ``before`` (optimizations), ``after``, a stage's name, the number of a pass, or
                a part of the name that one stage alone has.

        Raises:
            UnknownNameError: If there is no such stage; it names those there are.
        """
        stages = self.stages
        found = _stages_like(stages, wanted)
        if len(found) == 1:
            return found[0].dump.get() or self
        names = [stage.name for stage in (found or stages)]
        shown = ", ".join(names[:_STAGES_SHOWN]) or "none told by the file names"
        more = f" and {len(names) - _STAGES_SHOWN} more" if len(names) > _STAGES_SHOWN else ""
        what = "more than one stage matches" if found else "no stage"
        message = f"{self.name}: {what} {wanted!r}; there is {shown}{more}"
        raise UnknownNameError(message)

    @property
    def title(self) -> str:
        """Name as in the HLO text, else as in the names of the files."""
        return (self.hlo.name if self.hlo is not None else "") or self.name

    @property
    def hlo(self) -> HloModule | None:
        """The HLO module of the latest stage there is, or None where there is no HLO text."""
        return None if self.module_text is None else self.module_text.get()

    @property
    def before(self) -> HloModule | None:
        """The module before optimizations: global shapes, all shardings as the program gave them.

        None where there is no such text beside that of `hlo`.
        """
        return None if self.before_text is None else self.before_text.get()

    @property
    def buffer_assignment(self) -> BufferAssignment | None:
        """Allocations and the values in them, or None where there is no such text."""
        return None if self.buffers.assignment is None else self.buffers.assignment.get()

    @property
    def buffer_values(self) -> BufferValues | None:
        """Used values with positions and uses, from their own file or the assignment's."""
        if self.buffers.values is not None:
            return self.buffers.values.get()
        assignment = self.buffer_assignment
        return None if assignment is None else assignment.values

    @property
    def live_range(self) -> HloLiveRange | None:
        """When values live, or None where there is no such text."""
        return None if self.buffers.live_range is None else self.buffers.live_range.get()

    @property
    def memory_usage_report(self) -> MemoryUsageReport | None:
        """XLA's own report, or None where there is no such text."""
        return None if self.buffers.usage_report is None else self.buffers.usage_report.get()

    @property
    def log(self) -> LogText | None:
        """What is understood of a log, or None where the text is none."""
        return None if self.log_text is None else self.log_text.get()

    @property
    def buffer_log(self) -> BufferLog | None:
        """What a log says of buffers, or None where there is no log that does."""
        return None if self.log is None else self.log.buffers

    @property
    def heap_traces(self) -> tuple[HeapTrace, ...]:
        """The simulations that the allocations were made by, which only protos have."""
        traces = None if self.buffers.traces is None else self.buffers.traces.get()
        return traces or ()

    @property
    def call_trees(self) -> CallTrees | None:
        """The call trees that the text draws, or None."""
        return None if self.trees is None else self.trees.get()

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """What could not be read: of the HLO text, and of the buffer-side texts read so far."""
        found = () if self.hlo is None else self.hlo.gaps
        texts = self.buffers
        if self.hlo is None and texts.assignment is not None:
            texts.assignment.get()
        if self.log is not None:
            found = (*found, *self.log.gaps)
        lazies = (texts.assignment, texts.values, texts.live_range, texts.usage_report)
        made = [lazy.made for lazy in lazies if lazy is not None]
        rest = [gap for text in made if text is not None for gap in text.gaps]
        rest += () if self.call_trees is None else self.call_trees.gaps
        return tuple(dict.fromkeys((*found, *rest)))


_STAGES_SHOWN = 12
_LATEST = "after_optimizations"


def _stages_like(stages: tuple[Stage, ...], wanted: str) -> list[Stage]:
    """Return the stages that are meant: those that fit best."""
    if wanted == "before":
        return [stage for stage in stages if stage.name == "before_optimizations"]
    if wanted == "after":
        return [stage for stage in stages if stage.name.endswith(_LATEST)]
    if wanted.isdecimal():
        return [stage for stage in stages if stage.pass_number == int(wanted)]
    exact = [stage for stage in stages if stage.name == wanted]
    return exact or [stage for stage in stages if wanted in stage.name]


UNREADABLE = "file that cannot be read"
CUT_OUT = "part of a module that XLA wrote separately"
UNPACKED = "archive next to its unpacked folder"
REFUSED = "archive that is damaged or refused"
REPEATED = "second text of the same module and stage"


@dataclass(frozen=True, slots=True)
class LeftAside:
    """Skipped files of a folder or archive: those that are no texts of a module.

    Attributes:
        kind: A value of `DumpKind`, or one of the reasons above.
        count: Number of files.
        example: Path of the first.
    """

    kind: str
    count: int
    example: str


_HTML_MODULES = 50


@dataclass(frozen=True, slots=True)
class Dump:
    """All modules that a path holds.

    Attributes:
        path: The file or folder.
        modules: In order of the text, or of the file names.
        left_aside: Files that were not read, by kind, the largest number first.
        files: How many files there are in all; 1 for a single file.
    """

    path: str
    modules: tuple[ModuleDump, ...]
    left_aside: tuple[LeftAside, ...] = ()
    files: int = 1

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """What could not be read, in all modules."""
        return tuple(gap for module in self.modules for gap in module.gaps)

    def _repr_html_(self) -> str:
        """Return the modules for a notebook: name, stage and files of each."""
        from html import escape

        shown = self.modules[:_HTML_MODULES]
        rows = "".join(
            f"<tr><td>{escape(one.name)}</td><td>{escape(one.stage or '')}</td>"
            f"<td>{escape(', '.join(one.files))}</td></tr>"
            for one in shown
        )
        rest = len(self.modules) - len(shown)
        more = f"<p>and {rest:,} more</p>" if rest else ""
        return (
            f"<p><b>{escape(self.path)}</b>: {len(self.modules):,} modules</p><table>"
            f"<tr><th>name</th><th>stage</th><th>files</th></tr>{rows}</table>{more}"
        )
