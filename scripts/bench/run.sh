# shellcheck shell=bash
# Sourced by each benchmark in the repository's root: installs and builds what is missing, and
# runs the Python program of its name in a mount namespace of its own, where tracefs is mounted.
. scripts/lib.sh

[[ $EUID -eq 0 ]] || die "run it as root: tracing needs it"
export PYTHONPATH=$PWD/collector
object=collector/pgtrace/objects/pgtrace.bpf.o

supervise install_packages bpftrace clang libbpf-dev libbpf1 postgresql-15 python3-venv || exit
# What is measured is what the sources say now
if ! .venv/bin/python -c 'import pgtrace.tracing.tracer, psycopg' 2>/dev/null ||
    [[ ! -e $object || $(find bpf -type f -newer "$object") ]]; then
    supervise make_venv -e . || exit
fi
# shellcheck disable=SC2016 # the inner shell expands it
exec unshare --mount --propagation private bash -c '
    [[ -d /sys/kernel/tracing/events ]] || mount -t tracefs tracefs /sys/kernel/tracing || exit
    exec .venv/bin/python "$@"' bash "scripts/bench/${0##*/}.py" "$@"
