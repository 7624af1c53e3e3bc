"""ModuleDump: one module with all texts of it; Dump: all modules of a file, folder or archive."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Generic, Protocol, TypeVar

from hlo_lens.text.dump_kinds import AFTER, BEFORE, module_address
from hlo_lens.text.errors import Gap, UnknownNameError
from hlo_lens.text.names import did_you_mean, shell_word
from hlo_lens.text.units import bounded_int, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hlo_lens.buffers.assignment import BufferAssignment, BufferValues
    from hlo_lens.buffers.live_range import HloLiveRange
    from hlo_lens.buffers.memory_usage import MemoryUsageReport
    from hlo_lens.call_trees.tree import CallTrees
    from hlo_lens.hlo.lowered import LoweredModule
    from hlo_lens.hlo.module import Framework, HloModule
    from hlo_lens.logs.log import LogText
    from hlo_lens.render.result import Unit
    from hlo_lens.shapes.mesh import Mesh
    from hlo_lens.text.dump_kinds import DumpKind

T = TypeVar("T")


class Lazy(Generic[T]):
    """A value that is read on first access and kept."""

    __slots__ = ("_made", "_read")

    def __init__(self, read: Callable[[], T]) -> None:
        self._read: Callable[[], T] | None = read
        self._made: T | None = None

    @property
    def made(self) -> T | None:
        return self._made

    def get(self) -> T | None:
        if self._read is not None:
            self._made, self._read = self._read(), None
        return self._made


def already_read(value: T) -> Lazy[T]:
    """Return a value that needs no reading, as Lazy."""
    return Lazy(partial(_same, value))


def _same(value: T) -> T:
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the user states of a module; its facts depend on it.

    Attributes:
        mesh: Mesh that names the axes; None for the one that the texts name.
        limit_bytes: Memory of a device; None for that of the device that the dump names.
        limits_estimate: Whether memory is not estimated for modules with many instructions.
        is_quick: Whether to skip what a first page omits: undefined operand names in large
            modules, and the text from before optimizations of a program of one device.
        findings: Returns the findings by the user's settings; None for those of all rules.
    """

    mesh: Mesh | None = None
    limit_bytes: int | None = None
    limits_estimate: bool = False
    is_quick: bool = False
    findings: Callable[[ModuleDump], object] | None = None


class HasGaps(Protocol):
    """A parsed text."""

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Parts that could not be read."""


@dataclass(slots=True)
class BufferTexts:
    """Buffer-side texts of one module, each None if there is no such file."""

    assignment: Lazy[BufferAssignment | None] | Lazy[BufferAssignment] | None = None
    values: Lazy[BufferValues] | None = None
    live_range: Lazy[HloLiveRange | None] | Lazy[HloLiveRange] | None = None
    usage_report: Lazy[MemoryUsageReport] | None = None

    def parsed(self) -> Iterator[HasGaps]:
        for field_ in fields(self):
            lazy: Lazy[HasGaps] | None = getattr(self, field_.name)
            if lazy is not None and lazy.made is not None:
                yield lazy.made


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage in the compilation of a module, with its texts.

    Attributes:
        name: As in the file names: ``before_optimizations``, ``0003.simplification.after_dce...``.
    """

    name: str
    files: tuple[str, ...]
    dump: Lazy[ModuleDump] = field(repr=False, compare=False)
    is_hlo: bool = True

    @property
    def pass_number(self) -> int | None:
        """Number of the pass, for texts that ``--xla_dump_hlo_pass_re`` writes; None for others."""
        number, dot, _ = self.name.partition(".")
        return bounded_int(number) if dot and number.isdecimal() else None


