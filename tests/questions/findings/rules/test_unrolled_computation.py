"""X002: computations that are in the program many times."""

from __future__ import annotations

from hlo_lens.questions.findings.finding import Severity
from tests.questions.findings.programs import findings_of, with_lines

_DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def _text(copies: int, path: str = "layers_{}/dot") -> str:
    """Return a program of equal products, each of the result of the one before."""
    lines = [
        f"  d{n} = f32[64,64]{{1,0}} dot(d{n - 1}, w), {_DOT}, @{path.format(n)}:9"
        for n in range(1, copies)
    ]
    head = "  d0 = f32[64,64]{1,0} parameter(0)\n  w = f32[64,64]{1,0} parameter(1)\n"
    last = f"  ROOT y = f32[64,64]{{1,0}} negate(d{copies - 1})\n"
    body = head + "\n".join(lines) + "\n" + last
    return with_lines(f"HloModule m, is_scheduled=true\n\nENTRY main {{\n{body}}}\n")


def test_equal_products_of_one_line_are_one_finding() -> None:
    (found,) = findings_of(_text(13), "X002")
    assert found.message.startswith("12 equal products of one line")
    assert (found.source_line, found.severity) == (9, Severity.INFO)


def test_many_copies_in_a_large_program_are_a_warning() -> None:
    (found,) = findings_of(_text(5001), "X002")
    assert found.severity is Severity.WARNING


def test_lines_of_libraries_are_shared_by_all_layers() -> None:
    library = "/env/lib/python3.11/site-packages/flax/linen/linear.py"
    assert findings_of(_text(13).replace('"m.py"', f'"{library}"'), "X002") == ()


def test_a_few_copies_and_the_backward_pass_have_no_finding() -> None:
    assert findings_of(_text(8), "X002") == ()
    assert findings_of(_text(13, "transpose(jvp())/layers_{}/dot"), "X002") == ()
