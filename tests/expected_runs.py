"""The runs whose whole output tests/expected/runs holds: on scripted devices, every kind of end."""

from __future__ import annotations

from dataclasses import dataclass, field

from commands.scripts import DEVICES, ON_TWO, script

FAST = {"rate": 2**34, "bandwidth": 2**34}
FEW = {"rate": 2**28}  # so slow that the time is enough for few samples
HOST = "[host]\nrate = 1e8\n\n"
SLOW = {"rate": 2**26}
TWO = script()
ONE = script({})
HOSTILE = """
[[device]]
ref = "cuda0"
name = "[bold red]\\u001b[2JEvil\\u202e \\u009b31m<b>|[/]"
pci = "0000:09:00.0"
latency = 0.001
[[device]]
ref = "cuda1"
latency = 0.001
"""
PAIR = "--map a->cuda0;b->cuda1"
EVERY = ("rich", "json", "csv", "markdown", "junit", "github", "html")
NO_PAGE = EVERY[:-1]
SHORT = ("json", "csv", "markdown", "junit", "github")
GPU = '[[device]]\nref = "cuda0"\nlatency = 5e-6\nlaunch = 5e-6\n'
TRACED = f'import gpumap\nimport numpy as np\n\nones = np.ones((4, 4), "float32")\n{ON_TWO}'
TABLE = "# from a talk\nnetwork,devices,train_s\nnet\x1b[31m,1,10\nnet\x1b[31m,2,4.5\n"
LINK = "predict --latency 1ms --bandwidth 1GB/s"
PRINTS = "import os; print('hello from', os.environ['GPUMAP_NAME'])"


@dataclass(frozen=True)
class Run:
    """A command, its devices and files, what ran before it, and the formats that it is held in."""

    code: int
    command: str  # its words, with one blank between
    script: str = TWO
    formats: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    before: tuple[tuple[str, str], ...] = ()  # scripts and commands
    behind: tuple[str, ...] = ()  # words that have blanks


def saved(path, devices=ONE, more=""):
    """Return what makes a report of a small product on one device."""
    words = f"bench dot --size 64 --cases solo --map a->cuda0 --quiet --output json={path}"
    return devices, f"{words} {more}".strip()


BASE = saved("base.json")
DOT = "bench dot --size 64 --budget 8s"
MANY = f"{DOT} --cases many"