@dataclass(slots=True)
class ModuleDump:
    """One module and the files that belong to it.

    Attributes:
        stage: Stage of compilation in the file name, such as ``cpu_after_optimizations``.
        files: Files that it is read from, the HLO text first.
        parts: File of each buffer-side text, by its part of the file name.
        module_text: HLO module; None if there is no HLO text.
        before_text: HLO module before optimizations; None if there is no such text, or if it is
            that of `module_text`.
        log_text: Messages of a log; None if the text is no log.
        folder: Folder of its files, relative to the loaded path; empty for the top.
        stage_list: Its stages; None for a text of no stage.
        settings: Texts on target and options, by the end of their file names
            (``target_arguments.txt``).
        mlir_text: The program as the framework lowered it (``module.mlir``); None if there is none.
        lowered_text: The same, parsed, where it is the text that was loaded.
        path: File, folder or archive that was loaded, as the user named it; empty if unknown.
        is_only: Whether the path has no other module.
        is_in_cut_archive: Whether the path is an archive that ends too early.
        given: What the user states of it.
        facts: Values of its facts so far, by function (see `fact`); neither compared nor pickled.
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
    settings: Mapping[str, Lazy[str | None]] = field(default_factory=dict, repr=False)
    mlir_text: Lazy[str | None] | None = field(default=None, repr=False)
    lowered_text: Lazy[LoweredModule] | None = field(default=None, repr=False)
    path: str = field(default="", compare=False)
    is_only: bool = field(default=True, compare=False)
    is_in_cut_archive: bool = False
    given: Given = field(default_factory=Given, repr=False, compare=False)
    facts: dict[object, object] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __getstate__(self) -> tuple[None, dict[str, object]]:
        state = {one.name: getattr(self, one.name) for one in fields(self)}
        return None, {**state, "facts": {}}

    def stating(self, **given: Any) -> ModuleDump:
        """Return the module with the same texts and no facts."""
        return replace(self, given=replace(self.given, **given))

    @property
    def stages(self) -> tuple[Stage, ...]:
        return (self.stage_list.get() if self.stage_list is not None else None) or ()

    def at_stage(self, wanted: str) -> ModuleDump:
        """Return the module at another stage.

        Args:
            wanted: ``before`` (optimizations), ``after``, a stage's name, the number of a pass, or
                a part of exactly one stage's name.

        Raises:
            UnknownNameError: If there is no such stage; the message lists the stages.
        """
        stages = self.stages
        alike = _stages_like(stages, wanted)
        if len(alike) == 1:
            made = alike[0].dump.get() or self
            made.path, made.is_only = self.path, self.is_only
            return made
        names = listed([stage.name for stage in (alike or stages)], _STAGES_SHOWN)
        what = "more than one stage matches" if alike else "no stage"
        there = f"there is {names}" if names else "the file names have none"
        hint = "" if alike else did_you_mean(wanted, [stage.name for stage in stages])
        raise UnknownNameError(f"{self.name}: {what} {wanted!r}; {there}{hint}")

    @property
    def address(self) -> str:
        """Name after the folder of its files: what ``--module`` takes to select it alone."""
        return module_address(self.folder, self.name)

    @property
    def module_option(self) -> str:
        """Option with which commands on its path read it alone; empty if there is no other."""
        return "" if self.is_only else f"--module {shell_word(self.address)}"

    @property
    def title(self) -> str:
        """Name in the HLO text, else in the file names."""
        return (self.hlo.name if self.hlo is not None else "") or self.name

    @property
    def hlo(self) -> HloModule | None:
        return None if self.module_text is None else self.module_text.get()

    @property
    def has_hlo(self) -> bool:
        return self.hlo is not None

    @property
    def has_program(self) -> bool:
        """Whether there is the text from before optimizations, which can be compiled again."""
        return self.stage == BEFORE or self.before_text is not None

    @property
    def before(self) -> HloModule | None:
        """HLO module before optimizations: global shapes, and all shardings of the program.

        None if there is no such text, or if it is that of `hlo`.
        """
        return None if self.before_text is None else self.before_text.get()

    def setting(self, name: str) -> str | None:
        text = self.settings.get(name)
        return None if text is None else text.get()

    @property
    def lowered_meshes(self) -> tuple[Mesh, ...]:
        text = None if self.mlir_text is None else self.mlir_text.get()
        if not text:
            return ()
        from hlo_lens.shapes.sharding import lowered_meshes  # costs start-up; few need it

        return lowered_meshes(text)

    @property
    def lowered(self) -> LoweredModule | None:
        return None if self.lowered_text is None else self.lowered_text.get()

    @property
    def buffer_assignment(self) -> BufferAssignment | None:
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
        return None if self.buffers.live_range is None else self.buffers.live_range.get()

    @property
    def memory_usage_report(self) -> MemoryUsageReport | None:
        return None if self.buffers.usage_report is None else self.buffers.usage_report.get()

    @property
    def log(self) -> LogText | None:
        return None if self.log_text is None else self.log_text.get()

    @property
    def call_trees(self) -> CallTrees | None:
        return None if self.trees is None else self.trees.get()

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Parts that could not be read: in the HLO text and the texts read so far."""
        if self.hlo is None and self.buffers.assignment is not None:
            self.buffers.assignment.get()
        texts: tuple[HasGaps | None, ...] = (
            *(self.hlo, self.log),
            *self.buffers.parsed(),
            *(self.lowered, self.call_trees),
        )
        gaps = (gap for text in texts if text is not None for gap in text.gaps)
        return tuple(dict.fromkeys(gaps))


