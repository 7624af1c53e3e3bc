"""Sides of a comparison: the modules of a path, a dump or a snapshot, each with its snapshot."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.load import STDIN, load
from hlo_lens.load.files import require
from hlo_lens.load.module import Dump, ModuleDump
from hlo_lens.load.programs import Program, Progress, modules_of, no_module_matches, with_progress
from hlo_lens.program.pages import with_leading_alone
from hlo_lens.program.summary import compiler_text, target_text
from hlo_lens.questions.matching.fingerprints import text_copies
from hlo_lens.questions.snapshots.program import (
    NO_PROGRAM,
    NOT_KEPT,
    Options,
    SavedProgram,
    mesh_text,
    options,
    packed_program,
)
from hlo_lens.questions.snapshots.snapshot_file import (
    ModuleSnapshot,
    Snapshot,
    is_snapshot_file,
    read_snapshot_file,
)
from hlo_lens.text.errors import UsageError
from hlo_lens.text.names import NamePattern, plain_name
from hlo_lens.text.processes import start_second

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.dumps.listing import ListingFacts
    from hlo_lens.questions.findings.findings import Findings

_LONG = 1 << 19

Side: TypeAlias = "Program | Snapshot"


@dataclass(frozen=True, slots=True, kw_only=True)
class SideModule:
    """One module of a side: its snapshot, and where it was read from texts, these.

    `listing` has its facts among other modules, `findings` those of it alone.
    """

    snapshot: ModuleSnapshot
    dump: ModuleDump | None = None
    listing: ListingFacts | None = None
    findings: Findings | None = None

    @property
    def hlo(self) -> HloModule | None:
        """Its HLO text of the latest stage, or None; that of a snapshot is unpacked when asked."""
        return self._saved.hlo if self.dump is None else self.dump.hlo

    @property
    def before(self) -> HloModule | None:
        """Its text from before optimizations; None without it, or if it is `hlo`."""
        return self._saved.before if self.dump is None else self.dump.before

    @property
    def options(self) -> Options:
        return self._saved.options if self.dump is None else options(self.dump)

    @property
    def mesh(self) -> str | None:
        """Axes of its largest mesh; None if it is not known."""
        return self._saved.mesh if self.dump is None else mesh_text(self.dump)

    @property
    def _saved(self) -> SavedProgram:
        return self.snapshot.program or NO_PROGRAM

    @property
    def program_problem(self) -> str:
        """Why a snapshot has no program; empty if it has one, and for dumps."""
        return self._saved.reason if self.dump is None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSide:
    """All modules of a side.

    `path` is for messages, `selection` the regular expression with which a snapshot was saved, None
    for all modules, and `note` a line on modules that are left out; empty for none.
    """

    path: str
    modules: tuple[SideModule, ...]
    is_snapshot: bool
    selection: str | None = None
    note: str = ""

    def selected(self, pattern: NamePattern | None, other: LoadedSide | None = None) -> LoadedSide:
        """Return the side with the modules in whose names a pattern is found, as elsewhere.

        An address that only the other side has selects the modules with the names of those at the
        address: dumps of one program are kept in folders of any name.
        """
        if pattern is None:
            return self
        chosen = self.at_address(pattern) or [
            module
            for module in self.modules
            if pattern.found_in(module.snapshot.name)
            or (module.dump is not None and pattern.found_in(module.dump.name))
        ]
        if not chosen and other is not None:
            names = {module.snapshot.name for module in other.at_address(pattern)}
            chosen = [module for module in self.modules if module.snapshot.name in names]
        return self._with(chosen)

    def leading(self) -> LoadedSide:
        """Return the side with its leading module alone, where there is one."""
        chosen, note = with_leading_alone([*self._dumps])
        if not note:
            return self
        kept = [module for module in self.modules if module.dump in chosen]
        return replace(self._with(kept), note=note)

    def named_as(self, other: LoadedSide) -> LoadedSide:
        """Return the side with the modules that another one has; as it is without any."""
        names = {plain_name(module.snapshot.name) for module in other.modules}
        kept = [one for one in self.modules if plain_name(one.snapshot.name) in names]
        return self._with(kept) if 0 < len(kept) < len(self.modules) else self

    def selected_as(self, other: LoadedSide) -> LoadedSide:
        """Return the side with the modules that another one, a snapshot, was saved with."""
        if other.selection is None:
            return self
        chosen = self.selected(NamePattern(other.selection))
        return chosen if chosen.modules else self.named_as(other)

    def at_address(self, pattern: NamePattern) -> list[SideModule]:
        """Return the module whose address a pattern is."""
        return [m for m in self.modules if m.dump and m.dump.address == pattern.text]

    def with_only(self, place: int) -> LoadedSide:
        """Return the side with one module."""
        return replace(self, modules=self.modules[place : place + 1])

    def _with(self, modules: Sequence[SideModule]) -> LoadedSide:
        return replace(self, modules=_with_dump_findings(modules))

    def copies(self) -> Mapping[int, int]:
        """Return the places of texts that repeat another module, each with that of the module."""
        return text_copies([*self._dumps])  # a snapshot has neither dumps nor copies

    @property
    def source(self) -> str:
        """Path that it was read from, for commands; empty for programs in memory."""
        return self.path if self.is_snapshot else next((m.path for m in self._dumps), "")

    @property
    def _dumps(self) -> Iterator[ModuleDump]:
        return (module.dump for module in self.modules if module.dump is not None)

    @property
    def names(self) -> list[str]:
        """Names of its modules, each once."""
        return list(dict.fromkeys(module.snapshot.name for module in self.modules))


def load_sides(
    base: Side,
    head: Side,
    *,
    pattern: NamePattern | None = None,
    progress: Progress | None = None,
    with_programs: bool = True,
    limits_estimate: bool = False,
) -> tuple[LoadedSide, LoadedSide]:
    """Return both sides, with the fingerprints that comparing and pairing them needs.

    With `limits_estimate` the memory of large modules is not estimated, but against a snapshot.

    Raises:
        UnknownNameError: If the pattern is found in no name of either side.
    """
    if STDIN in (base, head) and base == head:
        raise UsageError("only one side can be standard input")
    for side in (base, head):
        if _is_path(side):
            require(str(side))  # before the other, which may be large, is read
    if _is_snapshot(base) or _is_snapshot(head):
        limits_estimate = False  # as when the snapshot was saved
    load_one = partial(load_side, limits_estimate=limits_estimate)
    # of two long sides the head is loaded by a second process; errors of the base are raised first
    is_long = _is_long(base) and _is_long(head)
    second = start_second(partial(load_one, head)) if is_long else None
    try:
        one = load_one(base, progress=progress)
        found = None if second is None else second.result()
    finally:
        if second is not None:
            second.end()
    other = load_one(head, progress=progress) if found is None else found
    names = other.names
    if pattern is None:
        one, other = one.selected_as(other), other.selected_as(one)
    one, other = one.selected(pattern, other), other.selected(pattern, one)
    if pattern is not None and not one.modules and not other.modules:
        raise no_module_matches(pattern, names)
    if with_programs and (one.is_snapshot or other.is_snapshot):
        return _with_fingerprints(one), _with_fingerprints(other)
    # only their programs distinguish modules of one name and signature
    counts = [Counter(map(_key, side.modules)) for side in (one, other)]
    several = {key for side in counts for key, count in side.items() if count > 1}
    return _with_fingerprints(one, of=several), _with_fingerprints(other, of=several)


def _is_long(side: Side) -> bool:
    """Return whether a side is a path, and loading it takes longer than starting a process."""
    if not _is_path(side) or side == STDIN:
        return False
    path, size = Path(str(side)), 0
    for file in path.rglob("*") if path.is_dir() else (path,):
        with suppress(OSError):  # said when it is read
            size += file.stat().st_size
        if size >= _LONG:
            return True
    return False


def load_side(
    side: Side,
    *,
    pattern: NamePattern | None = None,
    progress: Progress | None = None,
    limits_estimate: bool = False,
) -> LoadedSide:
    """Return the modules of one side: a path, a program, a dump or a snapshot.

    Raises:
        UnknownNameError: If the pattern is found in no name.
    """
    if isinstance(side, Snapshot) or _is_snapshot(side):
        found = side if isinstance(side, Snapshot) else read_snapshot_file(str(side))
        modules = tuple(SideModule(snapshot=module) for module in found.modules)
        loaded = LoadedSide(
            path=found.path, modules=modules, is_snapshot=True, selection=found.selection
        )
    else:
        dump = load(side) if isinstance(side, str | Path) and _is_path(side) else side
        dumps = modules_of(dump)
        loaded = LoadedSide(
            path=dump.path if isinstance(dump, Dump) else dumps[0].name if dumps else "text",
            modules=_modules_of(dumps, limits_estimate=limits_estimate, progress=progress),
            is_snapshot=False,
        )
    chosen = loaded.selected(pattern)
    if pattern is not None and not chosen.modules:
        raise no_module_matches(pattern, loaded.names)
    return chosen


def snapshot(
    side: Side,
    *,
    pattern: NamePattern | None = None,
    progress: Progress | None = None,
    with_program: bool = True,
) -> Snapshot:
    """Return the snapshot of a program or dump, which ``hlo-lens save`` writes.

    Args:
        side: A path, a program, a dump or a snapshot.
        pattern: Modules in whose names this is found; None for all.
        progress: Called with modules done and modules in all.
        with_program: Whether it has the programs, in which causes of changes are found.

    Raises:
        UnknownNameError: If the pattern is found in no name.
    """
    loaded = load_side(side, pattern=pattern, progress=progress)
    copies = loaded.copies()
    once = [one for place, one in enumerate(loaded.modules) if place not in copies]
    modules = []
    for one in _with_fingerprints(replace(loaded, modules=tuple(once))).modules:
        kept = one.snapshot
        if one.dump is not None:
            program = packed_program(one.dump) if with_program else NOT_KEPT
            kept = replace(kept, program=program)
        modules.append(kept)
    return Snapshot(
        path=loaded.path,
        modules=tuple(modules),
        selection=None if pattern is None else pattern.text,
    )


def _is_path(side: Side) -> bool:
    return isinstance(side, str | Path) and "\n" not in str(side)


def _is_snapshot(side: Side) -> bool:
    if isinstance(side, Snapshot):
        return True
    return _is_path(side) and side != STDIN and is_snapshot_file(str(side))


def _modules_of(
    dumps: Sequence[ModuleDump], *, limits_estimate: bool, progress: Progress | None
) -> tuple[SideModule, ...]:
    from hlo_lens.load.fact import plant
    from hlo_lens.questions.dumps.listing import hashed_facts, listing_facts, needs_fingerprints
    from hlo_lens.questions.findings.findings import module_findings, unproven_findings
    from hlo_lens.questions.findings.settings import Sieve, sifted_module_findings
    from hlo_lens.questions.snapshots.module_snapshot import module_snapshot

    sieve = Sieve.usual()
    list_facts = hashed_facts if needs_fingerprints(dumps) else listing_facts
    modules: list[SideModule] = []
    for dump in with_progress(dumps, progress):
        stated = dump.stating(limits_estimate=limits_estimate)
        findings = None
        if stated.has_hlo:
            plant(stated, unproven_findings, sifted_module_findings(stated, sieve))
            findings = module_findings(stated)
        kept = module_snapshot(
            stated,
            name=dump.title if stated.has_hlo else plain_name(dump.name),
            target=target_text(dump),
            toolchain=compiler_text(dump),
        )
        listing = list_facts(stated)
        modules.append(SideModule(snapshot=kept, dump=dump, listing=listing, findings=findings))
    return _with_dump_findings(modules)


def _with_dump_findings(modules: Sequence[SideModule]) -> tuple[SideModule, ...]:
    facts = [one.listing for one in modules if one.listing is not None]
    dumps = [one.dump for one in modules if one.dump is not None]
    if not modules or len(facts) < len(modules) or len(dumps) < len(modules):
        return tuple(modules)
    from hlo_lens.questions.findings.findings import Findings, together
    from hlo_lens.questions.findings.settings import Sieve, sifted_dump_findings
    from hlo_lens.questions.snapshots.module_snapshot import with_findings

    others = sifted_dump_findings(facts, dumps, Sieve.usual())
    joined = []
    for index, module in enumerate(modules):
        if module.findings is not None:
            found = together(module.findings, others.get(index, Findings(findings=())))
            module = replace(module, snapshot=with_findings(module.snapshot, found))
        joined.append(module)
    return tuple(joined)


def _key(module: SideModule) -> tuple[str, str | None]:
    return plain_name(module.snapshot.name), module.snapshot.signature


def _with_fingerprints(side: LoadedSide, *, of: Collection[object] | None = None) -> LoadedSide:
    """Return a side with fingerprints of the programs of some keys; of all for None."""
    modules = (
        replace(module, snapshot=replace(module.snapshot, fingerprint=fingerprint_of(module)))
        if of is None or _key(module) in of
        else module
        for module in side.modules
    )
    return replace(side, modules=tuple(modules))


def fingerprint_of(module: SideModule) -> str | None:
    """Return the digest of a module's program; None if it is not known."""
    from hlo_lens.questions.matching.fingerprints import program_fingerprint

    if module.snapshot.fingerprint is not None or module.hlo is None:
        return module.snapshot.fingerprint
    return program_fingerprint(module.hlo)
