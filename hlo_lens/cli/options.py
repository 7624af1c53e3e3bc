"""Groups of options; input of commands: the modules to read, and the coverage required."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from hlo_lens.cli.output import Output, option_group, progress_bar
from hlo_lens.text.errors import (
    HloLensError,
    UnknownNameError,
    UsageError,
    printable_lines,
    show_gaps,
)
from hlo_lens.text.names import NamePattern
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hlo_lens.cli.output import Decorator
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.load.programs import Progress
    from hlo_lens.questions.dumps.listing import ListingFacts
    from hlo_lens.questions.what_if.compiling import Means
    from hlo_lens.render.table import Report
    from hlo_lens.render.to_json import ModulePage
    from hlo_lens.shapes.mesh import Mesh


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Modules to read, and the share of them that must be understood.

    Attributes:
        pattern: Modules whose names this regular expression is found in; None for all.
        strict: Whether any gap is an error.
        min_coverage: Least share of each module that must be understood, 0 to 100.
        stage: Stage of compilation, as `ModuleDump.at_stage` takes it; None for the latest.
    """

    pattern: NamePattern | None
    strict: bool
    min_coverage: float
    stage: str | None = None

    def read(self, path: str, progress: Progress | None = None) -> tuple[ModuleDump, ...]:
        from hlo_lens.load.programs import read_dump

        return self.select(read_dump(path, progress=progress).modules)

    def select(self, modules: Sequence[ModuleDump]) -> tuple[ModuleDump, ...]:
        """Return the selected modules, at the selected stage; reports the number without it.

        Raises:
            UnknownNameError: If there are none.
        """
        from hlo_lens.load.programs import select_modules

        chosen = select_modules(modules, self.pattern)
        if self.stage is None:
            return chosen
        at_stage: list[ModuleDump] = []
        errors: list[UnknownNameError] = []
        for module in chosen:
            try:
                at_stage.append(module.at_stage(self.stage))
            except UnknownNameError as error:
                errors.append(error)
        if errors and not at_stage:
            raise errors[0]
        if errors:
            text = f"left out {len(errors)} without this stage: {errors[0]}"
            click.echo(printable_lines(text), err=True)
        return tuple(at_stage)

    def meant(self, modules: Sequence[ModuleDump]) -> Sequence[ModuleDump]:
        """Return the modules that a question about one program means, and say so on stderr.

        The training step alone, where the others are helpers and the user chose none.
        """
        from hlo_lens.program.pages import with_leading_alone

        if self.pattern is not None or self.stage is not None:
            return modules
        chosen, note = with_leading_alone(modules)
        if note:
            click.echo(printable_lines(f"hlo-lens: {note}"), err=True)
        return chosen

    def judge(self, modules: Sequence[ModuleDump]) -> None:
        """Print the gaps on standard error; raise HloLensError if there are too many."""
        from hlo_lens.program.summary import coverage_of

        gaps = [gap for module in modules for gap in module.gaps]
        if gaps:
            click.echo(printable_lines(show_gaps(gaps)), err=True)
        if self.strict and gaps:
            raise HloLensError(f"{plural(len(gaps), 'gap')} in the input (--strict)")
        for module in modules:
            read = 0 if module.log is None else module.log.understood_lines
            share = coverage_of(module.hlo, module.gaps, other_lines=read)
            self._judge_share(module.name, share)

    def judge_facts(self, facts: Sequence[ListingFacts]) -> None:
        """Raise HloLensError where too much of a listing could not be read."""
        bad = [module for module in facts if module.gaps or module.problem]
        if self.strict and bad:
            raise HloLensError(
                f"{len(bad)} of {len(facts)} modules are not whole (--strict): {bad[0].key}"
            )
        for module in facts:
            self._judge_share(module.key, module.coverage or 0.0)
            if module.is_cut:
                raise _cut(module.key)

    def _judge_share(self, name: str, coverage: float) -> None:
        share = 100 * coverage
        if share < self.min_coverage:
            raise HloLensError(
                f"{name}: {share:.4g}% understood, less than {self.min_coverage}% (--min-coverage)"
            )


def read_meant(path: str, pattern: NamePattern | None) -> Sequence[ModuleDump]:
    """Return the modules of a path that a question about one program means."""
    reading = Reading(pattern=pattern, strict=False, min_coverage=0)
    return reading.meant(reading.read(path))


def refuse_cut(modules: Sequence[ModuleDump]) -> None:
    """Raise HloLensError, which ends a command with 4 after its results, for a text that is cut."""
    for module in modules:
        if module.is_in_cut_archive:
            raise HloLensError(f"{module.path}: the archive ends too early; copy it again")
        if module.hlo is not None and module.hlo.is_truncated:
            raise _cut(module.name)


