"""Networks by their parameters: what each device exchanges with the others after a step.

The counts are exact; tests add them up from the layers. AlexNet, GoogLeNet, VGG16 and ResNet50 are
the networks of Theano-MPI's table (`published.csv`), as its model files have them: AlexNet with its
grouped convolutions, GoogLeNet with both auxiliary classifiers, which are trained and so exchanged;
ResNet50 with scale and shift of its batch normalisation. mlp41m is the network of "Transparent
Multi-GPU Training on TensorFlow with Keras" (8000 inputs; 4000, 2000, 500, 300 and 1 units).
llama2-7b has the shapes of Llama 2's published configuration (Touvron et al., arXiv:2307.09288):
32 blocks of width 4096 with 11008 hidden units, and 32000 tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpumap.training.network import Activation, Layer, Network

PARAMETERS = {
    "alexnet": 60_965_224,
    "googlenet": 13_378_280,
    "vgg16": 138_357_544,
    "resnet50": 25_557_032,
    "mlp41m": 41_157_101,
    "llama2-7b": 6_738_415_616,
}
TRANSFORMER = "transformer"  # the preset that is a class: `gpumap.training.transformer`
BUCKET = 25 << 20  # bytes that PyTorch's DistributedDataParallel exchanges at once, if not said
WIDTHS = {"float32": 4, "float16": 2, "bfloat16": 2}  # bytes of a parameter on the wire


def nbytes(network: str, dtype: str = "float32") -> int:
    """Return the bytes that each device of a data-parallel program exchanges in a step."""
    return PARAMETERS[network] * WIDTHS[dtype]


@dataclass(frozen=True, slots=True)
class Preset:
    """A network that can be trained here, and how: examples are those of each device."""

    network: Network
    optimizer: str
    examples: int


def _mlp(name: str, inputs: int, *hidden: tuple[int, Activation]) -> Network:
    layers: tuple[tuple[int, Activation], ...] = (*hidden, (1, "sigmoid"))
    return Network(name, inputs, tuple(Layer(*layer) for layer in layers))


PRESETS = {
    "mlp41m": Preset(
        _mlp("mlp41m", 8000, (4000, "tanh"), (2000, "relu"), (500, "relu"), (300, "relu")),
        "adam",
        2048,
    ),
    "mlp-small": Preset(_mlp("mlp-small", 512, (512, "tanh"), (128, "relu")), "adam", 256),
}
NAMES = (*PRESETS, TRANSFORMER)


def of_width(width: int) -> Network:
    """Return a network of a sweep: `width` numbers, and as many units in each of two layers."""
    return _mlp(f"mlp-{width}", width, (width, "relu"), (width, "relu"))