_STAGES_SHOWN = 12


def _stages_like(stages: tuple[Stage, ...], wanted: str) -> list[Stage]:
    if wanted == "before":
        return [stage for stage in stages if stage.name == BEFORE]
    if wanted == "after":
        return [stage for stage in stages if stage.name.endswith(AFTER)]
    if wanted.isdecimal():
        return [stage for stage in stages if stage.pass_number == bounded_int(wanted)]
    exact = [stage for stage in stages if stage.name == wanted]
    return exact or [stage for stage in stages if wanted in stage.name]


UNREADABLE = "file that cannot be read"
UNREADABLE_FOLDER = "folder that cannot be read"
LINKED_FOLDER = "link to a folder"
SPECIAL = "pipe, socket or device"
CUT_OUT = "part of a module that XLA wrote separately"
UNPACKED = "archive next to its unpacked folder"
REST_OF_ARCHIVE = "rest of an archive that ends too early"
"""Kind of what is skipped of an archive that is cut."""

REFUSED = "archive that is damaged or refused"
REPEATED = "second text of the same module and stage"


@dataclass(frozen=True, slots=True)
class SkippedFiles:
    """Skipped files of a folder or archive: those that are no texts of a module.

    Attributes:
        kind: A value of `DumpKind`, or one of the reasons above.
    """

    kind: Annotated[str, "kind of file"]
    count: Annotated[int, Unit.COUNT, "number of files"]
    example: Annotated[str, "path of the first file"]


class SkippedCounter:
    """Counter of skipped files."""

    def __init__(self) -> None:
        self._paths: dict[str, list[str]] = {}

    def add(self, kind: str, path: str) -> None:
        self._paths.setdefault(kind, []).append(path)

    def add_all(self, others: SkippedCounter) -> None:
        for kind, paths in others._paths.items():
            self._paths.setdefault(kind, []).extend(paths)

    def all(self) -> tuple[SkippedFiles, ...]:
        ordered = sorted(self._paths.items(), key=lambda item: (-len(item[1]), item[0]))
        return tuple(SkippedFiles(kind, len(paths), paths[0]) for kind, paths in ordered)


@dataclass(frozen=True, slots=True)
class Dump:
    """All modules of a file, folder or archive.

    Attributes:
        modules: Modules in the order of the text, or of the file names.
        skipped: Skipped files, by kind, the largest count first.
        files: Number of all files; 1 for a single file.
    """

    path: str
    modules: tuple[ModuleDump, ...]
    skipped: tuple[SkippedFiles, ...] = ()
    files: int = 1

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Parts that could not be read, in all modules."""
        return tuple(gap for module in self.modules for gap in module.gaps)