MAPS = {
    "check-ok": Run(0, "check a->cuda0;b->cuda1", TWO, EVERY),
    "check-hostile": Run(0, "check [bold]x[/]->cuda0;a|b<i>->cuda1", HOSTILE, NO_PAGE),
    "check-strict": Run(1, "check --strict a->cuda0;b->cuda0", TWO, NO_PAGE),
    "check-needs": Run(1, "check --needs a,c,d --distinct a->cuda0;b->cuda0", TWO,
        ("json", "junit", "github")),
    "check-absent": Run(3, "check a->cuda0;b->cuda7;c->opencl3:1", TWO, EVERY),
    "check-absent-skipped": Run(0, "check a->cuda0;b->cuda7 --if-absent skip", TWO,
        ("rich", "json", "junit", "github")),
    "check-wrong-backend": Run(2, "check --backend numpy a->cuda0"),
    "check-lost": Run(3, "check a->cuda0;b->cuda1", script({}, {"fault": "lost"}),
        ("json", "junit")),
    "check-memory": Run(3, "check a->cuda0;b->cuda1", script({}, {"fault": "memory"})),
    "check-wrong-data": Run(4, "check a->cuda0;b->cuda1", script({"fault": "flip"}, {}), EVERY),
    "check-syntax": Run(0, "check --syntax-only --format json a->cuda0;b->opencl0:1"),
    "check-syntax-error": Run(2, "check a->gpu0;b-cuda1;a->cuda0;->cpu0;x->cuda99999;a=>cuda0", TWO,
        SHORT),
    "check-no-map": Run(2, "check", TWO, ("json",)),
    "check-dashed": Run(2, "check -a->cpu0"),
    "check-words": Run(2, "check a -> cpu0"),
    "check-controls": Run(2, "check \x1b[2J \u202e"),
    "check-wrong-option": Run(2, "check --fromat json a->cuda0"),
    "check-wrong-choice": Run(2, "check --format xml a->cuda0"),
    "check-unquoted": Run(2, "check dev0-"),
    "check-files": Run(
        2,
        "check-files gpumap.toml good.txt .theanorc none.txt",
        files={
            "gpumap.toml": 'map = "dev0->gpu0"\n',
            "good.txt": "a->cuda0\n",
            ".theanorc": "[global]\ncontexts = a->cuda0;a->cuda1\n",
        },
    ),
    "check-files-setting": Run(2, "check-files pyproject.toml",
        files={"pyproject.toml": '[tool.gpumap]\nmap = "a->cpu0"\n'}),
    "check-files-ok": Run(0, "check-files good.txt", files={"good.txt": "a->cuda0;b->cuda1\n"}),
    "devices-ok": Run(0, "devices", TWO, EVERY),
    "devices-hostile": Run(0, "devices", DEVICES, NO_PAGE),
    "devices-none": Run(3, "devices", "\n", SHORT),
    "wrong-command": Run(2, "chek a->cuda0"),
    "wrong-theanorc": Run(2, "check",
        files={"rc": "[global]\nfloatX = float32\nno setting\nnor this\n"}, env={"THEANORC": "rc"}),
    "wrong-option": Run(2, "--bogus"),
    "wrong-script": Run(2, "check a->cuda0", '[[device]]\nref = "cuda0"\nfault = "tired"\n'),
    "wrong-setting": Run(2, "check a->cuda0", files={"gpumap.toml": 'formt = "json"\n'}),
    "doctor-used": Run(0, "doctor a->cuda0", GPU + "rate = 1e12\n", EVERY),
    "doctor-absent": Run(3, "doctor dev0->cuda7", GPU, NO_PAGE),
    "doctor-slow": Run(1, "doctor a->cuda0", HOST + GPU.replace("launch = 5e-6", "launch = 5e-3"),
        ("json", "markdown")),
}  # fmt: skip

