"""`gpumap predict`: computed from what links cost, and said to be; and published tables."""

from __future__ import annotations

import csv
import io
import json

import pytest
from report_schema import validate
from saved_reports import written
from shell import SIMULATED, Answer, on_a_terminal

LINK = ("--latency", "1ms", "--bandwidth", "1GB/s")
ASK = "gpumap predict --network vgg16 --latency 10us --bandwidth 10GB/s --compute 300ms"


def test_without_a_compute_time_there_are_exchanges_alone(gpumap):
    """And from which one on a second device would pay."""
    tree = predicted(gpumap, "--bytes", "1MB", "--algorithm", "ring")

    assert [f["devices"] for f in tree["forecasts"]] == [2**n for n in range(1, 11)]
    assert all(list(f["metrics"]) == ["comm"] for f in tree["forecasts"])
    (paid,) = tree["payoffs"]
    assert (paid["pays"], paid["best_devices"]) == (None, None)
    assert paid["metrics"]["from_compute"]["value"] == pytest.approx(2 * (2e-3 + 1e-3))


def predicted(gpumap, *options):
    """Return a prediction as JSON has it; the schema knows it."""
    answer = gpumap("predict", *LINK, *options, "--format", "json")
    tree = json.loads(answer.out)

    assert (answer.code, answer.err) == (0, "")
    validate(tree)
    return tree["prediction"]


@pytest.mark.parametrize(("compute", "pays"), [("203ms", "no"), ("205ms", "yes")])
def test_a_second_device_pays_from_the_step_that_is_told(gpumap, compute, pays):
    """Twice the exchange of two, with strong scaling: there the speed-up is 1."""
    asked = ("--bytes", "100MB", "--compute", compute, "--devices", "2", "--algorithm", "ring")

    tree = predicted(gpumap, *asked)

    assert tree["payoffs"][0]["pays"] == pays
    assert (tree["forecasts"][0]["metrics"]["speedup"]["value"] > 1.0) == (pays == "yes")


# --- from a report


def test_a_link_that_was_measured(gpumap):
    """Its model is exact on a scripted clock: 2^-10 s and 2^28 B/s; what is scripted says so."""
    path = written("copies").path

    answer = gpumap("predict", "--report", str(path), "--bytes", "1MiB", "--devices", "2",
                    "--algorithm", "ring", "--format", "json")  # fmt: skip

    assert (answer.code, answer.err) == (0, SIMULATED)
    tree = json.loads(answer.out)
    validate(tree)
    assert tree["simulated"] is True
    link = tree["prediction"]["link"]
    assert link["source"].startswith("transfer.d2d.fit[backend=fake,memory=device,mode=sync,")
    (forecast,) = tree["prediction"]["forecasts"]
    comm = forecast["metrics"]["comm"]
    assert comm["low"] <= comm["value"] <= comm["high"]
    ends = [2 * link["latency"][e] + 2**20 / link["bandwidth"][o]
            for e, o in (("low", "high"), ("value", "value"), ("high", "low"))]  # fmt: skip
    assert [comm[end] for end in ("low", "value", "high")] == pytest.approx(ends)


def test_a_slower_link_decides(gpumap):
    """A ring waits for its slowest link: b is half as fast."""
    tree = written("copies").tree
    for fit in tree["fits"]:
        if "names=b>a" in fit["id"]:
            fit["lines"][0]["per_byte_s"] *= 2
            bandwidth = fit["metrics"]["peak_bandwidth"]
            bandwidth |= {end: bandwidth[end] / 2 for end in ("value", "low", "high")}
    (gpumap.folder / "slow.json").write_text(json.dumps(tree))

    answer = gpumap("predict", "--report", "slow.json", "--bytes", "1MB", "--format", "json")

    assert "names=b>a" in json.loads(answer.out)["prediction"]["link"]["source"]


def test_a_report_without_such_a_model(gpumap):
    """It offers those that there are, those between devices first."""
    path = written("copies").path
    link = ("--link", "transfer.h2d[memory=mapped]")

    answer = gpumap("predict", "--report", str(path), *link, "--bytes", "1MB")

    error, fix = answer.err.removeprefix(SIMULATED).splitlines()
    assert error == "error: the report has no model that fits 'transfer.h2d[memory=mapped]'"
    assert fix.startswith(
        "  fix: --link 'transfer.d2d[backend=fake,memory=device,mode=sync,names=a>b"
    )
    assert (answer.code, answer.out) == (2, "")


def test_a_report_without_copies(gpumap):
    """It says how to get one that has some."""
    answer = gpumap("predict", "--report", str(written("dot").path), "--bytes", "1MB")

    assert answer.code == 2
    assert answer.err == SIMULATED + (
        "error: the report has no model that fits 'transfer.d2d[mode=sync]'\n"
        "  fix: measure copies between two devices: gpumap transfer-cost --output FILE.json\n"
    )


# --- published tables


SECOND = """\
  on 2 and 4 devices it is off by 8.9% at most
  8 devices take 1.85 to 2.24 times as long as predicted: the model needs a second, slower link for them, of 3.14 to 3.69 GB/s
"""  # noqa: E501 - lines of the output
ROWS = "AlexNet-128b,VGG16-16b,VGG16-32b,ResNet50-64b"


