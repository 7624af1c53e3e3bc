"""The first page of a program, and the HTML page.

Begin with `page` (the report on some modules) and `module_page` (facts, tables and JSON object of
one). `log_in_dump` joins a log with the dump of its compile.

The HTML page is one file with scripts, styles and data, opened offline: `html_pages` (the file, of
a report, a listing, a diff, a check) and `html_views` (the data of each view).
Python writes the tables as texts; ``assets/scripts`` draws pictures, filters, sorts and links, with
names of dumps as text nodes only (no ``innerHTML``); colours never carry a meaning alone. Those of
others are in ``assets/vendored``, unchanged. Import map and styles are allowed by their hashes in
the Content-Security-Policy, the modules as ``data:`` addresses; everything else is forbidden,
network included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo_lens.load.programs import Program
    from hlo_lens.render.table import Report


def report_on(program: Program, *, module: str | None = None) -> Report:
    """Return the output of ``hlo-lens report``: ``print`` shows text, a notebook tables.

    ``data`` has the same for scripts.

    >>> import hlo_lens
    >>> report = hlo_lens.report_on("sample_dumps/cpu/wasteful")
    >>> print(str(report).splitlines()[0])
    jit_wasteful_step
    >>> report.data["modules"][0]["num_partitions"]
    8
    """
    from hlo_lens.load.programs import modules_of
    from hlo_lens.questions.report.page import report_modules

    return report_modules(modules_of(program, module=module))
