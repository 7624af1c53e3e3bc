"""Names of `hlo_lens.text.units` for the pages."""

from __future__ import annotations

from hlo_lens.text.units import format_bytes as format_bytes
from hlo_lens.text.units import format_change as format_change
from hlo_lens.text.units import format_count as format_count
from hlo_lens.text.units import format_delta as format_delta
from hlo_lens.text.units import format_flops as format_flops
from hlo_lens.text.units import format_ratio as format_ratio
from hlo_lens.text.units import listed as listed
from hlo_lens.text.units import plural as plural
