"""The front door for tests: a fixture that compiles, assertions on what was compiled.

pytest loads this when it starts, in every project that has hlo-lens installed; so nothing is
imported before a test asks for it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from hlo_lens.pytest_plugin.asserts import (
        assert_collectives,
        assert_donated,
        assert_memory_below,
        assert_no_collectives,
        assert_same_program,
        assert_sharded,
    )
    from hlo_lens.pytest_plugin.budgets import Session
    from hlo_lens.pytest_plugin.compiling import Compiling

__all__ = [
    "assert_collectives",
    "assert_donated",
    "assert_memory_below",
    "assert_no_collectives",
    "assert_same_program",
    "assert_sharded",
]

KEPT: pytest.StashKey[list[Compiling]] = pytest.StashKey()
"""What the fixtures of a test have compiled."""
SESSION: pytest.StashKey[Session] = pytest.StashKey()
"""Snapshots of all tests, where they are asked for."""
SAID: pytest.StashKey[str] = pytest.StashKey()
"""What is to be said at the end."""


def __getattr__(name: str) -> Any:
    """Import the assertions when the first of them is asked for."""
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(importlib.import_module("hlo_lens.pytest_plugin.asserts"), name)


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
        help="compare them with such a snapshot; the run fails if anything grows",
    )
    group.addoption(
        "--hlo-lens-compare-fail",
        metavar="RULE",
        action="append",
        default=[],
        help="fail by this rule instead, such as 'memory.temp_bytes>+2%%'; may be repeated",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker, and begin to keep snapshots where they are asked for."""
    config.addinivalue_line(
        "markers",
        "hlo_budget(path): fail if what the test compiles breaks the budget in a TOML file "
        "(path from the folder of the test, else from the root)",
    )
    save, compare = (config.getoption(f"--hlo-lens-{name}") for name in ("save", "compare"))
    if save or compare:
        from hlo_lens.pytest_plugin.budgets import Session

        rules = config.getoption("--hlo-lens-compare-fail")
        config.stash[SESSION] = Session(save=save, compare=compare, rules=rules)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Judge what a test with a budget has compiled."""
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
    """Keep snapshots of what a test has compiled, if they are asked for."""
    session = item.config.stash.get(SESSION, None)
    if session is not None:
        dumps = [dump for one in item.stash.get(KEPT, []) for dump in one.dumps]
        session.add(item.nodeid, dumps)
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write and compare the snapshots, or send them home from a worker of pytest-xdist."""
    kept = session.config.stash.get(SESSION, None)
    if kept is None:
        return
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["hlo_lens"] = kept.to_dict()
        return
    from hlo_lens.text.errors import HloLensError

    try:
        is_well, said = kept.finish()
    except (HloLensError, OSError) as error:
        is_well, said = False, f"error: {error}"
    session.config.stash[SAID] = said
    if not is_well and session.exitstatus in (pytest.ExitCode.OK, 0):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take in what a worker of pytest-xdist has sent."""
    kept = node.config.stash.get(SESSION, None)
    sent = getattr(node, "workeroutput", {}).get("hlo_lens")
    if kept is not None and sent is not None:
        kept.join(sent)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say what was saved, and what the comparison found."""
    said = config.stash.get(SAID, "")
    if said:
        terminalreporter.section("hlo-lens")
        terminalreporter.write_line(said)


@pytest.fixture
def hlo(request: pytest.FixtureRequest) -> Compiling:
    """Compile functions: ``hlo(step, params, batch)`` gives the program as a dump.

    Arguments may be abstract. If the test fails, the dumps are kept, and the failure says where.
    """
    from hlo_lens.pytest_plugin.compiling import Compiling

    compiling = Compiling()
    request.node.stash.setdefault(KEPT, []).append(compiling)
    return compiling


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the dumps of a test that fails, and say where."""
    report = yield
    if report.when == "call" and report.failed and KEPT in item.stash:
        from hlo_lens.pytest_plugin.compiling import keep

        compiled = item.stash[KEPT]
        folder = item.config.rootpath / str(item.config.getoption("--hlo-lens-keep"))
        text = keep(compiled, folder, item.nodeid)
        if text:
            report.sections.append(("hlo-lens", text))
    return report
