"""What a command found: a type for each kind of result, and no field of another one.

`type` in a report's JSON is the name of the type. What a command shows of its result is in
`gpumap.results`.
"""

from __future__ import annotations

from typing import get_args

from msgspec import Struct

from gpumap.model.devices import Plan
from gpumap.model.fitness import FitnessCheck
from gpumap.model.judging import Alarms, Diagnosis, Prediction, Published
from gpumap.model.measurements import Fit, Measurement
from gpumap.model.programs import Scaling, Trace, Utilisation
from gpumap.model.unmeasured import Checked, Compared, Listed

TAG = "type"  # the key that tells the type of a result


class Measured(Struct, frozen=True, tag="measured", tag_field=TAG):
    """What a benchmark measured, or what a dry run would measure.

    Attributes:
        measurements: One row for each planned case.
        plans: What a dry run would have measured, and what that takes; none for a run that
            measured.
        fits: Lines through copies.
    """

    measurements: tuple[Measurement, ...] = ()
    plans: tuple[Plan, ...] = ()
    fits: tuple[Fit, ...] = ()


class Tested(Measured, frozen=True, tag="tested", tag_field=TAG):
    """What `selftest` measured, and whether this machine measures truthfully.

    Attributes:
        alarms: The same work as A and as B on each device, judged in consecutive runs: an alarm is
            false.
    """

    alarms: tuple[Alarms, ...] = ()


class Diagnosed(Struct, frozen=True, tag="diagnosed", tag_field=TAG):
    """What `doctor` found.

    Attributes:
        diagnoses: Whether each name's device is used, and if not, why. Of a map that cannot be read
            there is one without a name.
    """

    diagnoses: tuple[Diagnosis, ...] = ()


class Screened(Struct, frozen=True, tag="screened", tag_field=TAG):
    """What `preflight` found.

    Attributes:
        checks: Every item of every name and of the node; the worst of them is the verdict.
    """

    checks: tuple[FitnessCheck, ...] = ()


class Watched(Struct, frozen=True, tag="watched", tag_field=TAG):
    """What a program did with its devices.

    Attributes:
        traces: What a script did, one for each context that it opened; empty of a command, which is
            seen from outside.
        utilisation: What a command did with the devices of the map, seen from outside; null of a
            script.
    """

    traces: tuple[Trace, ...] = ()
    utilisation: Utilisation | None = None


class Scaled(Struct, frozen=True, tag="scaled", tag_field=TAG):
    """What `scale` measured.

    Attributes:
        scaling: A program on one name of the map, on two, and so on; null: none of them has ended.
    """

    scaling: Scaling | None = None


class Predicted(Struct, frozen=True, tag="predicted", tag_field=TAG):
    """What `predict` computed; nothing of it is measured.

    Attributes:
        prediction: What more devices would give; null with --from.
        published: A published table, and what follows from its cells; null but for --from.
    """

    prediction: Prediction | None = None
    published: Published | None = None


Result = (
    Checked | Listed | Compared | Measured | Tested | Diagnosed | Screened | Watched | Scaled
    | Predicted
)  # fmt: skip
RESULTS: tuple[type, ...] = get_args(Result)
