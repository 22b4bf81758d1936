"""The shell scripts of the slurm door: those that run on the login host, and the one of a job.

They run in the home folder, which the login host and all nodes share:

    .trainfare/slurm/<key>/job            the number of the job
                           job.sh         the script of the job; what it prints is in job.log
                           keeper.py      what runs on each node, see `agent/keeper.py`
                           nodes          the name and the address of each node, once the job runs
                           until          seconds since 1970: everything ends by then; absent if nothing says so
                           ending         it was asked to end
                           <node>/        machine.json, and the files of keeper and agent
"""

from trainfare.clouds.slurm_answers import JOBS_FORMAT, PARTITIONS_FORMAT

PLACE = ".trainfare/slurm"
JOB_PREFIX = "trainfare-"
"""A job is named after the key of its launch."""

NEEDED, FULL, SILENT, REFUSED, UNSURE = 3, 4, 5, 6, 7
"""Exit codes: a program is missing, no folder can be made, Slurm is silent, it has refused, its answer is lost."""

_FUNCTIONS = f"""
jobs_named() {{
    squeue --noheader --user="$(id -un)" --name="{JOB_PREFIX}$1" --format=%i \\
        --states=PENDING,CONFIGURING,RUNNING,SUSPENDED,COMPLETING
}}
require() {{
    for program in "$@"; do command -v "$program" > /dev/null || {{ echo "$program"; exit {NEEDED}; }}; done
}}
"""

LAUNCH = f"""
{_FUNCTIONS}
umask 077
key=$1 nodes=$2 until=$3 script=$4; shift 4
require sbatch squeue scancel srun python3 flock
mkdir -p {PLACE} && cd {PLACE} || exit {FULL}
exec 9> .lock && flock -w 20 9 || exit {UNSURE}
if [ ! -e "$key" ]; then
    fresh=.new-$key node=0
    rm -rf "$fresh"
    while [ "$node" -lt "$nodes" ]; do
        IFS= read -r machine || exit {UNSURE}
        mkdir -p "$fresh/$node" && printf '%s\\n' "$machine" > "$fresh/$node/machine.json" || exit {FULL}
        node=$((node + 1))
    done
    cat > "$fresh/keeper.py" && printf '%s' "$script" > "$fresh/job.sh" || exit {FULL}
    if [ -n "$until" ]; then printf '%s' "$until" > "$fresh/until" || exit {FULL}; fi
    mv -T "$fresh" "$key" || exit {FULL}
fi
[ -s "$key/job" ] && exit 0
found=$(jobs_named "$key") || exit {SILENT}
if [ -z "$found" ]; then
    # The whole environment of a job is kept on the controller's disk: it gets none that may hold a secret.
    set -- env -i HOME="$HOME" PATH="$PATH" USER="$(id -un)" LOGNAME="$(id -un)" SHELL="${{SHELL:-/bin/sh}}" \\
        ${{SLURM_CONF:+SLURM_CONF="$SLURM_CONF"}} ${{LANG:+LANG="$LANG"}} ${{TMPDIR:+TMPDIR="$TMPDIR"}} \\
        ${{LD_LIBRARY_PATH:+LD_LIBRARY_PATH="$LD_LIBRARY_PATH"}} ${{MODULEPATH:+MODULEPATH="$MODULEPATH"}} "$@"
    reply=$("$@" --parsable --job-name="{JOB_PREFIX}$key" --chdir="$PWD/$key" --output="$PWD/$key/job.log" \\
        --open-mode=append --no-requeue "$key/job.sh" 2> "$key/refusal")
    found=${{reply%%;*}}
    for _ in 1 2 3; do  # it may have been submitted whatever sbatch says
        [ -n "$found" ] && break
        found=$(jobs_named "$key") || {{ cat "$key/refusal" >&2; exit {SILENT}; }}
        [ -n "$found" ] || sleep 0.3
    done
fi
if [ -z "$found" ]; then
    cat "$key/refusal" >&2
    if grep -q -i 'contact\\|timed out\\|connect\\|zero bytes\\|temporarily\\|unexpected message' "$key/refusal"; then
        exit {UNSURE}
    fi
    rm -rf "$key"
    exit {REFUSED}
fi
printf '%s\\n' "$found" | head -n 1 > "$key/job.new" && mv "$key/job.new" "$key/job"
"""
"""Its arguments are the key, the number of nodes, the moment by which all ends, the script of the job, and `sbatch`
with its options; its input is a line for each machine, and the keeper. One call at a time finds or submits the job."""

