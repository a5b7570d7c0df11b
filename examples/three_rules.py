"""Three rules train one network on several devices: what each costs, and what it learns meanwhile.

    GPUMAP_CONTEXTS="dev0->cuda0;dev1->cuda1" python examples/three_rules.py
    gpumap bench train --rule bsp,easgd,gosgd --cases step --learn 20480    # the same as a table

Without a map gpumap finds a default one.
"""

import gpumap

report = gpumap.run_benchmark(
    "train", rule="bsp,easgd,gosgd", cases="step", learn=20_480, budget="10s"
)
for row in report.measurements:
    rule = row.case.params["rule"] if len(row.case.names) > 1 else "one device"
    speed, comm = row.metrics["examples_per_s"], row.metrics["comm"]
    print(
        f"{rule:10} {speed.value:8.0f} examples/s [{speed.low:.0f}, {speed.high:.0f}], "
        f"{comm.value:7.4f} s of exchanges per 5120, loss {row.metrics['loss'].value:.4f}"
    )