BENCHES = {
    "dot-ok": Run(0, f"{DOT} {PAIR}", TWO, EVERY),
    "dot-noise": Run(0, f"{MANY} {PAIR}", script(noise=0.02, spikes=0.05, spike=3.0), NO_PAGE),
    "dot-limit-met": Run(0, f"{MANY} {PAIR} --limit dot.many.speedup>=1.8", TWO,
        ("json", "junit", "github")),
    "dot-limit-missed": Run(1, f"{MANY} {PAIR} --limit dot.many.speedup>=2.5", TWO, EVERY),
    "dot-limits": Run(
        1,
        f"{MANY} {PAIR} --limit dot.many.speedup>=1.8 --limit dot.many.time<1us "
        "--limit dot.solo[name=c].time<=1s",
    ),
    "dot-limit-wrong": Run(2, f"{MANY} {PAIR} --limit dot.lots.speed>=2"),
    "dot-few-samples": Run(0, f"bench dot --size 64 --cases many --budget 6s {PAIR}", script(**FEW),
        SHORT),
    "dot-inconclusive": Run(5,
        f"bench dot --size 64 --cases many --budget 6s {PAIR} --limit dot.one.time<=1s",
        script(**FEW), ("json", "junit", "markdown")),
    "dot-limit-left-out": Run(5,
        f"bench dot --size 64 --cases many --budget 6s {PAIR} --limit dot.solo.time<=1s",
        script(**FEW)),
    "dot-budget": Run(0, f"bench dot --size 64,256 --budget 6s {PAIR}", TWO, NO_PAGE),
    "dot-shared": Run(0, f"{MANY} --map a->cuda0;b->cuda0", ONE, ("json",)),
    "dot-one-name": Run(0, f"{DOT} --map a->cuda0", ONE, ("json", "csv")),
    "dot-hostile": Run(0, f"{MANY} --map [b]x|y->cuda0;=1+1->cuda1", HOSTILE, NO_PAGE),
    "dot-wrong-product": Run(4, f"{MANY} {PAIR}", script({}, {"fault": "wrong-product"}), EVERY),
    "dot-lost": Run(3, f"{MANY} {PAIR}", script({}, {"fault": "lost", "fault_after": 40}), NO_PAGE),
    "dot-memory": Run(3, f"{MANY} {PAIR}", script({}, {"fault": "memory"}), ("json", "github")),
    "dot-too-large": Run(2, f"bench dot --size 8192 {PAIR}", script(memory=2**20), ("json",)),
    "dot-absent": Run(3, f"{MANY} --map a->cuda0;b->cuda9", TWO, EVERY),
    "dot-absent-skipped": Run(0, f"{MANY} --map a->cuda0;b->cuda9 --if-absent skip", TWO, SHORT),
    "dot-dry-run": Run(0, f"bench dot --size 64,256 --dry-run {PAIR}", TWO, NO_PAGE),
    "dot-time-limit": Run(124, "bench dot --size 64 --timeout 2s --map a->cuda0",
        script({"fault": "hang"}), SHORT),
    "dot-base-slower": Run(1, "bench dot --size 64 --cases solo --map a->cuda0 --base base.json",
        script({}, launch=1.25 * 2.0**-12), ("json", "csv", "markdown"), before=(BASE,)),
    "chain-ok": Run(0, f"bench chain --rows 1000 --budget 8s {PAIR}", HOST + TWO, EVERY),
    "chain-host-faster": Run(0,
        "bench chain --rows 1024 --cases fused,cold --budget 300s --map a->cuda0",
        f"[host]\nrate = {2.0**26}\n{ONE}"),
    "chain-no-kernels": Run(0, "bench chain --rows 1000 --budget 8s --map a->cuda0",
        HOST + script({}, features=["float64"]), ("json", "csv")),
    "allreduce-ok": Run(0,
        f"bench allreduce --sizes 400,4KiB --algorithm ring,tree --budget 30s --comm local {PAIR}",
        script(**FAST), ("rich", "json", "csv", "html")),
    "allreduce-one-name": Run(2, "bench allreduce --comm local --map a->cuda0", ONE),
    "train-rules": Run(
        0,
        "bench train --sweep width=16 --batch-per-device 32 --budget 8s "
        f"--comm local --rule bsp,easgd,gosgd {PAIR}",
        script(**FAST),
        EVERY,
    ),
    "train-dry-run": Run(0, f"bench train --dry-run --sweep width=16,64 --batch 101 {PAIR}"),
    "train-wrong-option": Run(2, f"bench train --rule none --comm local {PAIR}"),
    "transfer-cost-ok": Run(
        0,
        f"transfer-cost --sizes small --cases h2d,d2d {PAIR}",
        script(**FAST, features=["kernels", "float64"]),
        ("rich", "github"),
    ),
    "transfer-cost-model": Run(0, "transfer-cost --sizes small --cases h2d --map a->cuda0",
        script({}, **FAST, features=["float64"]), ("json", "csv", "html")),
    "transfer-cost-copies": Run(0, f"transfer-cost --sizes 4KiB --cases h2d --no-model {PAIR}",
        script(features=[])),
    "transfer-cost-affine": Run(0, "transfer-cost --cases affine,product --map a->cuda0",
        HOST + script({}, **FAST), ("json", "rich", "markdown", "html")),
    "transfer-cost-no-model": Run(0, f"transfer-cost --sizes 4KiB --no-model {PAIR}", TWO,
        ("csv",)),
    "transfer-cost-wrong-data": Run(4,
        f"transfer-cost --sizes 4KiB --cases h2d,d2h --no-model {PAIR}",
        script({}, {"fault": "flip"}, features=[]), ("json", "csv", "junit", "github")),
    "selftest-ok": Run(0, f"selftest {PAIR}", script(**SLOW), EVERY),
    "selftest-lost": Run(3, f"selftest {PAIR}", script({"fault": "lost"}, {}, **SLOW),
        ("json", "junit")),
    "selftest-noise": Run(5, "selftest --map a->cuda0", script({"noise": 0.4}, **SLOW), ("json",)),
}  # fmt: skip

