"""Types of a report's fields: what a number, a word or a moment may be; its schema has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from gpumap.model.maps import UNITS, Estimate

Natural = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
Number = int | float  # an int stays one: a report is written again as it was
UNBOUNDED = "unbounded"  # marks in a schema what may be infinite, or no number
Unbounded = int | Annotated[float, Meta(extra_json_schema={UNBOUNDED: True})]
Positive = Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0.0)]
Share = Annotated[int, Meta(ge=0, le=1)] | Annotated[float, Meta(ge=0.0, le=1.0)]
Code = Annotated[str, Meta(pattern=r"\A[a-z][a-z0-9-]*\Z")]
Word = Annotated[str, Meta(pattern=r"\A[a-z][a-z0-9_]*\Z")]
Id = Annotated[
    str,
    Meta(
        pattern=r"\A[a-z][a-z0-9_-]*(\.[a-z0-9][a-z0-9_+-]*)+"
        r"\[([a-z_0-9]+=[^,\[\]=]*(,[a-z_0-9]+=[^,\[\]=]*)*)?\]\Z"
    ),
]
Sentence = Annotated[str, Meta(min_length=1, max_length=200)]
Moment = Annotated[
    str, Meta(pattern=r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z\Z")
]
Version = Annotated[str, Meta(pattern=r"\A[0-9][0-9A-Za-z.+!-]*\Z")]
MetricName = Annotated[str, Meta(pattern=rf"\A(?:{'|'.join(UNITS)})\Z")]
SomeId = Annotated[Id, Meta(extra_json_schema={"$ref": "#/$defs/Id"})]
Figures = Annotated[Mapping[Word, Estimate], Meta(extra_json_schema={"$ref": "#/$defs/Metrics"})]