LIST = f"""
date +%s
export SLURM_TIME_FORMAT=%s
if jobs=$(squeue --noheader --states=all --user="$(id -un)" --format='{JOBS_FORMAT}' 2>&1); then
    echo answers
    printf '%s\\n' "$jobs" | grep -F '|{JOB_PREFIX}'
else
    echo silent
    printf '%s\\n' "$jobs" | tail -n 1
fi
echo machines
cd {PLACE} 2> /dev/null || exit 0
for file in $1/*/machine.json; do
    folder=${{file%/*}} launch=${{file%%/*}}
    node=${{folder#*/}} signs=
    [ -f "$file" ] || continue
    [ -e "$folder/up" ] && signs=u
    [ -e "$folder/results.json" ] && signs=r$signs
    [ -e "$launch/ending" ] && signs=e$signs
    printf '%s|%s|%s|%s|' "$signs" "$(cat "$launch/job" 2> /dev/null)" "$(cat "$folder/lease" 2> /dev/null)" \\
        "$(sed -n "$((node + 1))p" "$launch/nodes" 2> /dev/null)"
    cat "$file" 2> /dev/null || echo
done
"""

END = f"""
{_FUNCTIONS}
umask 077
mkdir -p {PLACE} && cd {PLACE} || exit {FULL}
[ -d "$1" ] && touch "$1/ending"
jobs=$(jobs_named "$1") || exit {SILENT}
if [ -n "$jobs" ]; then exec scancel $jobs; fi
[ -d "$1" ] || exit 0
rm -rf ".ended-$1" && mv -T "$1" ".ended-$1" && rm -rf ".ended-$1"
"""
"""Cancels the job, or, when there is none any more, removes its folder."""

DESCRIBE = f"""
{_FUNCTIONS}
require sinfo sbatch squeue scancel srun python3 flock
sinfo --version || exit {SILENT}
sinfo --noheader --exact --format='{PARTITIONS_FORMAT}' || exit {SILENT}
"""

RUN = """
place=$1 mark=$2; shift 2
if [ -e results.json ] || [ ! -s ../nodes ]; then  # the agent has done its work, or the job waits: there are only files
    printf %s "$mark" >&2
    "$@"
    code=$?
    printf '%s%d' "$mark" $code >&2
    exit 0
fi
job=$(cat ../job 2> /dev/null) name=$(sed -n "${place}p" ../nodes 2> /dev/null | cut -d ' ' -f 1)
exec srun --overlap --jobid="$job" --nodelist="$name" --nodes=1 --ntasks=1 --mem=0 --cpu-bind=none --quiet \\
    sh -c 'mark=$1; shift; printf %s "$mark" >&2; "$@"; code=$?; printf "%s%d" "$mark" $code >&2' sh "$mark" "$@"
"""
"""Runs a command on a node of the job, in the folder of the node. The marks say where its messages begin and that it
has ended: srun adds messages of its own, and exits with 1 for many reasons."""

JOB = """#!/bin/sh
# The launch may have been ended while the job waited.
[ -f keeper.py ] || exit 0
python=$(command -v python3) || { echo "python3 is not installed on $(uname -n)"; exit 1; }
for name in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
    echo "$name $(sinfo --noheader --Node --nodes="$name" --format=%o | head -n 1)"
done > nodes.new
mv nodes.new nodes
if [ "$SLURM_JOB_NUM_NODES" -eq 1 ]; then exec "$python" -I keeper.py; fi
exec srun --overlap --ntasks-per-node=1 --cpus-per-task="${SLURM_CPUS_PER_TASK:-$SLURM_CPUS_ON_NODE}" --wait=0 \\
    --kill-on-bad-exit=0 --quiet "$python" -I keeper.py
"""
