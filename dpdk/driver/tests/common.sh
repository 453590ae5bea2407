# shellcheck shell=bash
# What the scripts that drive DPDK's programs on net_niclab have in common. Sourced at the root of
# the repository. NICLAB_DRIVER names the driver; it must lie where only its owner can write.

: "${NICLAB_DRIVER:?name the driver: NICLAB_DRIVER=target/dpdk-driver/librte_net_niclab.so}"
work=$(mktemp -d)
passed=0 failed=0
prefix=niclab-$$

finish() {
    local status=$?
    rm -rf "$work" "/var/run/dpdk/$prefix" "/run/dpdk/$prefix"
    exit "$status"
}
trap finish EXIT

skip() {
    printf 'SKIP %s: %s\n' "${0##*/}" "$1"
    exit 77
}

# need PROGRAM: skips the script if the program is missing.
need() { command -v "$1" >/dev/null 2>&1 || skip "$1 is missing; install ${2-dpdk}"; }

# read_options [MEGABYTES]: sets $options, those of DPDK: no huge pages, no devices of the bus, our
# driver, files of this run alone.
read_options() {
    options=(--no-huge -m "${1-512}" --no-pci --file-prefix "$prefix" -d "$NICLAB_DRIVER")
}

# since RELEASE NAME: fails where the DPDK here is older than this release, and says that the check
# NAME is left out.
since() {
    local found
    found=$(pkg-config --modversion libdpdk)
    [ "$(printf '%s\n' "$1" "$found" | sort -V | head -n 1)" != "$1" ] || return 0
    printf 'skip %s: DPDK %s lacks it, %s has it\n' "$2" "$found" "$1"
    return 1
}

# Loads the driver. DPDK refuses drivers that others could change, in any directory above too.
driver_for_dpdk() {
    local directory
    directory=$(realpath "$NICLAB_DRIVER")
    NICLAB_DRIVER=$directory
    while [ "$directory" != / ]; do
        directory=$(dirname "$directory")
        case $(stat -c %A "$directory") in
        ????????w?) skip "$directory is writable for all, and DPDK refuses drivers below it" ;;
        esac
    done
}

ok() {
    passed=$((passed + 1))
    printf 'ok %s\n' "$1"
}

not_ok() {
    failed=$((failed + 1))
    printf 'not ok %s\n' "$1"
    [ -z "${2-}" ] || sed 's/^/    /' "$2"
}

# has NAME FILE PATTERN…: every pattern (extended, one line) is in the file.
has() {
    local name=$1 file=$2 pattern
    shift 2
    for pattern; do
        if ! grep -Eq -- "$pattern" "$file"; then
            not_ok "$name: no line matches $pattern" "$file"
            return 0
        fi
    done
    ok "$name"
}

# lacks NAME FILE PATTERN: no line matches.
lacks() {
    if grep -Eq -- "$3" "$2"; then not_ok "$1: a line matches $3" "$2"; else ok "$1"; fi
}

# build NAME: builds the program NAME.c, as $work/NAME.
build() {
    local flags
    need cc gcc
    read -ra flags <<<"$(pkg-config --cflags --libs libdpdk)"
    cc -O2 -Wall -Wextra -Werror -DALLOW_EXPERIMENTAL_API "dpdk/driver/tests/$1.c" -o "$work/$1" \
        "${flags[@]}" -lrte_ethdev -lrte_eal -lrte_mbuf -lrte_mempool
}

# checks NAME DEVICE…: builds the program NAME.c and runs it; each of its lines is a check.
checks() {
    local name=$1 line status=0
    shift
    build "$name"
    read_options 256
    timeout 120 "$work/$name" "${options[@]}" -l 0 "${@/#/--vdev=}" >"$work/log" 2>&1 || status=$?
    while IFS= read -r line; do
        case $line in
        'ok '*) ok "${line#ok }" ;;
        'not ok '*) not_ok "${line#not ok }" ;;
        esac
    done <"$work/log"
    [ "$status" = 0 ] || [ "$failed" -gt 0 ] || not_ok "$name ended with $status" "$work/log"
}

report() {
    printf '%d passed, %d failed\n' "$passed" "$failed"
    [ "$failed" = 0 ]
}

driver_for_dpdk
read_options
