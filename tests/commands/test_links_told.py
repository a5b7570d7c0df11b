"""`gpumap transfer-cost` tells what links tell: who shares one, and which pair is odd."""

import pytest
from scripts import asked, report, script

TWO = "a->cuda0;b->cuda1"
QUICK = {"latency": 1e-6, "bandwidth": 2.5e10, "features": []}


def cost(gpumap, fake, map_, *arguments):
    """Run `transfer-cost` on scripted devices."""
    given = ("--map", map_, "--sizes", "1MiB", "--no-model", *arguments)
    return gpumap.fake(fake)("transfer-cost", *given)


def causes(found):
    """Return the cause of each row that has one, by case and names."""
    return {
        (row["case"], "+".join(row["names"]), row["params"]["mode"]): row["explanation"]["cause"]
        for row in asked(found) if row["explanation"]
    }  # fmt: skip


def test_a_shared_bus_is_told(gpumap):
    """In the report, with its figures; links of their own say nothing."""
    given = (TWO, "--cases", "h2d,d2h,d2d", "--format", "json")
    found, apart = (
        report(cost(gpumap, script(**bus, **QUICK), *given)) for bus in ({"engine": "bus 0"}, {})
    )
    assert causes(apart) == {}
    assert {key: cause for key, cause in causes(found).items() if key[0] != "d2d"} == {
        (way, "a+b", "sync"): "shared-link" for way in ("h2d", "d2h")
    }
    why = next(row["explanation"] for row in asked(found) if row["explanation"])
    assert set(why["figures"]) == {"gain", "names", "together", "alone"}
    assert why["figures"]["gain"]["value"] == pytest.approx(1.0)
