"""The two sides of a comparison: paths, dumps or snapshots, read and brought to one form."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.api.modules import modules_of
from hlo_lens.api.origin import target_of, toolchain_of
from hlo_lens.load import STDIN, load, read_source
from hlo_lens.load.stored import DiskFile, head_of, require
from hlo_lens.model.dump import Dump, ModuleDump
from hlo_lens.model.hlo.module import HloModule
from hlo_lens.model.snapshot.module_snapshot import Snapshot
from hlo_lens.model.snapshot.reading import read_snapshot
from hlo_lens.report.render.units import listed
from hlo_lens.text.errors import DumpSyntaxError, UnknownNameError, UsageError

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Collection, Sequence

    from hlo_lens.model.snapshot.module_snapshot import ModuleSnapshot

    Side: TypeAlias = "str | Path | Dump | ModuleDump | HloModule | Snapshot"
    Progress: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SideModule:
    """One module of a side.

    Attributes:
        snapshot: What is compared.
        dump: Its texts; None where there is only a snapshot.
    """

    snapshot: ModuleSnapshot
    dump: ModuleDump | None = None

    @property
    def hlo(self) -> HloModule | None:
        """Its HLO text; None where there is none."""
        return None if self.dump is None else self.dump.hlo


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSide:
    """All modules of a side.

    Attributes:
        path: Where they come from, for messages.
        modules: The modules.
        is_snapshot: Whether only snapshots are known.
    """

    path: str
    modules: tuple[SideModule, ...]
    is_snapshot: bool

    def selected(self, pattern: re.Pattern[str] | None) -> LoadedSide:
        """Return the side with the modules in whose names a pattern is found."""
        if pattern is None:
            return self
        chosen = tuple(m for m in self.modules if pattern.search(m.snapshot.name))
        return dataclasses.replace(self, modules=chosen)

    @property
    def names(self) -> str:
        """Names of its modules, the first few."""
        names = list(dict.fromkeys(module.snapshot.name for module in self.modules))
        return listed(names, _NAMES_SHOWN) or "no module"


_NAMES_SHOWN = 8


def load_sides(
    base: Side,
    head: Side,
    *,
    pattern: re.Pattern[str] | None = None,
    progress: Progress | None = None,
    with_programs: bool = True,
    limits_estimate: bool = False,
) -> tuple[LoadedSide, LoadedSide]:
    """Return both sides; programs get fingerprints where one side is a snapshot.

    Args:
        base: Before.
        head: After.
        pattern: Modules in whose names this is found; None for all.
        progress: Called with modules done and modules in all, of each side.
        with_programs: Whether programs are compared; else only those get fingerprints that cannot
            be told apart without.
        limits_estimate: Whether memory of large modules is not estimated; it always is where a
            side is a snapshot.

    Raises:
        UnknownNameError: If the pattern is found in no name of either side.
    """
    if STDIN in (base, head) and base == head:
        message = "only one side can be standard input"
        raise UsageError(message)
    for side in (base, head):
        if isinstance(side, str | Path) and "\n" not in str(side):
            require(str(side))  # before the other, which may be large, is read
    if _is_saved(base) or _is_saved(head):
        limits_estimate = False  # as in what was saved
    sides = [
        load_side(side, progress=progress, limits_estimate=limits_estimate) for side in (base, head)
    ]
    one, other = (side.selected(pattern) for side in sides)
    if pattern is not None and not one.modules and not other.modules:
        message = f"no module matches {pattern.pattern!r}; there is {sides[1].names}"
        raise UnknownNameError(message)
    if with_programs and (one.is_snapshot or other.is_snapshot):
        return _with_fingerprints(one), _with_fingerprints(other)
    # only their programs tell modules of one name and signature apart, on either side
    counts = Counter(_keys(one)), Counter(_keys(other))
    several = {key for key in (*counts[0], *counts[1]) if counts[0][key] > 1 or counts[1][key] > 1}
    return _with_fingerprints(one, of=several), _with_fingerprints(other, of=several)


def load_side(
    side: Side, *, progress: Progress | None = None, limits_estimate: bool = False
) -> LoadedSide:
    """Return the modules of one side: of a path, HLO text, or what was read from either."""
    if isinstance(side, Snapshot):
        return _of_snapshot(side)
    if isinstance(side, Dump):
        return _of_modules(side.path, side.modules, progress, limits_estimate=limits_estimate)
    if isinstance(side, ModuleDump | HloModule) or "\n" in str(side):
        modules = modules_of(side)
        name = modules[0].name if modules else "text"
        return _of_modules(name, modules, progress, limits_estimate=limits_estimate)
    name = str(side)
    if _is_saved(side):
        return _of_snapshot(read_snapshot_file(name))
    dump = load(side)
    return _of_modules(dump.path, dump.modules, progress, limits_estimate=limits_estimate)


def snapshot(
    side: Side, *, pattern: re.Pattern[str] | None = None, progress: Progress | None = None
) -> Snapshot:
    """Return what is kept of a dump to compare others with it: what ``hlo-lens save`` writes.

    Args:
        side: A path, a `Dump` or a `Snapshot`.
        pattern: Modules in whose names this is found; None for all.
        progress: Called with modules done and modules in all.

    Raises:
        UnknownNameError: If the pattern is found in no name.
    """
    whole = load_side(side, progress=progress)
    loaded = _with_fingerprints(whole.selected(pattern))
    if pattern is not None and not loaded.modules:
        message = f"no module matches {pattern.pattern!r}; there is {whole.names}"
        raise UnknownNameError(message)
    return Snapshot(path=loaded.path, modules=tuple(m.snapshot for m in loaded.modules))


def read_snapshot_file(path: str) -> Snapshot:
    """Return the snapshot in a file, compressed with gzip or not.

    Raises:
        UnreadableError: If it cannot be read.
        DumpSyntaxError: If it is no snapshot, damaged, or of a newer version.
    """
    try:
        data = json.loads(read_source(path).text, parse_constant=_no_number, parse_float=_finite)
    except json.JSONDecodeError as error:
        message = f"this begins like JSON, but is none: {error.msg}"
        raise DumpSyntaxError(message, path=path, line=error.lineno, column=error.colno) from error
    except RecursionError as error:
        message = "this begins like JSON, but is nested too deeply"
        raise DumpSyntaxError(message, path=path) from error
    except ValueError as error:  # also from int(), of more digits than Python reads
        raise DumpSyntaxError(f"the snapshot is damaged: {error}", path=path) from error
    return read_snapshot(data, path)


def _no_number(text: str) -> float:
    message = f"{text} is no number"
    raise ValueError(message)


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


def _is_json(path: str) -> bool:
    """Return whether a file begins as JSON with a kind does; no text that XLA dumps does."""
    if not Path(path).is_file():
        return False
    head = head_of(DiskFile(path)).lstrip(b"\xef\xbb\xbf \t\r\n")
    return head.startswith(b"{") and (b'"kind"' in head or b'"schema_version"' in head)


def _is_saved(side: Side) -> bool:
    """Return whether a side is a snapshot, or the path of one."""
    if isinstance(side, str | Path):
        name = str(side)
        return name != STDIN and "\n" not in name and _is_json(name)
    return isinstance(side, Snapshot)


def _of_snapshot(found: Snapshot) -> LoadedSide:
    modules = tuple(SideModule(snapshot=module) for module in found.modules)
    return LoadedSide(path=found.path, modules=modules, is_snapshot=True)


def _of_modules(
    path: str, dumps: Sequence[ModuleDump], progress: Progress | None, *, limits_estimate: bool
) -> LoadedSide:
    modules: list[SideModule] = []
    for done, module in enumerate(dumps):
        if progress is not None:
            progress(done, len(dumps))
        modules.append(_module_of(module, limits_estimate=limits_estimate))
    return LoadedSide(path=path, modules=tuple(modules), is_snapshot=False)


# ---- one module --------------------------------------------------------------------------------


def _module_of(dump: ModuleDump, *, limits_estimate: bool) -> SideModule:
    """Return a module with its snapshot."""
    from hlo_lens.analysis.comparison.module_pairs import plain_name
    from hlo_lens.analysis.comparison.snapshot import module_snapshot
    from hlo_lens.analysis.module_analysis import ModuleAnalysis

    analysis = ModuleAnalysis(dump, limits_estimate=limits_estimate)
    kept = module_snapshot(
        analysis,
        name=dump.title if analysis.has_hlo else plain_name(dump.name),
        target=target_of(dump),
        toolchain=toolchain_of(dump),
    )
    return SideModule(snapshot=kept, dump=dump)


_Key: TypeAlias = "tuple[str, str | None]"


def _keys(side: LoadedSide) -> list[_Key]:
    """Return name and signature of each module."""
    from hlo_lens.analysis.comparison.module_pairs import plain_name

    return [(plain_name(m.snapshot.name), m.snapshot.signature) for m in side.modules]


def _with_fingerprints(side: LoadedSide, *, of: Collection[_Key] | None = None) -> LoadedSide:
    """Return a side with fingerprints of its programs: of some keys, or of all if None."""
    modules: list[SideModule] = []
    for key, module in zip(_keys(side), side.modules, strict=True):
        if of is not None and key not in of:
            modules.append(module)
            continue
        known = dataclasses.replace(module.snapshot, fingerprint=fingerprint_of(module))
        modules.append(dataclasses.replace(module, snapshot=known))
    return dataclasses.replace(side, modules=tuple(modules))


def fingerprint_of(module: SideModule) -> str | None:
    """Return the digest of a module's program; None where nothing tells it."""
    from hlo_lens.analysis.program_diff.digest import program_fingerprint

    if module.snapshot.fingerprint is not None or module.hlo is None:
        return module.snapshot.fingerprint
    return program_fingerprint(module.hlo)
