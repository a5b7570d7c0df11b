"""Ctrl-C: heard wherever it meets the main thread, once, and left to a script that wants it."""

from __future__ import annotations

import subprocess
import sys

import pytest

START = """
import os, signal, sys, time, weakref
from gpumap.commands import interrupts

class Thing:
    pass

def ctrl_c(*_):
    os.kill(os.getpid(), signal.{signal})

def lost_in_a_callback():
    thing = Thing()
    known = weakref.ref(thing, ctrl_c)
    del thing  # the callback runs here, and what it raises is told and forgotten

def wrong_in_a_callback():
    thing = Thing()
    wrong = weakref.ref(thing, lambda _: 1 / 0), weakref.ref(thing, ctrl_c)  # called last to first
    del thing

interrupts.watch({limit})
"""
LOST = """
try:
    lost_in_a_callback()
    time.sleep(50)
    print("slept on")
except KeyboardInterrupt:
    print("heard")
"""
CLEANING = """
try:
    try:
        ctrl_c()
        time.sleep(50)
    finally:
        try:
            {}["what a close forgives"]
        except KeyError:
            time.sleep(0.5)
        time.sleep(0.5)
        print("clean")
except KeyboardInterrupt:
    interrupts.ignore()
    time.sleep(0.5)
    ctrl_c()
    print("reported")
"""
WANTED = """
try:
    ctrl_c()
    time.sleep(50)
except KeyboardInterrupt:
    pass
time.sleep(0.5)
print("once")
"""


def run(text, *, signal="SIGINT", limit=40.0):
    """Run a program and return what it printed and what it said."""
    start = START.replace("{signal}", signal).replace("{limit}", repr(limit))
    done = subprocess.run(
        [sys.executable, "-c", start + text], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.split("\n")[:-1], done.stderr


@pytest.mark.parametrize("signal", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_what_was_lost_is_sent_again(signal):
    """An interrupt that met a callback, where Python forgets what is raised, still ends the run."""
    assert run(LOST, signal=signal) == (["heard"], "")


def test_other_errors_of_a_callback_are_still_told():
    """Python says what a callback raised beside an interrupt."""
    printed, said = run(LOST.replace("lost_in_a_callback", "wrong_in_a_callback"))

    assert printed == ["heard"]
    assert "ZeroDivisionError" in said
    assert "KeyboardInterrupt" not in said


def test_cleaning_up_is_left_alone():
    """What is done on the way out, or for the report, meets no second interrupt."""
    assert run(CLEANING) == (["clean", "reported"], "")


def test_a_script_may_do_with_it_as_it_likes():
    """Without a time limit the code is the user's: an interrupt that it caught is over."""
    assert run(WANTED, limit=None) == (["once"], "")