def test_the_table_that_ships(gpumap):
    """Its cells as printed, its figures as computed, and what eight devices need."""
    answer = gpumap("predict", "--from", "theano-mpi", "--rows", ROWS)

    assert (answer.code, answer.err) == (0, "")
    lines = [" ".join(line.split()) for line in answer.out.splitlines()]
    assert "VGG16-16b 358.29 176.08+13.90 90.44+9.28 55.12+12.59" in lines
    assert "AlexNet-128b 8 3.24 s 1580 6.33x 79.1% 97.4% -" in lines
    assert "VGG16-16b 8 67.71 s 75.6 5.29x 66.1% 81.3% -" in lines
    assert (
        "ResNet50-64b 2 80.90 s 63.3 2.02x 100.8% 101.9% super-linear super-linear-compute" in lines
    )
    assert answer.out.endswith(SECOND)
    assert "GoogLeNet" not in answer.out


def test_every_format_has_it(gpumap):
    """JSON is valid, CSV has each figure, Markdown and the terminal the tables."""
    targets = ("json=t.json", "csv=t.csv", "markdown=t.md", "junit=t.xml")
    outputs = [word for target in targets for word in ("--output", target)]

    code, seen = on_a_terminal(gpumap, "predict", "--from", "theano-mpi", *outputs, columns=160)

    assert code == 0
    assert "6.33x" in seen
    tree = json.loads((gpumap.folder / "t.json").read_text())
    validate(tree)
    lines = list(csv.DictReader(io.StringIO((gpumap.folder / "t.csv").read_text())))
    (found,) = (x["value"] for x in lines
                if (x["id"], x["metric"]) == ("VGG16-16b[devices=8]", "efficiency"))  # fmt: skip
    assert float(found) == tree["published"]["cells"][11]["metrics"]["efficiency"]["value"]
    assert {x["record"] for x in lines} == {"published", "model"}
    assert "| `10.35+0.78`" in (gpumap.folder / "t.md").read_text()


# --- wrong questions


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), f"give --bytes or --network: one of the two\n  fix: {ASK}"),
        (("--bytes", "1MB"), f"give --latency and --bandwidth, or --report FILE\n  fix: {ASK}"),
        (
            ("--bytes", "1MB", "--network", "vgg16"),
            f"give --bytes or --network: one of the two\n  fix: {ASK}",
        ),
        (
            (*LINK, "--bytes", "1MB", "--dtype", "float16"),
            "--dtype is of the parameters of --network\n  fix: leave it away",
        ),
        (
            (*LINK, "--bytes", "1MB", "--batch", "4"),
            "--batch is of a step that takes --compute\n  fix: give both, or neither",
        ),
        (
            (*LINK, "--bytes", "1MB", "--report", "x.json"),
            (
                "a report has a latency and a bandwidth\n"
                "  fix: leave --latency and --bandwidth away, or --report"
            ),
        ),
        (
            (*LINK, "--network", "lenet"),
            (
                'no network is called "lenet"\n'
                "  fix: --network takes one of alexnet, googlenet, vgg16, resnet50, mlp41m"
            ),
        ),
        (
            (*LINK, "--bytes", "1MB", "--algorithm", "star"),
            (
                'no algorithm is called "star"\n'
                "  fix: --algorithm takes some of native, ring, alltoall, tree, host"
            ),
        ),
        (
            (*LINK, "--bytes", "1MB", "--devices", "many"),
            "'many' is no number of devices\n  fix: write 2, or 2,4,8, or 2:1024:x2",
        ),
        (("--rows", "a"), "--rows are those of a table\n  fix: name it with --from"),
        (
            ("--from", "theano-mpi", "--bytes", "1MB", "--scaling", "weak"),
            "--from takes no --bytes, --scaling\n  fix: leave one of the two away",
        ),
        (
            ("--from", "theano-mpi", "--rows", "AlexNet"),
            (
                "theano-mpi has no row AlexNet\n  fix: choose of AlexNet-128b, GoogLeNet-32b, "
                "VGG16-16b, VGG16-32b, ResNet50-64b"
            ),
        ),
        (
            ("--from", "none.csv"),
            "cannot read the table none.csv: there is no such file\n  fix: check the path",
        ),
        (
            ("--report", "none.json", "--bytes", "1MB"),
            "cannot read the report none.json: there is no such file\n  fix: check the path",
        ),
        (
            ("--latency", "5"),
            (
                "Invalid value for '--latency' (env var: 'GPUMAP_LATENCY'): '5' has no unit: "
                "write it as 5ms\n  see: gpumap predict --help"
            ),
        ),
        (
            ("--bandwidth", "0GB/s"),
            (
                "Invalid value for '--bandwidth' (env var: 'GPUMAP_BANDWIDTH'): '0GB/s' is not "
                "above 0: give what it really is\n  see: gpumap predict --help"
            ),
        ),
    ],
)
def test_a_question_that_cannot_be_answered(gpumap, arguments, said):
    """Exit 2, with the fix, and nothing on stdout."""
    assert gpumap("predict", *arguments) == Answer(2, "", f"error: {said}\n")


def test_a_variable_gives_way_to_an_option(gpumap):
    """What is typed is meant: also where the variable is of a rival, or of another command."""
    options = ("--bytes", "1MB", "--devices", "2", "--algorithm", "ring")

    typed = gpumap("predict", *LINK, *options)
    beside = gpumap("predict", *LINK, *options, GPUMAP_NETWORK="vgg16", GPUMAP_DTYPE="float64")
    table = gpumap("predict", "--from", "theano-mpi", GPUMAP_BYTES="1MB", GPUMAP_LATENCY="1s")

    assert typed.code == beside.code == table.code == 0
    assert typed.out == beside.out
