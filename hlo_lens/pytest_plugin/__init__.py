"""The pytest plugin: the fixture ``hlo``, the marker ``hlo_budget``, snapshots of a test run.

pytest loads this package when it starts, in every project that has hlo-lens installed, so it
imports nothing before a test uses it. The assertions are those of `hlo_lens.testing`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from hlo_lens.pytest_plugin.budgets import Compiling, Session
    from hlo_lens.testing import (
        assert_collectives as assert_collectives,
        assert_donated as assert_donated,
        assert_memory_below as assert_memory_below,
        assert_no_collectives as assert_no_collectives,
        assert_no_findings as assert_no_findings,
        assert_same_program as assert_same_program,
        assert_sharded as assert_sharded,
    )

KEPT: pytest.StashKey[list[Compiling]] = pytest.StashKey()
"""Programs that the fixtures of a test compiled."""
SESSION: pytest.StashKey[Session] = pytest.StashKey()
"""Snapshots of all tests, for --hlo-lens-save and --hlo-lens-compare."""
SUMMARY: pytest.StashKey[str] = pytest.StashKey()
"""Text of the hlo-lens section of the terminal summary."""


def __getattr__(name: str) -> Any:
    if not name.startswith("assert_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("hlo_lens.testing"), name)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("hlo-lens", "compiled programs")
    group.addoption(
        "--hlo-lens-keep",
        metavar="DIR",
        default=".hlo-lens",
        help="where the dumps of failed tests are kept (%(default)s)",
    )
    group.addoption(
        "--hlo-lens-save",
        metavar="FILE",
        help="write a snapshot of all programs that the fixture hlo compiles",
    )
    group.addoption(
        "--hlo-lens-compare",
        metavar="FILE",
        help="compare these programs with such a snapshot; fail if memory or communication grows",
    )
    group.addoption(
        "--hlo-lens-compare-fail",
        metavar="RULE",
        action="append",
        default=[],
        help="with --hlo-lens-compare: fail by this rule instead, such as "
        "'memory.temp_bytes>+2%%'; may be repeated",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker; start a session if snapshots are to be saved or compared."""
    config.addinivalue_line(
        "markers",
        "hlo_budget(path): fail if what the test compiles breaks the budget in a TOML file "
        "(path from the folder of the test, else from the root)",
    )
    save, compare = (config.getoption(f"--hlo-lens-{name}") for name in ("save", "compare"))
    if save or compare:
        if config.getoption("numprocesses", None):
            raise pytest.UsageError(
                "--hlo-lens-save and --hlo-lens-compare take one process: no -n"
            )
        from hlo_lens.pytest_plugin.budgets import Session

        rules = config.getoption("--hlo-lens-compare-fail")
        config.stash[SESSION] = Session(save=save, compare=compare, rules=rules)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Check the programs that a test compiled against the budget of its marker."""
    markers = list(pyfuncitem.iter_markers("hlo_budget"))
    if not markers:
        return (yield)
    from hlo_lens.pytest_plugin.budgets import breach_of, captured

    with captured() as found:
        result = yield
    for marker in markers:
        if len(marker.args) != 1 or marker.kwargs:
            pytest.fail("hlo_budget takes one path: @pytest.mark.hlo_budget('hlo-lens.toml')")
        beside = pyfuncitem.path.parent / str(marker.args[0])
        file = beside if beside.exists() else pyfuncitem.config.rootpath / str(marker.args[0])
        compiled = pyfuncitem.stash.setdefault(KEPT, [])
        wrong = breach_of(found, compiled, file)
        if wrong is not None:
            pytest.fail(wrong, pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Add the programs of a finished test to the session, if there is one."""
    session = item.config.stash.get(SESSION, None)
    if session is not None:
        dumps = [dump for one in item.stash.get(KEPT, []) for dump in one.dumps]
        session.add(item.nodeid, dumps)
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write and compare the snapshots."""
    kept = session.config.stash.get(SESSION, None)
    if kept is None:
        return
    from hlo_lens.text.errors import HloLensError

    try:
        passed, summary = kept.finish()
    except (HloLensError, OSError) as error:
        passed, summary = False, f"error: {error}"
    session.config.stash[SUMMARY] = summary
    if not passed and session.exitstatus in (pytest.ExitCode.OK, 0):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print what was saved, and the result of the comparison."""
    summary = config.stash.get(SUMMARY, "")
    if summary:
        terminalreporter.section("hlo-lens")
        terminalreporter.write_line(summary)


@pytest.fixture
def hlo(request: pytest.FixtureRequest) -> Compiling:
    """Compile functions: ``hlo(step, params, batch)`` returns the program as a dump.

    Arguments may be abstract. If the test fails, the dumps are kept and the failure names their
    folder.
    """
    from hlo_lens.pytest_plugin.budgets import Compiling

    compiling = Compiling()
    request.node.stash.setdefault(KEPT, []).append(compiling)
    return compiling


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the dumps of a failed test; name their folder in the failure."""
    report = yield
    if report.when == "call" and report.failed and KEPT in item.stash:
        from hlo_lens.pytest_plugin.budgets import keep

        compiled = item.stash[KEPT]
        folder = item.config.rootpath / str(item.config.getoption("--hlo-lens-keep"))
        text = keep(compiled, folder, item.nodeid)
        if text:
            report.sections.append(("hlo-lens", text))
    return report