def _cut(name: str) -> HloLensError:
    return HloLensError(f"{name}: the text ends too early; the output is not whole")


def answer(
    path: str,
    reading: Reading,
    output: Output,
    ask: Callable[..., Report],
    *,
    log: ModuleDump | None = None,
    reads_all: bool = True,
) -> None:
    """Read modules, write the report on them, and check that enough of them was understood.

    The report is made by ``ask(modules, progress=...)``.
    """
    with progress_bar("reading") as progress:
        read = reading.read(path, progress)
        modules = read if reads_all else reading.meant(read)
        report = ask(modules, progress=progress)
    output.write(report)
    reading.judge(modules if log is None else (*modules, log))
    refuse_cut(modules)


def answer_pages(
    path: str,
    reading: Reading,
    output: Output,
    kind: str,
    pages: Callable[[Iterable[ModuleDump]], Iterable[ModulePage]],
    *,
    choose: Callable[[Sequence[ModuleDump]], Sequence[ModuleDump]] = list,
    reads_all: bool = False,
) -> None:
    """Answer with a page for each module that is meant, that of the likely training step first.

    `choose` returns the modules that get a page, with what the user states of them; with
    `reads_all`, helpers of a training step are meant, too.
    """
    from hlo_lens.load.programs import with_progress
    from hlo_lens.questions.dumps.groups import training_step_first
    from hlo_lens.render.to_json import report_of_pages

    def ask(modules: Sequence[ModuleDump], *, progress: Progress | None = None) -> Report:
        stated = choose(modules)
        order = functools.partial(training_step_first, stated)
        return report_of_pages(kind, pages(with_progress(stated, progress)), order)

    answer(path, reading, output, ask, reads_all=reads_all)


def regular_expression(
    ctx: click.Context, parameter: click.Parameter, value: str | None
) -> NamePattern | None:
    """Return an option's value as a regular expression."""
    del ctx
    try:
        return None if value is None else NamePattern(value)
    except UsageError as error:
        raise click.BadParameter(str(error), param=parameter) from error


def comma_separated(ctx: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    """Return the words of an option's value."""
    del ctx, parameter
    return tuple(word for word in (part.strip() for part in value.split(",")) if word)


module_option = click.option(
    "--module",
    "pattern",
    metavar="REGEX",
    callback=regular_expression,
    help="Only modules whose name matches this expression; FOLDER/NAME is one of a subfolder.",
)
"""The option that selects modules; the command gets it as ``pattern``."""

limit_option = click.option(
    "--limit", metavar="SIZE", help="Memory of one device: 16GiB.  [default: target's]"
)
"""The option for the memory of a device, as text."""

force_option = click.option(
    "--force",
    is_flag=True,
    help="Compare although the memory of one side is estimated or incomplete.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiling:
    """Interpreter whose jax compiles programs again; time limit, of one compile or of all."""

    python: str
    minutes: float

    @property
    def means(self) -> Means:
        from hlo_lens.questions.what_if.compiling import Means

        return Means(python=self.python, minutes=self.minutes)


def compiling_options(
    minutes: str, *, default: float = 30.0, python: str = "Python interpreter whose jax compiles."
) -> Decorator:
    """Return the options about compiles; the command gets them as ``compiling``."""
    return option_group(
        "compiling",
        Compiling,
        click.option(
            "--python",
            default=sys.executable,
            metavar="FILE",
            help=f"{python}  [default: that of hlo-lens]",
        ),
        click.option(
            "--minutes",
            type=click.FloatRange(min=0, min_open=True),
            default=default,
            show_default=True,
            help=minutes,
        ),
    )


def _mesh(ctx: click.Context, parameter: click.Parameter, value: str | None) -> Mesh | None:
    del ctx, parameter
    from hlo_lens.shapes.mesh import Mesh

    return None if value is None else Mesh.from_sizes_text(value)


mesh_option = click.option(
    "--mesh",
    metavar="AXES",
    callback=_mesh,
    help="Axes of the mesh, most major first: data=2,model=4.",
)
"""The option that names the mesh; the command gets it as ``mesh``."""


reading_options = option_group(
    "reading",
    Reading,
    click.argument("path", type=click.Path(allow_dash=True, readable=False)),
    module_option,
    click.option(
        "--stage",
        metavar="STAGE",
        help="Stage of compilation to read: before or after (optimizations), a name or part of a "
        "name, or the number of a pass; the latest if not given.",
    ),
    click.option(
        "--strict", is_flag=True, help="Exit with 4 if any part of the input was not understood."
    ),
    click.option(
        "--min-coverage",
        type=click.FloatRange(0, 100),
        default=0,
        metavar="PERCENT",
        help="Exit with 4 if less than this of a module was understood.",
    ),
)
"""PATH and the options about input; the command gets ``path`` and ``reading``."""
