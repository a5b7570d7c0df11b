"""`bench train`: the network, rules and workers, by its options."""

from __future__ import annotations

from contextlib import redirect_stdout
from importlib.util import find_spec
from math import isfinite
from typing import TYPE_CHECKING, Any

from gpumap.app.program import several
from gpumap.app.worker_runs import WorkersRecipe, connector, measure_workers
from gpumap.backends.base import Clock
from gpumap.bench.allreduce import ALGORITHMS
from gpumap.bench.train import Train, check_request, plan
from gpumap.bench.train_workers import LocalWorkers, TrainingMaker
from gpumap.errors import AbsentError, QuestionError
from gpumap.extras import install
from gpumap.text import chosen
from gpumap.training.jobs import CASES, Params, Scaling
from gpumap.training.network import NAMES, PRESETS, TRANSFORMER
from gpumap.training.optimizers import OPTIMIZERS, RATES
from gpumap.training.rules import RULES, RuleSpec
from gpumap.training.tasks import Trainable, UserNetwork

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumap.app.benchmark import Request
    from gpumap.engine.base import OpenDevices, Settings

_EXAMPLES = 256  # of each device, for a network of one's own


def _params(options: Mapping[str, Any], seed: int, *, library: bool) -> Params:
    """Return the benchmark's parameters; `library`: a library exchanges, MPI or NCCL.

    Raises:
        QuestionError: a name is not known, or two options contradict each other.
    """
    network, its_optimizer, examples = _network(options["preset"], options["network"])
    optimizer = options["optimizer"] or its_optimizer
    (how,) = chosen(optimizer, OPTIMIZERS, "optimizer", "--optimizer", most=1)
    names = chosen(options["rule"], RULES, "rule", "--rule")
    rate, learn = options["rate"], options["learn"]
    _check_finite({"--rate": rate, "--chance": options["chance"]})
    return Params(
        network,
        tuple(RuleSpec(name, tau=options["tau"], chance=options["chance"]) for name in names),
        _scaling(options["batch"], options["batch_per_device"], examples),
        how,
        RATES[how] if rate is None else rate,
        _algorithm(options["algorithm"], library=library),
        _measured(options["cases"], learn),
        learn or 0,
        seed,
        split=options["split"],
    )


def measure_training(request: Request, options: Mapping[str, Any], comm: str | None) -> None:
    """Measure training on 1, 2, 4 ... devices, by the options of `gpumap bench train`."""
    program, settings = request.program, request.settings
    library = several(program) is not None if comm is None else comm != "local"
    with redirect_stdout(program.stderr):  # what a network prints is no part of the report
        params = _params(options, settings.seed, library=library)
        measure_workers(request, TrainingRecipe(settings, params), comm)


class TrainingRecipe(WorkersRecipe):
    """`bench train` between devices or processes."""

    check, planned, made = staticmethod(check_request), staticmethod(plan), Train

    def __init__(self, settings: Settings, params: Params) -> None:
        super().__init__(settings, params)
        self.maker = TrainingMaker(params, Clock())

    def local(self, devices: OpenDevices | None, comm: str) -> LocalWorkers:
        """Return the devices of this process as workers."""
        sessions, clock = (devices.sessions, devices.clock) if devices else ({}, None)
        return LocalWorkers(sessions, clock, connector(comm), comm)


def _check_finite(values: Mapping[str, float | None]) -> None:
    """Refuse nan and inf, which click accepts within any range."""
    for option, value in values.items():
        if value is not None and not isfinite(value):
            raise QuestionError(f"{option} {value} is no number to train with", "give a finite one")


def _algorithm(requested: str | None, *, library: bool) -> str:
    default = "native" if library else "ring"
    (by,) = chosen(requested or default, ALGORITHMS, "algorithm", "--algorithm", most=1)
    if by == "native" and not library:
        raise QuestionError("native is a library's own exchange", "add --comm nccl, or choose ring")
    return by


def _measured(cases: str | None, learn: int | None) -> tuple[str, ...]:
    measured = CASES if cases is None else chosen(cases, CASES, "case", "--cases")
    if learn and "step" not in measured:
        fix = "add step to --cases, or leave --learn out"
        raise QuestionError("--learn without the case step: a gradient alone learns nothing", fix)
    return measured


def _network(preset: str, own: str | None) -> tuple[Trainable, str, int]:
    """Return what is trained, and the optimizer and examples for a device that it comes with."""
    (name,) = chosen(preset, NAMES, "preset", "--preset", most=1)
    if own is not None:
        return UserNetwork(own), "sgd", _EXAMPLES
    if name != TRANSFORMER:
        return PRESETS[name]
    if find_spec("torch") is None:
        raise AbsentError("the preset transformer is a network of PyTorch's", install("torch"))
    return UserNetwork("gpumap.training.transformer:Transformer", name), "adam", 32


def _scaling(batch: int | None, each: int | None, preset: int) -> Any:
    if batch is not None and each is not None:
        message = "--batch is strong scaling, --batch-per-device weak"
        raise QuestionError(message, "choose one of them")
    if batch is not None:
        return Scaling("strong", batch)
    return Scaling("weak", preset if each is None else each)
