"""Cases as benchmarks plan them: their role is that of their name, their pattern tells a sweep."""

from gpumap import model

ROLES = {"solo": "solo", "host": "host"}


def planned_case(bench, name, params, *others, **more):
    """Return a case; `others` as those of `model.Case`, behind its parameters."""
    role = "control" if bench == "control" else ROLES.get(name, "measured")
    more = {"role": role, "swept": params.get("pattern") == "ladder"} | more
    return model.Case(bench, name, params, *others, **more)
