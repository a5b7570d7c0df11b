"""A torch.nn.Module as a network: its gradient is autograd's, on one rank and on two."""

import sys

import numpy as np
import pytest
from backends.frameworks import needs
from sessions import opened
from tables import table
from test_rules import COUNT, EACH, learned, training

from gpumap.errors import QuestionError
from gpumap.training.tasks import UserNetwork

pytestmark = needs("torch")


@pytest.fixture
def net(tmp_path, monkeypatch):
    (tmp_path / "own_module.py").write_text(table(__file__)["module"])
    monkeypatch.syspath_prepend(tmp_path)
    yield UserNetwork("own_module:Net")
    sys.modules.pop("own_module", None)


def alone(steps, size, rate):
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = sys.modules["own_module"].Net()
    data = UserNetwork("own_module:Net").data(COUNT, 1)
    optimizer = torch.optim.SGD(module.parameters(), lr=rate)
    for step in range(steps):
        x, y = data.batch(data.numbers(step * size, (step + 1) * size))
        optimizer.zero_grad()
        module.loss(x, y).backward()
        optimizer.step()
    trained = [p for p in module.parameters() if p.requires_grad]
    return np.concatenate([p.detach().numpy().reshape(-1) for p in trained])


@pytest.mark.parametrize("ranks", [1, 2])
def test_ranks_have_the_gradient_of_the_whole_batch(net, ranks):
    """Five steps are those of plain PyTorch; a parameter that is fixed is no part of it."""
    with opened(*["numpy"] * ranks) as sessions:
        made, _ = training(sessions, "bsp", net, rate=0.5)
        found = learned(made, 5)
        assert made.check().passed
    assert net.parameters == 4 * 8 + 8 + 8 + 1 + 2
    expected = alone(5, EACH * ranks, 0.5)
    assert abs(expected - net.initial(1)).max() > 0.01
    np.testing.assert_allclose(found, expected, atol=2e-6)
    x, y = net.data(10, 1).batch(np.arange(10))
    assert 0 < net.judged("loss", found, x, y) < net.judged("loss", net.initial(1), x, y)
    assert 0 <= net.judged("accuracy", found, x, y) <= 1


def test_a_module_without_a_loss_is_refused(net):
    del net
    with pytest.raises(QuestionError, match="has no method loss"):
        _ = UserNetwork("own_module:NoLoss").parameters


def test_the_transformer_learns_its_examples():
    """The plane that its sequences lie on one side of; held-out ones are others."""
    own = UserNetwork("gpumap.training.transformer:Transformer", "transformer")
    data, parameters = own.data(131_072, 1), own.initial(1)
    held = data.batch(np.arange(1000, 1200))
    before = own.judged("loss", parameters, *held)
    for step in range(40):
        x, y = data.batch(data.numbers(32 * step, 32 * (step + 1)))
        parameters = parameters - np.float32(0.1) * own.gradient(parameters, x, y, 1 / 32)
    assert own.judged("loss", parameters, *held) < 0.95 * before
    assert own.judged("accuracy", parameters, *held) > 0.6
