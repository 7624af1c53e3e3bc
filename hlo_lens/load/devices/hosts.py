"""GPUs that NVLink joins.

Sources: NVIDIA's data sheets of DGX and HGX systems (8 GPUs from V100 to B300), GB200 and GB300
NVL72. A dump names the GPU, not the machine: how many of them are in one is an assumption.
"""

from __future__ import annotations

import re

USUAL_GPUS = 8
"""GPUs of a host, for GPUs whose machine is not known."""

_RACKS = {"GB200": 72, "GB300": 72}
"""GPUs of a rack that NVLink joins, by a part of the GPU's name."""

_NAME = re.compile(r'device_description_str: "([^"]*)"')


def joined_gpus(config: str | None) -> int:
    """Return the number of GPUs that NVLink joins.

    >>> joined_gpus('device_description_str: "NVIDIA GB200"'), joined_gpus(None)
    (72, 8)

    Args:
        config: Text of the target configuration; None if not known.
    """
    name = _NAME.search(config or "")
    found = (count for part, count in _RACKS.items() if name is not None and part in name[1])
    return next(found, USUAL_GPUS)
