"""A network of one's own, logistic regression, trained on one device and on several.

    GPUMAP_CONTEXTS="dev0->cuda0;dev1->cuda1" python examples/own_network.py
    gpumap bench train --network own_network:Logistic    # in the folder of this file

It needs a list of float32 arrays and two methods; where and with what they compute is up to it.
"""

import numpy as np

import gpumap

INPUTS = 256
HIDDEN = np.random.default_rng(0).standard_normal(INPUTS).astype(np.float32)


class Logistic:
    """Which side of a plane are these numbers on?"""

    def __init__(self) -> None:
        self.parameters = [np.zeros(INPUTS, np.float32), np.zeros(1, np.float32)]

    def batch(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return examples by their numbers, the same ones each time."""
        x = np.empty((len(numbers), INPUTS), np.float32)
        for row, number in zip(x, numbers, strict=True):
            np.random.default_rng(int(number)).random(dtype=np.float32, out=row)
        return x, ((x - 0.5) @ HIDDEN > 0).astype(np.float32)

    def gradients(self, x: np.ndarray, y: np.ndarray, share: float) -> list[np.ndarray]:
        """Return the gradient of `share` times the sum of the losses."""
        weights, bias = self.parameters
        wrong = (1 / (1 + np.exp(-(x @ weights + bias))) - y) * np.float32(share)
        return [x.T @ wrong, wrong.sum(keepdims=True)]


if __name__ == "__main__":
    report = gpumap.run_benchmark("train", network="own_network:Logistic", budget="5s")
    for row in report.measurements:
        names = "+".join(row.case.names)
        if row.status == "ok":
            speed = row.metrics["examples_per_s"]
            print(f"{row.case.name:8} on {names:10} {speed.value:10.0f} examples/s")
