"""The table of causes, in the order in which they are named: configuration first, work last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.doctor.causes import configuration, devices, machine, work

if TYPE_CHECKING:
    from gpumap.doctor.causes.cause import Cause

TABLE: tuple[Cause, ...] = (
    *configuration.CAUSES,
    *devices.CAUSES,
    *machine.CAUSES,
    *work.CAUSES,
)
CODES = {cause.code: cause for cause in TABLE}
