# shellcheck shell=bash
# Shared by scripts/demo and scripts/test: packages, the virtual environment, and an end that
# takes everything with it. Source it with the repository as working directory.

# Images of containers often set it. Each of thousands of commands would compile pgtrace anew then, and
# what starting costs would be the compiler's time, too.
unset PYTHONDONTWRITEBYTECODE

die() {
    echo "${0##*/}: $*" >&2
    exit 1
}

# Debian packages that are missing, one per line.
missing_packages() {
    local package
    for package; do
        [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
            echo "$package"
    done
}

# Install the packages that are missing. Asks the network only if there are any.
install_packages() (
    mapfile -t missing < <(missing_packages "$@")
    [[ ${#missing[@]} -gt 0 ]] || exit 0
    [[ $EUID -eq 0 ]] || die "run it as root, or first: apt-get install ${missing[*]}"
    echo "Installing ${missing[*]}"
    # We bring our own clusters: Debian's default one is neither wanted nor started. The setting
    # goes again, as a later installation by hand may want it.
    no_cluster=/etc/postgresql-common/createcluster.d/pgtrace.conf
    said=$(mktemp)
    trap 'rm -f "$no_cluster" "$said"' EXIT
    mkdir -p "${no_cluster%/*}"
    echo "create_main_cluster = false" >"$no_cluster"
    export DEBIAN_FRONTEND=noninteractive
    {
        apt-get -q update &&
            apt-get -q -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0 \
                install -y --no-install-recommends "${missing[@]}"
    } >"$said" 2>&1 || { tail -n 40 "$said" >&2 && exit 1; }
)

# Build pgtrace into .venv, with what else is named. Without build isolation nothing is
# downloaded a second time.
make_venv() {
    [[ -x .venv/bin/pip ]] || /usr/bin/python3 -m venv .venv || return
    local pip=(.venv/bin/pip --quiet --disable-pip-version-check install)
    "${pip[@]}" 'setuptools>=77' && "${pip[@]}" --no-build-isolation "$@"
}

# Run a command in a process group of its own, so that an end reaches all of it, also when the
# signal came to this shell alone.
child=''
supervise() {
    local status=0
    set -m
    "$@" </dev/null &
    child=$!
    set +m
    wait "$child" || status=$?
    child=''
    return "$status"
}

# The first signal lets the running command clean up; a second one leaves at once.
stop() {
    trap - INT TERM HUP
    if [[ $child ]]; then
        kill -INT -- "-$child" 2>/dev/null
        wait "$child"
    fi
    exit "$1"
}
trap 'stop 130' INT
trap 'stop 143' TERM
trap 'stop 129' HUP

# with_tracefs SCRIPT ARGUMENTS...: unless tracefs is there, begin the script anew where it is:
# in a mount namespace of its own, so that nothing is left mounted. For bpftrace: pgtrace needs none.
# What it unmounts is to be unmounted in the namespaces of servers that it starts as well.
with_tracefs() {
    [[ ! -d /sys/kernel/tracing/events ]] || return 0
    # shellcheck disable=SC2016 # the inner shell expands them
    exec unshare --mount --propagation private bash -c \
        'mount --make-rshared / && mount -t tracefs tracefs /sys/kernel/tracing && exec "$@"' \
        with_tracefs "$@"
}
