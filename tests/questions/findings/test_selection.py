"""Choice of findings by code, severity and saving."""

from __future__ import annotations

import pytest

from hlo_lens.questions.findings.finding import Finding, Saves, Severity
from hlo_lens.questions.findings.settings import LeastSaving, Selection, checked_codes, severity_of
from hlo_lens.text.errors import UsageError

ONE = Finding(
    message="m", fix="f", code="M001", share=0.02, saves=Saves.up_to(1 << 20), severity=None
)


@pytest.mark.parametrize(
    ("select", "ignore", "wanted"),
    [
        ([], [], True),
        (["M"], [], True),
        (["C"], [], False),
        ([], ["M001"], False),
        (["M001"], ["M"], True),
        (["M"], ["M001"], False),
        ([], ["all"], False),
        (["m0"], [], True),
    ],
)
def test_the_longer_code_counts(select: list[str], ignore: list[str], wanted: bool) -> None:
    known = ("C", "M", "M0", "M001", "")
    chosen = Selection(
        select=tuple(one.upper() for one in select if one.upper() in known),
        ignore=tuple("" if one == "all" else one for one in ignore),
    )
    assert chosen.wants(ONE.code) is wanted


def test_codes_are_checked() -> None:
    assert checked_codes(["m", "M001", "ALL"]) == ("M", "M001", "")
    assert checked_codes("m001") == ("M001",)
    with pytest.raises(UsageError, match="no rule has the code 'M0001'; did you mean M001"):
        checked_codes(["M0001"])


@pytest.mark.parametrize(
    ("text", "is_reached"), [("1%", True), ("2.5%", False), ("1MiB", True), ("1025KiB", False)]
)
def test_least_saving(text: str, is_reached: bool) -> None:
    assert LeastSaving.parse(text).is_reached(ONE) is is_reached


@pytest.mark.parametrize("text", ["x%", "101%", "-1%", "", "a lot"])
def test_texts_that_are_no_saving(text: str) -> None:
    with pytest.raises(UsageError):
        LeastSaving.parse(text)


def test_severities_by_name() -> None:
    assert severity_of("warning") is Severity.WARNING
    with pytest.raises(UsageError, match="there is error, warning, info"):
        severity_of("fatal")
