"""`gpumap transfer-cost`: exact on scripted devices, byte for byte on real ones."""

from scripts import asked, report, script

TWO = "a->cuda0;b->cuda1"


def cost(gpumap, *arguments, sizes="4KiB,16KiB", map_=TWO):
    given = ("--sizes", sizes, "--map", map_, "--format", "json", "--no-model", *arguments)
    return gpumap("transfer-cost", *given)


def test_a_pair_has_its_route_and_an_ordered_id(gpumap):
    found = report(cost(gpumap.fake(script()), "--cases", "d2d", sizes="4KiB"))
    rows = {row["id"]: (row["names"], row["route"]) for row in asked(found)}
    keys = "backend=fake,bytes=4096,memory=device,mode={},names={},pattern=alone"
    assert rows == {
        f"transfer.d2d[{keys.format(mode, '>'.join(names))}]": (names, "peer")
        for mode in ("sync", "queued") for names in (["a", "b"], ["b", "a"])
    }  # fmt: skip


def test_the_longest_budget_is_no_overflow(gpumap):
    answer = cost(gpumap.fake(script()), "--cases", "h2d", "--budget", "999999999", sizes="4KiB")
    assert answer.code == 0
    assert report(answer)["settings"]["timeout_s"] == 1e9