SLOWER = saved("new.json", script({}, launch=1.25 * 2.0**-12))
OTHERS = {
    "compare-equal": Run(0, "compare base.json base.json", ONE, NO_PAGE, before=(BASE,)),
    "compare-slower": Run(1, "compare base.json new.json", ONE, EVERY, before=(BASE, SLOWER)),
    "compare-faster": Run(0, "compare new.json base.json", ONE, ("json",), before=(BASE, SLOWER)),
    "compare-missing": Run(1, "compare base.json new.json", ONE, SHORT,
        before=(BASE, saved("new.json", ONE, "--dtype float64"))),
    "compare-no-report": Run(2, "compare base.json no.json", files={"base.json": "{}"}),
    "report-several": Run(0, "report base.json new.json", ONE, ("rich", "json", "html"),
        before=(BASE, SLOWER)),
    "report-over-time": Run(0, "report --over-time dot.solo.time base.json new.json", ONE,
        ("rich", "json", "html"), before=(BASE, SLOWER)),
    "report-broken": Run(2, "report no.json", files={"no.json": '{"schema_version": 1'}),
    "predict-strong": Run(
        0,
        "predict --bytes 100MB --latency 8us --bandwidth 10GB/s --compute 0.3s "
        "--batch 48 --devices 1,2,64",
        formats=EVERY,
    ),
    "predict-split": Run(0,
        f"{LINK} --bytes 100MB --compute 1s --batch 4 --devices 1,2,8 --algorithm ring,host"),
    "predict-weak": Run(
        0,
        f"{LINK} --network resnet50 --dtype float16 --compute 100ms --scaling weak --devices 4 "
        "--algorithm ring",
    ),
    "predict-own-table": Run(0, "predict --from own.csv", files={"own.csv": TABLE}),
    "predict-published": Run(0, "predict --from theano-mpi", formats=EVERY),
    "predict-wrong": Run(2, "predict --bytes 1MB"),
    "explain-words": Run(0, "explain speedup gm204 --format markdown"),
    "explain-several": Run(0, "explain n Serialised n"),
    "explain-unknown": Run(2, "explain speedip there_is_no_such_word"),
    "trace-ok": Run(0, "trace --perfetto trace.perfetto script.py", TWO, EVERY,
        files={"script.py": TRACED}),
    "trace-fails": Run(1, "trace script.py", TWO, ("json",),
        files={"script.py": TRACED + "    raise ValueError('no')\n"}),
    "trace-no-python": Run(2, "trace script.py", files={"script.py": "def (\n"}),
    "run-ok": Run(0, "run --no-bind a->cuda0 -- python -c", behind=(PRINTS,)),
    "run-dry-run": Run(
        0,
        "run --no-bind --dry-run a->cuda0;b->cuda1 -- python train.py",
        env={"OMP_NUM_THREADS": ""},  # as if it were not set
    ),
    "run-fails": Run(7, "run --no-bind --quiet a->cuda0 -- python -c",
        behind=("raise SystemExit(7)",)),
    "run-not-found": Run(127, "run --no-bind --quiet a->cuda0 -- there-is-no-such-command"),
    "run-no-command": Run(2, "run a->cuda0"),
}  # fmt: skip
RUNS = {**MAPS, **BENCHES, **OTHERS}
