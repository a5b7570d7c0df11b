"""Does doctor raise false alarms? The same sound set-up is asked about again and again.

    python -m benchmarks.doctor_alarms [--runs 50] [MAP...]

Each run is `gpumap doctor MAP`, a process of its own. For each map the verdicts, the codes that
were named and the longest run are printed. Leave the machine alone: GM303 says that it is busy.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from typing import Any

MAPS = ("dev0->cpu0;dev1->cpu1", "dev0->opencl0:0")


def main() -> None:
    """Run it for each map."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("maps", nargs="*", default=list(MAPS))
    asked = parser.parse_args()
    for text in asked.maps:
        print(counted(text, asked.runs), flush=True)


def counted(text: str, runs: int) -> str:
    """Return a line on so many runs."""
    reports = [_report(text) for _ in range(runs)]
    every = [found for report in reports for found in report["diagnoses"]]
    verdicts = Counter(found["verdict"] for found in every)
    codes = Counter(found["findings"][0]["code"] for found in every if found["findings"])
    longest = max(report["elapsed_s"] for report in reports)
    return f"{text}: {runs} runs, {dict(verdicts)}, {dict(codes)}, at most {longest:.1f} s"


def _report(text: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "gpumap", "doctor", text, "--format", "json", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


if __name__ == "__main__":
    main()
