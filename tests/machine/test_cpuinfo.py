import pytest

from gpumap.machine.topology import clocks, model, processors
from gpumap.machine.tree import Tree

GRACE = "processor\t: 0\nBogoMIPS\t: 2000.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"


@pytest.mark.parametrize(("text", "expected"), [
    ("processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Processor\n", "Intel(R) Xeon(R) Processor"),
    (GRACE, "Arm Neoverse-V2"),
    (GRACE.replace("0xd4f", "0xfff"), "Arm implementer 0x41 part 0xfff"),
    (f"{GRACE}\nModel\t\t: Raspberry Pi 5 Model B Rev 1.0\n", "Raspberry Pi 5 Model B Rev 1.0"),
    ("processor\t: 0\ncpu\t\t: POWER9, altivec supported\n", "POWER9, altivec supported"),
    ("processor\t: 0\nmodel name\t:\n", None), ("", None),
    ("\x00\x01rubbish without a colon", None),
])  # fmt: skip
def test_model(sketch, text, expected):
    assert model(Tree(sketch.file("proc/cpuinfo", text).root)) == expected


def test_numbers_and_clocks(sketch):
    text = "\n\n".join(
        f"processor : {index}\ncpu MHz : {rate}"
        for index, rate in (
            (1, "2600.5"),
            (0, "800"),
            (2, "nan"),
            (3, "inf"),
            (4, "x"),
            ("x", "1"),
            (-1, "1"),
        )
    )
    tree = Tree(sketch.file("proc/cpuinfo", text).root)
    assert processors(tree) == (0, 1, 2, 3, 4)
    assert clocks(tree) == {0: 800e6, 1: 2600.5e6}
