"""Prove gpumap on the GPUs of this machine, in one go, offline, and leave one record of it.

    make gpu
    python3 -m benchmarks.gpu [--map MAP] [--output DIR]      in the repository's root

It runs the tests of the backends, the commands of the README, checks what they found, and runs the
measurements twice. One JSON file holds everything; one Markdown file is made from it. Nothing is
installed and nothing is fetched: what is missing is said at the start, and what for.
"""
