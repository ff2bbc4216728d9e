# shellcheck shell=bash
# Sourced by each benchmark in the repository's root: installs and builds what is missing, and
# runs the Python program of its name where tracefs is mounted.
. scripts/lib.sh

[[ $EUID -eq 0 ]] || die "run it as root: tracing needs it"
with_tracefs "scripts/bench/${0##*/}" "$@"
export PYTHONPATH=$PWD/collector
object=collector/pgtrace/objects/pgtrace.bpf.o

supervise install_packages bpftool bpftrace clang libbpf-dev libbpf1 postgresql-15 python3-venv || exit
# What is measured is what the sources say now
if ! .venv/bin/python -c 'import pgtrace.tracing.tracer, psycopg' 2>/dev/null ||
    [[ ! -e $object || $(find bpf -type f -newer "$object") ]]; then
    supervise make_venv -e . || exit
fi
exec .venv/bin/python "scripts/bench/${0##*/}.py" "$@"
