#!/usr/bin/env bash
# Runs gpumap for a workflow, and hands on what came of it.
#
# Reads VENV, where gpumap is, and INPUT_COMMAND, INPUT_MAP, INPUT_ARGS, INPUT_LIMITS, INPUT_BASE,
# INPUT_IF_ABSENT, the inputs of the action. None of them is ever evaluated. Its exit code is that of
# gpumap. However it ends, the outputs `exit-code`, `status`, `report` and `junit` are written, and
# what there is of a report is in the step's summary. bash 3.2 will do: macOS has no other.
set -euo pipefail

folder=$(mktemp -d "${RUNNER_TEMP:-${TMPDIR:-/tmp}}/gpumap.XXXXXXXX")
report=$folder/report.json junit=$folder/report.xml summary=$folder/report.md said=$folder/said
arguments=() child='' stopped='' code=0 status=error

# shellcheck disable=SC2329 # called by the trap
conclude() {
    local code=$?
    trap - EXIT
    [[ -e $report ]] || report=''
    [[ -e $junit ]] || junit=''
    printf '%s\n' "exit-code=$code" "status=$status" "report=$report" "junit=$junit" \
        >> "${GITHUB_OUTPUT:-/dev/null}"
    [[ ! -e $summary ]] || cat -- "$summary" >> "${GITHUB_STEP_SUMMARY:-/dev/null}"
    exit "$code"
}
trap conclude EXIT

annotate() { # say it at the top of the run's page; of a text nothing is obeyed
    local text=$1
    text=${text//'%'/%25} text=${text//$'\r'/%0D} text=${text//$'\n'/%0A}
    printf '::error title=gpumap action::%s\n' "$text"
}

refuse() {
    annotate "$1"
    exit 2
}

python() { # isolated: a json.py of the workspace is none of ours
    "${VENV:?}/bin/python" -I "$@"
}

add_command() {
    [[ $1 =~ ^[a-z][a-z-]*(\ [a-z][a-z-]*)*$ ]] ||
        refuse 'the input "command" is not words such as check or bench dot; options go into "args"'
    read -r -a arguments <<< "$1"
}

add() { # an option, unless its value is empty; glued, so that no value is taken for an option
    if [[ -n $2 ]]; then arguments+=("$1=$2"); fi
}

add_limits() { # one a line
    local line
    while IFS= read -r line; do
        line=${line#"${line%%[![:space:]]*}"} line=${line%"${line##*[![:space:]]}"}
        add --limit "$line"
    done <<< "$1"
}

add_absent() { # skip as an option: a command that has none must say so
    case $1 in
        fail) export GPUMAP_IF_ABSENT=fail ;;
        skip) add --if-absent skip ;;
        *) refuse 'the input "if-absent" is neither fail nor skip' ;;
    esac
}

add_words() { # split as a shell does; nothing is expanded
    local word split='import os, shlex, sys
for word in shlex.split(sys.argv[1]):
    sys.stdout.buffer.write(os.fsencode(word) + b"\0")'
    python -c "$split" "$1" > "$folder/words" 2> /dev/null ||
        refuse 'the input "args" does not end: a quote is open, or a \ is the last character'
    while IFS= read -r -d '' word; do
        arguments+=("$word")
    done < "$folder/words"
}

stop() { # SIGINT is ignored in the background of a script
    stopped=yes
    if [[ -n $child ]]; then kill -TERM "$child" 2> /dev/null || true; fi
}

run() { # gpumap; it writes a whole report also when the job is cancelled
    trap stop INT TERM HUP
    "${VENV:?}/bin/gpumap" "${arguments[@]}" 2> "$said" &
    child=$!
    if [[ -n $stopped ]]; then stop; fi
    wait "$child" || code=$?
    while kill -0 "$child" 2> /dev/null; do # a signal ended the wait, and not gpumap
        wait "$child" || true
    done
    if [[ -n $stopped ]]; then # bash keeps what it ended with
        code=0
        wait "$child" || code=$?
    fi
}

read_status() { # of the report, if the exit code is what it has
    local read='import json, sys
with open(sys.argv[1], encoding="utf-8") as file:
    report = json.load(file)
print(report["status"] if report["exit_code"] == int(sys.argv[2]) else "error")'
    status=$(python -c "$read" "$report" "$code") || status=error
}

tell() { # what gpumap said on stderr: it quotes texts of others, and nothing of it is obeyed
    local token
    token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    printf '::group::What gpumap said\n::stop-commands::%s\n' "$token"
    cat -- "$said"
    printf '\n::%s::\n::endgroup::\n' "$token"
}

explain() { # why there is no report; to have done nothing is no success
    if [[ $code -eq 0 ]]; then refuse 'gpumap wrote no report; leave --help and --schema out of "args"'; fi
    if [[ -n $stopped ]]; then
        status=interrupted
    elif [[ $code -ne 2 ]]; then
        status=internal
    fi
    annotate "$(cat -- "$said")"
}

add_command "${INPUT_COMMAND:-check}"
add --map "${INPUT_MAP:-}"
add --base "${INPUT_BASE:-}"
add_limits "${INPUT_LIMITS:-}"
add_absent "${INPUT_IF_ABSENT:-fail}"
add --format github
add --output "json=$report"
add --output "junit=$junit"
add --output "markdown=$summary"
add_words "${INPUT_ARGS:-}"

run
if [[ -e $report ]]; then
    read_status
    if [[ -s $said ]]; then tell; fi
else
    explain
fi
exit "$code"
