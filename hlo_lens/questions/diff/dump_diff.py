"""Changes between two dumps, as a report, JSON or a frame."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hlo_lens.program.summary import device_memory
from hlo_lens.questions.diff.causes import Changes, MovedOutOfJit, moved_operations
from hlo_lens.questions.diff.edit_flow import PLUMBING
from hlo_lens.questions.diff.line_edits import ProgramLines, program_lines
from hlo_lens.questions.diff.module_diff import NO_CHANGES, SUBJECTS, DumpDiff, module_diff
from hlo_lens.questions.diff.pairs import pair_modules, with_folders_of
from hlo_lens.questions.diff.shardings import sharding_diff
from hlo_lens.questions.findings.values import call_place, first_use
from hlo_lens.questions.matching.edits import Noise
from hlo_lens.questions.matching.program_diff import ProgramDiff, program_diff
from hlo_lens.shapes.sharding import MESHES
from hlo_lens.text.dump_kinds import BEFORE
from hlo_lens.text.errors import UsageError
from hlo_lens.text.names import portable_source

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import pandas as pd

    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.diff.sides import LoadedSide, SideModule
    from hlo_lens.render.table import Report


@dataclass(frozen=True, kw_only=True)
class Diff(DumpDiff):
    """Changes between two dumps, in all formats."""

    def to_dict(self) -> dict[str, object]:
        """Return the JSON object that ``hlo-lens diff -f json`` prints."""
        from hlo_lens.questions.diff.page import diff_object

        return diff_object(self)

    def to_frame(self) -> pd.DataFrame:
        """Return the figures as a pandas frame: module, subject, metric, base, head, delta.

        Subjects are ``memory`` (bytes) and ``collectives`` (number of each kind). Unknown values
        are missing, and so are their differences.
        """
        import pandas as pd

        rows = [
            (module.head.name, subject, metric, one.base, one.head, one.delta)
            for module in self.modules
            for subject, deltas in (
                ("memory", None if module.memory is None else module.memory.metrics),
                ("collectives", None if module.collectives is None else module.collectives.counts),
            )
            for metric, one in (deltas or {}).items()
        ]
        columns = ["module", "subject", "metric", "base", "head", "delta"]
        return pd.DataFrame.from_records(rows, columns=columns)

    def report(self, *, by: str | None = None) -> Report:
        """Return the report that ``hlo-lens diff`` prints."""
        from hlo_lens.questions.diff.page import diff_report

        report = diff_report(self, (self.base.path, self.head.path), by=by)
        return replace(report, subject=self)

    def __str__(self) -> str:
        return str(self.report())

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()  # the name that notebooks ask for


def diff_sides(
    base: LoadedSide,
    head: LoadedSide,
    *,
    only: Sequence[str] = SUBJECTS,
    heed: Sequence[str] = (),
    is_forced: bool = False,
) -> Diff:
    """Return the changes between two sides."""
    unknown = set(only) - set(SUBJECTS)
    if unknown or not only:
        raise UsageError(
            f"cannot compare {', '.join(sorted(unknown)) or 'nothing'}; there is "
            + ", ".join(SUBJECTS)
        )
    noise = noise_of(heed)
    subjects = tuple(subject for subject in SUBJECTS if subject in only)
    mine, yours = [m.snapshot for m in base.modules], [m.snapshot for m in head.modules]
    pairs = pair_modules(mine, yours, base_copies=base.copies(), head_copies=head.copies())
    alone = [base.modules[k] for k in pairs.removed], [head.modules[k] for k in pairs.added]
    found = []
    for one, other, note in pairs.pairs:
        sides = base.modules[one], head.modules[other]
        program, changes = None, NO_CHANGES
        if "program" in subjects:
            program = _program(*sides, noise)
            lines = _lines(*sides, program)
            moved = tuple(_moved(lines, *alone))
            changes = replace(_changes(*sides), program=lines, moved=moved)
        compared = module_diff(
            mine[one],
            yours[other],
            note=note,
            program=program,
            changes=changes,
            subjects=subjects,
            is_forced=is_forced,
            heed=noise,
        )
        limit = None if sides[1].dump is None else device_memory(sides[1].dump)
        problems = [
            f"the {role}: {side.program_problem}"
            for role, side in zip(("base", "head"), sides, strict=True)
            if side.program_problem
        ]
        problem = " and ".join(problems)
        found.append(replace(compared, limit_bytes=limit and limit[0], program_problem=problem))
    return Diff(
        base=base,
        head=head,
        modules=tuple(found),
        places=tuple((one, other) for one, other, _ in pairs.pairs),
        added=tuple(yours[place] for place in pairs.added),
        removed=tuple(mine[place] for place in pairs.removed),
        copies=(pairs.base_copies, pairs.head_copies),
    )


def compare_programs(base: HloModule, head: HloModule, *, heed: Sequence[str] = ()) -> ProgramDiff:
    """Return the differences of two programs, whatever their names.

    Raises:
        UsageError: If there is no noise kind of a name.
    """
    return program_diff(base, head, heed=noise_of(heed))


def noise_of(words: Sequence[str]) -> frozenset[Noise]:
    """Return the noise kinds of some names; raises UsageError for unknown ones."""
    kinds = {kind.value: kind for kind in Noise}
    unknown = [word for word in words if word not in kinds]
    if unknown:
        raise UsageError(f"no kind of noise is called {unknown[0]!r}; there is {', '.join(kinds)}")
    return frozenset(kinds[word] for word in words)


def _program(base: SideModule, head: SideModule, heed: Collection[Noise]) -> ProgramDiff | None:
    if (_is_known_equal(base, head) and not heed) or base.hlo is None or head.hlo is None:
        return None
    return program_diff(base.hlo, head.hlo, heed=heed)


def _is_known_equal(base: SideModule, head: SideModule) -> bool:
    one, other = base.snapshot.fingerprint, head.snapshot.fingerprint
    return None in (base.dump, head.dump) and one is not None and one == other


def _lines(base: SideModule, head: SideModule, program: ProgramDiff | None) -> ProgramLines | None:
    mine, yours = base.snapshot, head.snapshot
    is_equal = _is_known_equal(base, head) if program is None else program.identical
    if is_equal:  # unless constraints came or went that leave the optimized program as it was
        if mine.annotations == yours.annotations:
            return None
        shardings = sharding_diff(with_folders_of(mine, yours), yours)
        if shardings is None or not shardings.annotations:
            return None
    one, other = base.before, head.before
    if one is not None and other is not None:
        return program_lines(program_diff(one, other), one, other, is_source=True)
    if program is None or base.hlo is None or head.hlo is None:
        return None
    stages = {side.facts.stage for side in (mine, yours)}
    return program_lines(program, base.hlo, head.hlo, is_source=stages == {BEFORE})


def _changes(base: SideModule, head: SideModule) -> Changes:
    flags: dict[str, tuple[str | None, str | None]] = {}
    known = base.options, head.options
    for text in known[0].keys() & known[1].keys():
        for name in {**known[0][text], **known[1][text]}:
            pair = known[0][text].get(name), known[1][text].get(name)
            if pair[0] != pair[1]:
                flags[name] = pair
    mine, yours = (
        {
            "compiler": side.snapshot.toolchain,
            "flags": side.options or None,
            "target": side.snapshot.target,
        }
        for side in (base, head)
    )
    dump = None if head.dump is None or not head.dump.has_hlo else head.dump
    return Changes(
        flags=flags,
        meshes=(base.mesh, head.mesh),
        alike=tuple(name for name in mine if mine[name] == yours[name] is not None),
        forms=tuple(_forms(base, head)),
        first_use=lambda entry: None if dump is None else _line(first_use(dump, entry.number)),
        call_line=None if dump is None else _line(call_place(dump)),
    )


def _forms(base: SideModule, head: SideModule) -> Iterator[str]:
    texts = base.before, head.before
    if None in texts:
        texts = base.hlo, head.hlo
    mine, yours = ({} if text is None else _forms_of(text) for text in texts)
    for form in mine:
        if form in yours and mine[form] != yours[form]:
            names = ("base", "head") if mine[form] else ("head", "base")
            yield f"the {names[0]} has {form}, the {names[1]} has not"


_PROPAGATION = "allow_spmd_sharding_propagation_to_parameters"


def _forms_of(module: HloModule) -> dict[str, bool]:
    text, is_divided = module.columns.source.text, module.num_partitions > 1
    has_stacks, has_paths = bool(module.stack_frames), "op_name=" in text
    forms = (
        ("call stacks in tables", has_stacks, has_stacks or "source_file=" in text),
        ("meshes of Shardy", MESHES in module.frontend_attributes, is_divided),
        ("jit(main) in operation paths", "/jit(main)/" in text, has_paths),
        ("names with %", "\n  %" in text, not module.is_scheduled),
        (f"{_PROPAGATION} in its header", _PROPAGATION in module.header, is_divided),
    )
    return {form: has_it for form, has_it, is_shown in forms if is_shown}


def _line(place: SourceLocation | None) -> str | None:
    return None if place is None else portable_source(place.file, place.line)


def _moved(
    lines: ProgramLines | None, gone: Sequence[SideModule], new: Sequence[SideModule]
) -> Iterator[MovedOutOfJit]:
    if lines is None or not lines.is_source:
        return
    for is_out, one in [*((False, one) for one in gone), *((True, one) for one in new)]:
        opcodes = Counter() if one.before is None else Counter(one.before.opcodes)
        own = Counter({name: n for name, n in opcodes.items() if name not in PLUMBING})
        if found := own and moved_operations(lines, one.snapshot.name, own, is_out=is_out):
            yield found
