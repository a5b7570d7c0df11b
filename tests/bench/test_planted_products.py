"""Wrong products of up to 16384 rows are found, and 10,000 right ones pass in any order of sums."""

import numpy as np
import pytest
from planted import DTYPES, STRIP, Planted, nearest, rounded, truncated, wrongs

from gpumap.engine.verify import ROWS

EVERY = pytest.mark.parametrize("dtype", DTYPES)
PRODUCTS = 10_000
LARGEST = 1024


@pytest.mark.timeout(3600)
@EVERY
@pytest.mark.parametrize("size", [512, 1024, 1025, 4096, 8192, 16384])
def test_a_few_wrong_rows_of_a_large_product_fail(size, dtype):
    """As many as are made at a time; the others are right, as all are at first."""
    start = size // 2 + ROWS // 2
    p = Planted(size, dtype, slice(start, start + STRIP))
    out = rounded(p.known(), dtype)
    out[p.rows] = rounded(p.exact, dtype)
    assert p.expected.check(out).passed
    passed = []
    for name, make in wrongs(p):
        out[p.rows] = rounded(make(), dtype)
        if p.expected.check(out).passed:
            passed.append(name)
    assert passed == []


def in_turn(terms):
    return np.cumsum(terms, axis=1, dtype=terms.dtype)[:, -1]


def by_size(terms):
    """Sum the largest first, so that all others are added to a large number."""
    return in_turn(np.take_along_axis(terms, np.argsort(-abs(terms), axis=1), axis=1))


def by_value(terms):
    """Sum all negative ones before the first positive one: no order has larger partial sums."""
    return in_turn(np.sort(terms, axis=1))


def right_product(number, rng):
    """Return a size, a type, an order and the largest error of a product that sums in that order.

    Elements of one diagonal have the same terms: what differs in their sums are the order of the
    terms, in turn, and the sign of all of them.
    """
    size = int(np.exp(rng.uniform(0.0, np.log(LARGEST + 1))))
    dtype = DTYPES[number % len(DTYPES)]
    order = (in_turn, by_size, by_value)[number // len(DTYPES) % 3]
    p = Planted(size, dtype, seed=(2, number))
    wide = "float64" if dtype == "float64" else "float32"
    (left, _), (right, _) = p.a.drawn(), p.b.drawn()
    if dtype == "tf32":
        read = (truncated, nearest)[number // 2 % 2]
        left, right = read(left), read(right)
    places = (np.arange(size)[:, None] - np.arange(size)) % size
    terms = left.astype(wide) * right.astype(wide)[places]  # each is rounded as well
    out = rounded(p.known(order(terms).astype(float)), dtype)
    return size, dtype, order.__name__, p.expected.check(out)


def of_a_tensor_core(left, right):
    """Sum four terms at a time as tensor cores do, which cut off what they align and what they sum.

    The terms are multiplied exactly and aligned to the largest, with two bits more than float32
    has (Fasi, Higham, Mikaitis & Pranesh, PeerJ Computer Science 2021).
    """
    size = len(left)
    places, sums = np.arange(size), np.zeros(size)
    for k in range(0, size, 4):
        steps = np.arange(k, min(k + 4, size))
        terms = left[steps] * right[(places[:, None] - steps) % size]
        largest = np.maximum(abs(terms).max(axis=1), abs(sums))
        unit = np.exp2(np.floor(np.log2(largest)) - 25)
        sums = unit * (np.trunc(terms / unit[:, None]).sum(axis=1) + np.trunc(sums / unit))
        unit = np.exp2(np.floor(np.log2(abs(sums))) - 23)
        sums = unit * np.trunc(sums / unit)
    return sums


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "tf32"])
@pytest.mark.parametrize("size", [64, 1024, 16384])
def test_truncated_sums_are_right(size, dtype):
    """They drift, and less than a product of 16 bits or of TF32 may."""
    p = Planted(size, dtype)
    left, right = (p.read(m.drawn()[0]).astype(float) for m in (p.a, p.b))
    check = p.expected.check(rounded(p.known(of_a_tensor_core(left, right)), dtype))
    assert check.passed


@pytest.mark.timeout(3600)
def test_no_right_product_fails():
    """Sizes from 1 to 1024, as many of each decade; types and the worst orders in turn."""
    rng = np.random.default_rng(14)
    worst: dict[tuple[str, str], float] = {}
    for number in range(PRODUCTS):
        size, dtype, order, check = right_product(number, rng)
        assert check.passed, (number, size, dtype, order, check.max_error)
        key = dtype, order
        worst[key] = max(worst.get(key, 0.0), check.max_error)
    print("largest error of what is allowed:", worst)  # noqa: T201 - docs/method.md has them
    assert max(worst.values()) < 1.0
