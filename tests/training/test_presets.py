"""The parameters of each network, added up from its layers."""

from itertools import pairwise

from gpumap.training.presets import PARAMETERS, nbytes


def conv(inputs, outputs, side, *, groups=1, bias=True):
    return inputs // groups * outputs * side * side + outputs * bias


def dense(*units):
    return sum((a + 1) * b for a, b in pairwise(units))


def test_alexnet():
    """Two groups in three of the convolutions, as it was on two GPUs."""
    convolutions = (
        conv(3, 96, 11), conv(96, 256, 5, groups=2), conv(256, 384, 3),
        conv(384, 384, 3, groups=2), conv(384, 256, 3, groups=2),
    )  # fmt: skip
    total = sum(convolutions) + dense(6 * 6 * 256, 4096, 4096, 1000)
    assert total == PARAMETERS["alexnet"] == 60_965_224


def test_vgg16():
    """Thirteen convolutions and three layers on top; four bytes for each parameter, or two."""
    widths = (3, 64, 64, 128, 128, 256, 256, 256, *(512,) * 6)
    total = sum(conv(a, b, 3) for a, b in pairwise(widths)) + dense(7 * 7 * 512, 4096, 4096, 1000)
    assert total == PARAMETERS["vgg16"] == 138_357_544
    assert (nbytes("vgg16"), nbytes("vgg16", "float16")) == (4 * 138_357_544, 2 * 138_357_544)


def test_resnet50():
    """Convolutions without a bias, each with scale and shift of its normalisation."""

    def unit(inputs, outputs, side):
        return conv(inputs, outputs, side, bias=False) + 2 * outputs

    width, total = 64, unit(3, 64, 7)
    for inner, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            total += unit(width, inner, 1) + unit(inner, inner, 3) + unit(inner, 4 * inner, 1)
            total += unit(width, 4 * inner, 1) if block == 0 else 0
            width = 4 * inner
    assert total + dense(2048, 1000) == PARAMETERS["resnet50"] == 25_557_032


def test_googlenet():
    """Nine inception modules, and both auxiliary classifiers, which are trained too."""
    modules = (
        (192, 64, 96, 128, 16, 32, 32), (256, 128, 128, 192, 32, 96, 64),
        (480, 192, 96, 208, 16, 48, 64), (512, 160, 112, 224, 24, 64, 64),
        (512, 128, 128, 256, 24, 64, 64), (512, 112, 144, 288, 32, 64, 64),
        (528, 256, 160, 320, 32, 128, 128), (832, 256, 160, 320, 32, 128, 128),
        (832, 384, 192, 384, 48, 128, 128),
    )  # fmt: skip
    total = conv(3, 64, 7) + conv(64, 64, 1) + conv(64, 192, 3) + dense(1024, 1000)
    for inputs, one, reduce3, three, reduce5, five, pool in modules:
        total += conv(inputs, one, 1) + conv(inputs, pool, 1)
        total += conv(inputs, reduce3, 1) + conv(reduce3, three, 3)
        total += conv(inputs, reduce5, 1) + conv(reduce5, five, 5)
    auxiliary = sum(conv(n, 128, 1) + dense(2048, 1024, 1000) for n in (512, 528))
    assert total + auxiliary == PARAMETERS["googlenet"] == 13_378_280
