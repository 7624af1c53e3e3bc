"""The fixture ``hlo``: compiles functions, and keeps the dumps of failed tests."""

from __future__ import annotations

import hashlib
import re
import shutil
from typing import TYPE_CHECKING, Any

from hlo_lens.text.dump_kinds import AFTER, BEFORE
from hlo_lens.text.errors import HloLensError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from hlo_lens.load.module import ModuleDump

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
        """Add a dump that was compiled elsewhere: it is kept too if the test fails."""
        self.dumps.append(dump)
        return dump


def keep(compiled: Sequence[Compiling], folder: Path, test: str) -> str:
    """Write the dumps of a test below a folder; return a message, empty without dumps."""
    dumps = [dump for one in compiled for dump in one.dumps]
    if not dumps:
        return ""
    place = folder / _folder_name(test)
    try:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        (folder / ".gitignore").write_text("*\n", "ascii")
        for number, dump in enumerate(dumps):
            title = _NOT_IN_NAMES.sub("_", dump.title)[:_LONGEST_NAME] or "module"
            for name, text in _texts(dump):
                file = place / f"module_{number:04}.{title}.{name}.txt"
                file.write_text(text, "utf-8")
        page = _page(dumps, place)
    except OSError as error:
        return f"the dumps could not be kept in {place}: {error.strerror or error}"
    shown = f"\nor open {page}" if page is not None else ""
    return f"the compiled programs are kept; look at them with: hlo-lens report {place}{shown}"


def _page(dumps: Sequence[ModuleDump], folder: Path) -> Path | None:
    """Write the page of HTML on some dumps into their folder; None if one cannot be reported on."""
    from hlo_lens.questions.report.page import report_modules

    try:
        text = report_modules(dumps).to_html()
    except HloLensError:
        return None
    page = folder / "report.html"
    page.write_text(text, "utf-8")
    return page


def _folder_name(test: str) -> str:
    """Return the folder name of a test, with a digest where names would collide."""
    name = _NOT_IN_NAMES.sub("_", test)
    parameters = test.partition("[")[2].removesuffix("]")
    if len(name) <= _LONGEST_NAME and not _NOT_IN_NAMES.search(parameters):
        return name
    digest = hashlib.blake2b(test.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return f"{name[-_LONGEST_NAME:]}-{digest}"


def _texts(dump: ModuleDump) -> Iterator[tuple[str, str]]:
    """Yield the texts of a dump with the file names that XLA uses."""
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
