"""``hlo-lens doctor``: which flags to set, why a folder is empty, what this dump lacks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

import hlo_lens
from hlo_lens.cli.options import output_options
from hlo_lens.text.errors import HloLensError, UnreadableError

if TYPE_CHECKING:
    from hlo_lens.cli.options import Output
    from hlo_lens.report.dumps.page import Examination

_EXAMPLE = """\b
Example:
  hlo-lens doctor DIR
  hlo-lens doctor
  XLA_FLAGS="--xla_dump_to=DIR" hlo-lens doctor -f json | jq '.variables'
"""


@click.command(epilog=_EXAMPLE)
@click.argument("path", required=False, type=click.Path(allow_dash=True, readable=False))
@output_options
def doctor(path: str | None, output: Output) -> None:
    """Say which flags to set, why a folder has nothing to read, what is missing in this dump.

    Looks at versions, XLA_FLAGS and its kin, and, with PATH, at the texts of a dump. Nothing of jax
    is imported, nothing is compiled. Exit code 3 if PATH has nothing to read.
    """
    from hlo_lens.report.dumps.page import doctor_report

    examination = _examined(path)
    output.write(doctor_report(examination, tool_version=hlo_lens.__version__))
    if path is not None and examination.dump is None:
        message = f"{path}: nothing to read"
        raise UnreadableError(message)


def _examined(path: str | None) -> Examination:
    from hlo_lens.analysis.dumps.health import dump_health, empty_findings
    from hlo_lens.analysis.dumps.xla_flags import ERROR, Finding
    from hlo_lens.load import EmptyDumpError, load
    from hlo_lens.load.environment import environment, options_findings
    from hlo_lens.report.dumps.page import Examination

    here = environment(hlo_lens.__version__)
    if path is None:
        return Examination(versions=here.versions, variables=here.findings)
    try:
        dump = load(path)
    except HloLensError as error:
        exists = path == "-" or Path(path).exists()
        asides = error.left_aside if isinstance(error, EmptyDumpError) else ()
        findings = empty_findings(asides, exists=exists)
        if exists and not isinstance(error, EmptyDumpError):
            findings = [Finding(ERROR, str(error).splitlines()[0])]
        findings += options_findings(path)
        return Examination(
            versions=here.versions, variables=here.findings, path=path, findings=findings
        )
    return Examination(
        versions=here.versions,
        variables=here.findings,
        path=path,
        dump=dump,
        health=dump_health(dump),
        findings=options_findings(path),
    )
