"""A step is predicted from what links cost, as exactly as that is known and no more."""

from gpumap.distributed.cost import given_link, predicted
from gpumap.model import Estimate, Prediction
from gpumap.model import replace as changed


def test_a_link_without_intervals_gives_none():
    exact = given_link(1e-5, 1e10)
    alone = {
        key: Estimate.without_interval(getattr(exact, key).value, getattr(exact, key).unit)
        for key in ("latency", "bandwidth")
    }
    question = Prediction(10**8, exact, "strong", compute=0.3, batch=64)
    known, found = (
        predicted(changed(question, link=link), (2, 8), ("ring",))
        for link in (exact, changed(exact, **alone))
    )
    assert [payoff.pays for payoff in known.payoffs] == ["yes"]
    assert [payoff.pays for payoff in found.payoffs] == ["unclear"]
    for one, other in zip(
        (*known.forecasts, *known.payoffs), (*found.forecasts, *found.payoffs), strict=True
    ):
        assert one.metrics.keys() == other.metrics.keys()
        for name, figure in one.metrics.items():
            assert other.metrics[name] == Estimate.without_interval(figure.value, figure.unit)
