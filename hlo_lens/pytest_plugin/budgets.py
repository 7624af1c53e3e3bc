"""The fixture ``hlo``, budgets of single tests, and snapshots of all tests of a run."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import shutil
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from hlo_lens import __version__
from hlo_lens.load.module import Dump, ModuleDump
from hlo_lens.questions.check import check
from hlo_lens.questions.check.page import check_report
from hlo_lens.questions.diff.sides import snapshot
from hlo_lens.questions.snapshots.snapshot_file import (
    ModuleSnapshot,
    Snapshot,
    read_snapshot_file,
    snapshot_text,
)
from hlo_lens.render.replaced_file import replaced_file
from hlo_lens.text.dump_kinds import AFTER, BEFORE
from hlo_lens.text.errors import HloLensError
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from hlo_lens.testing.capture import Capture

_NOT_IN_NAMES = re.compile(r"[^\w.-]+")
_LONGEST_NAME = 120


class Compiling:
    """Compiler of the functions of one test.

    Attributes:
        dumps: Programs that were compiled or added, in order.
    """

    def __init__(self) -> None:
        self.dumps: list[ModuleDump] = []

    def __call__(self, function: Any, *args: Any, **kwargs: Any) -> ModuleDump:
        """Return the program of a function for arguments, which may be abstract.

        Args:
            function: A function, or the result of ``jax.jit`` with its shardings and donations.
            args: Positional arguments of the function.
            kwargs: Keyword arguments of the function.

        Raises:
            MissingPackageError: If jax is not installed.
        """
        from hlo_lens.load.jax import from_compiled, import_jax

        jax = import_jax()
        jitted = function if hasattr(function, "lower") else jax.jit(function)
        lowered = jitted.lower(*args, **kwargs)
        dump = from_compiled(lowered.compile(), lowered=lowered)
        self.dumps.append(dump)
        return dump

    def add(self, dump: ModuleDump) -> ModuleDump:
        self.dumps.append(dump)
        return dump


def keep(compiled: Sequence[Compiling], folder: Path, test: str) -> str:
    """Write the dumps of a test below a folder; return a message, empty without dumps."""
    dumps = [dump for one in compiled for dump in one.dumps]
    if not dumps:
        return ""
    # a digest where names would collide
    name, parameters = _NOT_IN_NAMES.sub("_", test), test.partition("[")[2].removesuffix("]")
    if len(name) > _LONGEST_NAME or _NOT_IN_NAMES.search(parameters):
        digest = hashlib.blake2b(test.encode("utf-8", "replace"), digest_size=4).hexdigest()
        name = f"{name[-_LONGEST_NAME:]}-{digest}"
    place, page = folder / name, ""
    try:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        (folder / ".gitignore").write_text("*\n", "ascii")
        for number, dump in enumerate(dumps):
            title = _NOT_IN_NAMES.sub("_", dump.title)[:_LONGEST_NAME] or "module"
            for stage, text in _texts(dump):
                (place / f"module_{number:04}.{title}.{stage}.txt").write_text(text, "utf-8")
        with suppress(HloLensError):
            from hlo_lens.questions.report.page import report_modules

            (place / "report.html").write_text(report_modules(dumps).to_html(), "utf-8")
            page = f"\nor open {place / 'report.html'}"
    except OSError as error:
        return f"the dumps could not be kept in {place}: {error.strerror or error}"
    return f"the compiled programs are kept; look at them with: hlo-lens report {place}{page}"


def _texts(dump: ModuleDump) -> Iterator[tuple[str, str]]:
    stage = dump.stage or AFTER
    if dump.hlo is not None:
        yield stage, dump.hlo.columns.source.text
    if dump.before is not None:
        yield BEFORE, dump.before.columns.source.text
    try:
        assignment = dump.buffer_assignment
    except HloLensError:
        return
    if assignment is not None:
        yield f"{stage}-buffer-assignment", assignment.columns.source.text


_BETWEEN = " :: "
"""Separator between the name of a test and that of a module that it compiled."""


@contextmanager
def captured() -> Iterator[Capture | None]:
    """Capture the compiles of a block; yield None where jax is not installed."""
    if find_spec("jax") is None:
        yield None
        return
    from hlo_lens.testing.capture import capture

    with capture() as found:
        yield found


def breach_of(found: Capture | None, compiled: Sequence[Compiling], budget: Path) -> str | None:
    """Return how the programs of a test break a budget; None if they keep it.

    Args:
        found: Programs that jax compiled during the test.
        compiled: Fixtures of the test, with programs that were compiled before too.
        budget: The TOML file.
    """
    dumps = [] if found is None else list(found.modules)
    texts = {_text(dump) for dump in dumps}
    dumps += (dump for one in compiled for dump in one.dumps if _text(dump) not in texts)
    if not dumps and budget.exists():
        return (
            f"not known: whether {budget.name} is kept: the test compiled nothing (a function that "
            "was compiled before is not compiled again)"
        )
    try:
        checked = check(
            Dump(path="what the test compiled", modules=tuple(dumps)), budget=str(budget)
        )
    except HloLensError as error:
        return f"not known: whether {budget.name} is kept: {error}"
    is_kept = not (checked.judgement.is_failed or checked.judgement.is_undecided)
    return None if is_kept else str(check_report(checked.judgement)).rstrip()


def _text(dump: ModuleDump) -> str | int:
    return id(dump) if dump.hlo is None else dump.hlo.columns.source.text


# ---- the session -------------------------------------------------------------------------------


class Session:
    """Snapshots of the programs that fixtures compiled, by test.

    Args:
        save: File to write.
        compare: Snapshot to compare with.
        rules: Rules of the comparison, in short form; without any, those of `check`.
    """

    def __init__(
        self, save: str | None = None, compare: str | None = None, rules: Sequence[str] = ()
    ) -> None:
        self._save = save
        self._compare = compare
        self._rules = tuple(rules)
        self._modules: list[ModuleSnapshot] = []

    def add(self, test: str, dumps: Sequence[ModuleDump]) -> None:
        for dump in dumps:
            for module in snapshot(dump, with_program=False).modules:
                name = f"{test}{_BETWEEN}{module.name}"
                self._modules.append(dataclasses.replace(module, name=name))

    def finish(self) -> tuple[bool, str]:
        """Write and compare the snapshots; return whether all rules pass, and the summary.

        Raises:
            HloLensError: If the baseline cannot be read, a rule is invalid, or the snapshot cannot
                be written.
        """
        own = Snapshot(path="this session", modules=tuple(self._modules))
        summary: list[str] = []
        if self._save is not None:
            text = snapshot_text(own, tool_version=__version__)
            with replaced_file(self._save) as new:
                new.write_text(text, "ascii", newline="")
            summary.append(f"{plural(len(own.modules), 'program')} saved to {self._save}")
        passed = True
        if self._compare is not None:
            base = read_snapshot_file(self._compare)
            tests = {module.name.rpartition(_BETWEEN)[0] for module in self._modules}
            kept = (m for m in base.modules if m.name.rpartition(_BETWEEN)[0] in tests)
            base = dataclasses.replace(base, modules=tuple(kept))  # of the tests that ran
            checked = check(own, baseline=base, rules=self._rules)
            passed = not (checked.judgement.is_failed or checked.judgement.is_undecided)
            summary.append(str(check_report(checked.judgement)).rstrip())
        return passed, "\n".join(summary)
