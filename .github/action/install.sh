#!/usr/bin/env bash
# Sets gpumap up for a workflow: in a virtual environment of its own, from the action's checkout.
#
# Reads INPUT_EXTRA and INPUT_PYTHON. Writes the step's output `venv`; later steps find `gpumap`,
# and nothing else of the environment, in their PATH. Exit 2: an input is wrong.
set -euo pipefail

refuse() {
    printf '::error title=gpumap action::%s\n' "$1"
    exit 2
}

extra=${INPUT_EXTRA:-}
# of an extra that is none pip only warns, and nothing would drive the devices
drivers='opencl|opencl-cpu|opencl-intel|cuda12|cuda13|torch|jax'
[[ $extra =~ ^(($drivers)(,($drivers))*)?$ ]] ||
    refuse "the input \"extra\" is none of ${drivers//|/, }, or some of them with commas between"

python=${INPUT_PYTHON:-python3}
fix='use actions/setup-python before this step, or name another one'
command -v -- "$python" > /dev/null || refuse "the input \"python\" is no command here; $fix"
new=$("$python" -I -c 'import sys; print(sys.version_info >= (3, 11))' 2> /dev/null) || new=''
[[ $new == True ]] || refuse "the input \"python\" is no Python 3.11 or newer; $fix"

set_up() {
    rm -rf "$folder"
    "$python" -I -m venv "$folder/venv" ||
        refuse 'this Python makes no virtual environment; on Debian and Ubuntu install python3-venv'
    "$folder/venv/bin/python" -I -m pip install --quiet --disable-pip-version-check --no-input \
        "$GITHUB_ACTION_PATH${extra:+[$extra]}"
    mkdir "$folder/bin"
    ln -s "$folder/venv/bin/gpumap" "$folder/bin/gpumap"
    touch "$folder/whole"
}

# One for all steps of a job; but a checkout of the workflow's own may have changed between them.
key=$(printf '%s\n' "${GITHUB_ACTION_PATH:?}" "$python" "$extra" | cksum | tr -d ' ')
folder=${RUNNER_TEMP:?}/gpumap-venv-$key
if [[ $GITHUB_ACTION_PATH != */_actions/* || ! -e $folder/whole ]]; then set_up; fi

printf '%s\n' "$folder/bin" >> "${GITHUB_PATH:-/dev/null}"
printf 'venv=%s\n' "$folder/venv" >> "${GITHUB_OUTPUT:-/dev/null}"
