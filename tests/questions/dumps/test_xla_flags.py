"""Checks of XLA_FLAGS; the effects of the flags were tested with jaxlib 0.10.2."""

from __future__ import annotations

import pytest

from hlo_lens.questions.dumps.doctor import check_debug_options, check_flags, check_variables

GOOD = "--xla_dump_to=/tmp/d --xla_dump_hlo_as_text"


def told(text: str | None) -> list[tuple[str, str]]:
    """Return level and first words of each finding."""
    return [(finding.level, finding.what) for finding in check_flags(text)]


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        "--xla_dump_to=/tmp/d",
        f"{GOOD} --xla_dump_hlo_pass_re=.* --xla_force_host_platform_device_count=8",
        f"{GOOD}=true --xla_dump_hlo_as_proto",
        f"  {GOOD}\n",
        "--xla_dump_to='/tmp/my dump'",
    ],
)
def test_good_flags_are_fine(text: str) -> None:
    ((level, what),) = told(text)
    assert level == "fine"
    assert what.startswith("XLA_FLAGS writes HLO text to /tmp/")


@pytest.mark.parametrize(
    ("text", "level", "what", "remedy"),
    [
        (None, "note", "is not set here", "--xla_dump_to=DIR --xla_dump_hlo_as_text"),
        ("", "note", "is not set here", "--xla_dump_to=DIR"),
        ("xla_dump_to=/tmp/d", "error", "name of a file", "write --xla_dump_to=/tmp/d"),
        ("-xla_dump_to=/tmp/d", "error", "two hyphens", "write --xla_dump_to=/tmp/d"),
        ("'--xla_dump_to=/tmp/d'", "error", "begins with a quote", "let the shell"),
        ("/etc/flags", "note", "names a file of flags", ""),
        (f"{GOOD} --xla_dump_hlo_as_txt", "error", "no flag of XLA", "--xla_dump_hlo_as_text"),
        ("--xla_dmp_to=/tmp/d", "error", "no flag of XLA", "write --xla_dump_to"),
        ("--xla_dump_to /tmp/d", "error", "/tmp/d after --xla_dump_to", "--xla_dump_to=/tmp/d"),
        ("--xla_dump_to=", "error", "without a folder", "--xla_dump_to=DIR"),
        ("--xla_dump_to=~/d", "error", "does not expand ~", "$HOME"),
        ("--xla_dump_to=/tmp/d,--xla_dump_hlo_as_text", "error", "comma", "blanks"),
        ("--xla_dump_to=/tmp/d --xla_dump_hlo_as_proto", "error", "writes no text", "as_text"),
        (f"{GOOD}=yes", "error", "neither true nor false", "=true"),
        (f"{GOOD}=false", "error", "no text is written", "remove"),
        (f"{GOOD} --xla_dump_hlo_pass_re=[", "error", "no regular expression", ".*"),
        (f"{GOOD} --xla_tpu_x=1", "error", "flag of libtpu", "LIBTPU_INIT_ARGS"),
        ("--xla_dump_hlo_as_text", "warning", "prints the dump on standard output", "=DIR"),
        ("--xla_dump_hlo_pass_re=.*", "error", "writes nothing", "add --xla_dump_to=DIR"),
        ("--xla_force_host_platform_device_count=8", "note", "no flag asks for a dump", "add"),
        (f"{GOOD} --xla_dump_disable_metadata", "warning", "no source lines", "remove"),
        (f"{GOOD} --xla_dump_hlo_module_re=x", "warning", "only modules whose name", "remove"),
        (f"{GOOD} --xla_dump_max_hlo_modules=3", "warning", "stops dumping", "remove"),
        (f"{GOOD} --xla_dump_to=/tmp/e", "warning", "occurs 2 times; the last one counts", ""),
        (f"{GOOD} --xla_dump_compact_gte", "warning", "only jaxlib 0.12", ""),
        (f"{GOOD} '--x", "error", "a quote without an end", "close"),
        (
            f"{GOOD} --xla_dump_buffer_assignment_analysis=false",
            "warning",
            "no live ranges",
            "remove",
        ),
    ],
)
def test_mistakes_are_reported_with_a_remedy(
    text: str | None, level: str, what: str, remedy: str
) -> None:
    found = check_flags(text)
    assert any(one.level == level and what in one.what and remedy in one.remedy for one in found), (
        found
    )
    assert not any(one.level == "fine" for one in found) or level == "note"


def test_worst_finding_comes_first() -> None:
    levels = [level for level, _ in told("--xla_dump_to=d --xla_dump_hlo_module_re=x --xla_dump_x")]
    assert levels == ["error", "warning", "note"]


def test_losses_by_the_options_of_a_dump_are_found() -> None:
    text = 'xla_dump_to: "/tmp/d"\nxla_cpu_x: true\nxla_dump_max_hlo_modules: 3\n'
    (found,) = check_debug_options(text)
    assert found.level == "warning"
    assert found.what.startswith("made with --xla_dump_max_hlo_modules=3: XLA stops dumping")
    assert check_debug_options("xla_cpu_x: true\n") == []


def test_other_variables_are_checked() -> None:
    variables = {
        "XLA_FLAGS": GOOD,
        "LIBTPU_INIT_ARGS": "--xla_dump_to=/x",
        "JAX_COMPILATION_CACHE_DIR": "/c",
    }
    levels = [one.level for one in check_variables(variables, is_jax_imported=True)]
    assert levels == ["fine", "note", "warning", "note"]
    assert [one.level for one in check_variables({}, is_jax_imported=True)] == ["note"]
