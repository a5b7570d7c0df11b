"""What is remembered of a machine: written whole, believed only where gpumap wrote it."""

from __future__ import annotations

import json
import os
import stat

import pytest

from gpumap import cache

HASH = "sha256:" + "ab" * 32
OTHER = "sha256:" + "cd" * 32
FLOORS = {"cpu:0": 0.0085, "cpu:1": 0.0198}


@pytest.fixture
def env(tmp_path):
    """An environment whose cache is in a folder that does not exist yet."""
    return {"GPUMAP_CACHE_DIR": str(tmp_path / "deep" / "cache")}


def kept(env):
    """Return the file of the machine, after something was stored."""
    path, _ = cache.store(env, HASH, FLOORS)
    return path


def test_what_is_stored_is_read_back(env):
    """For this machine, and for no other."""
    path, note = cache.store(env, HASH, FLOORS)

    assert note is None
    assert f"selftest-{'ab' * 32}.json" == path.name
    assert ([path], 0o700) == (
        list(path.parent.iterdir()),
        stat.S_IMODE(path.parent.stat().st_mode),
    )
    assert cache.load(env, HASH) == (FLOORS, None)
    assert cache.load(env, OTHER) == ({}, None)


def test_a_later_self_test_replaces_an_earlier_one(env):
    """The last one knows best how noisy the machine is."""
    cache.store(env, HASH, FLOORS)
    cache.store(env, HASH, {"cpu:0": 0.04})

    assert cache.load(env, HASH) == ({"cpu:0": 0.04}, None)


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"GPUMAP_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"GPUMAP_CACHE_DIR": "", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/gpumap"),
        ({"XDG_CACHE_HOME": "b", "HOME": "/c"}, "/c/.cache/gpumap"),  # relative: XDG ignores it
        ({"HOME": "/c"}, "/c/.cache/gpumap"),
        ({"HOME": "c"}, None),
        ({}, None),
    ],
)
def test_the_folder(env, expected):
    """Our own variable, XDG's, then the home folder; else nowhere."""
    found = cache.folder(env)

    assert expected == (None if found is None else str(found))


def test_without_a_folder_nothing_is_stored():
    """A note says so."""
    path, note = cache.store({}, HASH, FLOORS)

    assert (path, note.severity) == (None, "note")
    assert note.message == "the noise floors are not stored: no variable names a folder"
    assert cache.load({}, HASH) == ({}, None)


NO_SHARES = "its noise floors are no shares"
VALID = {"version": 1, "fingerprint": HASH, "noise_floors": FLOORS}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is no JSON"),
        ("{", "it is no JSON"),
        ("[" * 10_000, "it is no JSON"),
        ("[]", "it is of another version"),
        (json.dumps(VALID | {"version": 2}), "it is of another version"),
        (json.dumps(VALID | {"fingerprint": OTHER}), "it is another machine's"),
        (json.dumps(VALID | {"noise_floors": [0.1]}), NO_SHARES),
        (json.dumps(VALID | {"noise_floors": {"cpu:0": "0.1"}}), NO_SHARES),
        (json.dumps(VALID | {"noise_floors": {"cpu:0": True}}), NO_SHARES),
        (json.dumps(VALID | {"noise_floors": {"cpu:0": -0.1}}), NO_SHARES),
        (json.dumps(VALID | {"noise_floors": {"cpu:0": 10**400}}), NO_SHARES),
        (json.dumps(VALID | {"noise_floors": {"cpu:0": 0.06}}), NO_SHARES),  # all would be the same
        (json.dumps(VALID | {"noise_floors": {"cpu:0": float("nan")}}), "NaN is no number"),
        (json.dumps(VALID | {"noise_floors": {"cpu:0": 1}}).replace(": 1}", ": 1e999}"),
         NO_SHARES),
        ("x" * (2**16 + 1), "it is larger than 65536 bytes"),
        ("\0", "it is not text (a NUL at byte 0)"),
    ],
)  # fmt: skip
def test_a_spoilt_file_is_a_note(env, text, why):
    """Whatever is in it; and nothing of it is believed."""
    path = kept(env)
    path.write_text(text)

    floors, note = cache.load(env, HASH)

    assert (floors, note.severity, note.code) == ({}, "note", "cache")
    assert why in note.message
    assert str(path) in note.message
    assert (path, None) == cache.store(env, HASH, FLOORS)  # and a new one takes its place
    assert cache.load(env, HASH) == (FLOORS, None)


def test_what_is_no_file_is_not_waited_for(env):
    """A FIFO that nobody writes to."""
    path = kept(env)
    path.unlink()
    os.mkfifo(path)

    floors, note = cache.load(env, HASH)

    assert floors == {}
    assert note.message.endswith(f"cannot read the noise floors {path}: it is a FIFO")


@pytest.mark.parametrize(
    "hash_", ["", "sha256:../../etc/passwd", "sha256:" + "AB" * 32, HASH + "\n"]
)
def test_a_hash_that_is_none_names_no_file(env, hash_):
    """It may be from a report that someone else wrote."""
    assert cache.load(env, hash_) == ({}, None)
    assert cache.store(env, hash_, FLOORS)[0] is None


@pytest.mark.parametrize("where", ["/dev/null/cache", "/proc/nowhere", "a\0b"])
def test_a_folder_that_cannot_be_written_to_is_a_note(where):
    """And what cannot be read holds nothing."""
    env = {"GPUMAP_CACHE_DIR": where}

    path, note = cache.store(env, HASH, FLOORS)

    assert (path, note.severity, note.hint) == (
        None, "note", "let GPUMAP_CACHE_DIR name a folder of your own",
    )  # fmt: skip
    assert cache.load(env, HASH)[0] == {}


def test_what_others_can_write_is_not_used(env):
    """It would call a regression noise; and what is stored is never such a file."""
    before = os.umask(0)
    try:
        path = kept(env)
    finally:
        os.umask(before)
    assert cache.load(env, HASH) == (FLOORS, None)

    path.chmod(0o646)

    floors, note = cache.load(env, HASH)
    assert (floors, note.code) == ({}, "cache")
