"""Partition specs as texts."""

from __future__ import annotations

import pytest

from hlo_lens.shapes.named_sharding import partition_spec_text, read_partition_spec
from hlo_lens.text.errors import UsageError


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("text", ["1if x else y", "0in x", "'\\d'"])
def test_text_that_python_warns_of_is_refused_without_a_warning(text: str) -> None:
    with pytest.raises(UsageError, match="not a partition spec"):
        read_partition_spec(text)


@pytest.mark.parametrize("axis", ["</script><b>", "a b", "it's", '"q"', "None", "a,b", "(x)"])
def test_quoted_axes_may_have_any_name(axis: str) -> None:
    spec = (("data", axis), None)
    assert read_partition_spec(partition_spec_text(spec)) == spec
