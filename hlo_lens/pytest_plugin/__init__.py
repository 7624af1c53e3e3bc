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
