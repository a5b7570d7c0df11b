"""What the time of a rank goes into: phases that add up to it, whoever is early or late."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import table

from gpumap.training.ranks import PHASES, phases

BEGAN = 8.0
OWN = ("input", "transfer", "compute", "sync", "comm", "update", "sync", "comm")
SECONDS = st.integers(0, 1 << 20).map(lambda ticks: ticks / 64)  # exact in binary


@given(st.lists(SECONDS, min_size=1, max_size=24), SECONDS)
def test_phases_add_up_to_the_time_from_the_beginning_to_the_last_end(spent, late):
    """Nothing is left over and nothing counted twice, also where others came after the exchange."""
    parts, now = [], BEGAN
    for number, seconds in enumerate(spent):
        now += seconds
        phase = OWN[number % len(OWN)]
        parts.append((phase, now + (late if phase == "sync" and number + 1 < len(spent) else 0.0)))
    found = phases(parts, BEGAN)
    assert tuple(found) == PHASES
    assert sum(found.values()) == pytest.approx(now - BEGAN)
    assert min(found.values()) >= 0.0


@pytest.mark.parametrize(("early", "late", "expected"), table(__file__)["steps"])
def test_the_early_wait_for_the_late_and_then_all_exchange(early, late, expected):
    """Two ranks, a step; without steps there is nothing. Each waits for who comes last."""
    names = ("input", "transfer", "compute", "comm", "update", "comm")
    found = []
    for mine in (early, late):
        parts, before = [], (0.0, 0.0)
        for name, end, both in zip(names, mine, zip(early, late, strict=True), strict=True):
            if name == "comm":
                parts.append(("sync", max(before)))
            parts.append((name, end))
            before = both
        found.append(phases([*parts, ("sync", max(before))], 0.0))
    mean = {phase: sum(each[phase] for each in found) / 2 for phase in PHASES}
    assert expected.items() <= mean.items()
    assert phases([], BEGAN) == dict.fromkeys(PHASES, 0.0)
