"""Page of ``hlo-lens doctor``: versions, variables, recipes for dumps, state of a dump."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from hlo_lens.render.envelope import envelope
from hlo_lens.render.result import Column, Unit, rows_of
from hlo_lens.render.table import Report, Section, Table, table_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.load.module import Dump
    from hlo_lens.questions.dumps.health import DumpHealth
    from hlo_lens.questions.dumps.xla_flags import Finding

_FLAGS = 'XLA_FLAGS="--xla_dump_to=/tmp/dump --xla_dump_hlo_as_text"'

RECIPES: tuple[tuple[str, str], ...] = (
    ("JAX, Flax, MaxText", f"{_FLAGS} python train.py"),
    ("PyTorch/XLA", f"{_FLAGS} python train.py"),
    ("TensorFlow", f'{_FLAGS} TF_XLA_FLAGS="--tf_xla_auto_jit=2" python train.py'),
    ("several processes", "--xla_dump_to=/tmp/dump/rank_$RANK: one folder for each"),
    ("every pass", "add --xla_dump_hlo_pass_re=.* for hlo-lens passes"),
    ("one function alone", "add --xla_dump_hlo_module_re=.*train_step.*"),
    (
        "no run at all",
        "jax.jit(f).lower(*args).compile() writes the dump; arguments may be abstract",
    ),
)
"""Purposes of a dump, with the command or flag for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """State of a machine and, if a path was given, of a dump.

    Attributes:
        versions: Name to version; None for packages that are not installed.
        variables: Findings on the environment variables.
        path: Path of the dump; None for the machine alone.
        dump: The dump; None where nothing in the path can be read.
        health: Texts that the dump has and lacks.
        findings: Other findings on the dump.
        cache: Place and content of the cache of compiles.
    """

    versions: Mapping[str, str | None]
    variables: Sequence[Finding]
    path: str | None = None
    dump: Dump | None = None
    health: DumpHealth | None = None
    findings: Sequence[Finding] = ()
    cache: str = ""


def doctor_page(examination: Examination) -> Report:
    """Return the report of an examination."""
    dump, health = examination.dump, examination.health
    findings = [*examination.findings, *(() if health is None else health.findings)]
    data = envelope(
        "doctor",
        versions=dict(examination.versions),
        cache=examination.cache,
        variables=[asdict(finding) for finding in examination.variables],
        recipes=[{"for": name, "how": how} for name, how in RECIPES],
        path=examination.path,
        files=None if dump is None else dump.files,
        modules=None if dump is None else len(dump.modules),
        skipped=[] if dump is None else [asdict(aside) for aside in dump.skipped],
        texts=None if health is None else health.to_dict()["rows"],
        findings=[asdict(finding) for finding in findings],
    )
    return Report(kind="doctor", sections=tuple(_sections(examination, findings)), data=data)


def _sections(examination: Examination, findings: Sequence[Finding]) -> Iterator[Section]:
    if examination.path is not None:
        yield _dump_section(examination, findings)
    versions = tuple((name, v or "not installed") for name, v in examination.versions.items())
    yield Section(
        title="this machine",
        facts=(*versions, ("cache", examination.cache), *_told(examination.variables)),
        tables=(_findings_table("variables", examination.variables),),
    )
    if examination.dump is None:
        yield Section(title="how to make a dump", facts=RECIPES)


def _told(findings: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    """Yield the findings as lines, labelled by their level."""
    for finding in findings:
        yield finding.level, f"{finding.what}; {finding.remedy}" if finding.remedy else finding.what


def _dump_section(examination: Examination, findings: Sequence[Finding]) -> Section:
    dump, health = examination.dump, examination.health
    facts: tuple[tuple[str, str], ...] = (("modules", "none that can be read"),)
    tables: tuple[Table, ...] = ()
    if dump is not None and health is not None:
        asides = ", ".join(f"{aside.count} {aside.kind}" for aside in dump.skipped)
        facts = (("modules", str(len(dump.modules))), ("files", str(dump.files)))
        if asides:
            facts = (*facts, ("not read", asides))
        if health.kinds:
            shown = ("text", "modules", "of", "used_for", "flag")
            tables = (Table.of(health, title="Texts of the modules", shown=shown),)
    return Section(
        title=str(examination.path),
        facts=(*facts, *_told(findings)),
        tables=(*tables, _findings_table("findings", findings)),
    )


_COLUMNS = (
    Column("level", Unit.NONE, "error, warning, note or fine"),
    Column("what", Unit.NONE, "the finding"),
    Column("remedy", Unit.NONE, "recommended action"),
)


def _findings_table(name: str, findings: Sequence[Finding]) -> Table:
    rows = [*rows_of(findings, _COLUMNS)]
    return table_of(name, name.capitalize(), _COLUMNS, rows, is_data_only=True)
