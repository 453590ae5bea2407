# shellcheck shell=bash
# What ./run and ./test have in common: the system packages and the build. Sourced, at the root.

target=${CARGO_TARGET_DIR:-target}
# Settings of the system; a test has its own.
etc=/etc
# Servers that are unpacked and not installed: see unpack_servers.
servers=$target/servers
PATH=$PATH:$(realpath -m "$servers")/usr/bin

say() { printf 'niclab: %s\n' "$*" >&2; }

have() { command -v "$1" >/dev/null 2>&1; }

compiles_c() { printf 'int main(void) { return 0; }\n' | cc -x c -o /dev/null - 2>/dev/null; }

have_header() { printf '#include <%s>\n' "$1" | cc -x c -E -o /dev/null - 2>/dev/null; }

have_dpdk() { have pkg-config && pkg-config --exists libdpdk; }

have_chromium() { have chromium || have chromium-browser || have google-chrome; }

on_debian() { grep -qx 'ID=debian' /etc/os-release 2>/dev/null; }

# Rust itself is not installed for you: rustup asks questions that are yours to answer.
need_rust() {
    # shellcheck disable=SC1091
    if ! have cargo && [ -f "$HOME/.cargo/env" ]; then . "$HOME/.cargo/env"; fi
    if ! have cargo; then
        say "Rust is missing. Install it from https://rustup.rs and start again:"
        say "  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"
        exit 2
    fi
    local needed found
    needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    found=$(rustc --version | cut -d' ' -f2)
    if [ "$(printf '%s\n' "$needed" "$found" | sort -V | head -n 1)" != "$needed" ]; then
        say "Rust $found is too old, $needed is needed: rustup update stable"
        exit 2
    fi
}

may_install() { have apt-get && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }; }

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# Names of the services that start at boot, a line each.
boot_services() {
    local path name
    for path in "$etc"/systemd/system/*.wants/*.service "$etc"/rc[2-5].d/S[0-9][0-9]*; do
        [ -L "$path" ] || continue
        name=${path##*/}
        case $path in */rc?.d/*) name=${name#S[0-9][0-9]} ;; esac
        printf '%s\n' "${name%.service}"
    done | sort -u
}

# quiet_services BEFORE: ends the services that were not among these and start at boot now. Nobody
# who measures asked for them.
quiet_services() {
    local name
    for name in $(comm -13 <(printf '%s\n' "$1") <(boot_services)); do
        say "a package brought the service $name: it is stopped and does not start at boot"
        say "  (to have it: systemctl enable --now $name)"
        {
            as_root systemctl disable "$name"
            as_root update-rc.d "$name" disable
            as_root systemctl stop "$name" || as_root invoke-rc.d "$name" stop
        } >>"$target/packages.log" 2>&1 || true
    done
}

# install_packages LEVEL PURPOSE PACKAGE...: installs, or says the command to type. Returns 1 where
# a package is still missing and LEVEL is `optional`; exits with 2 where it is `required`. A service
# that comes with a package is turned off.
install_packages() {
    local level=$1 purpose=$2
    shift 2
    local command=(apt-get install -y --no-install-recommends "$@")
    [ $# -gt 0 ] || return 0
    say "missing for $purpose: $*"
    if may_install; then
        if [ "$(id -u)" = 0 ]; then say "installing them: ${command[*]}"; else
            say "installing them: sudo ${command[*]}"
        fi
        local log=$target/packages.log before status=0
        mkdir -p "$target"
        before=$(boot_services)
        {
            as_root apt-get update -qq || echo "apt-get update failed"
            as_root env DEBIAN_FRONTEND=noninteractive "${command[@]}" -qq
        } >"$log" 2>&1 </dev/null || status=1
        quiet_services "$before"
        [ "$status" != 0 ] || return 0
        say "the installation failed; the end of $log:"
        tail -n 10 "$log" >&2
    elif have apt-get; then
        say "no right to install packages here; type: sudo ${command[*]}"
    else
        say "no apt-get here; install these packages of Debian by your system's own means"
    fi
    if [ "$level" = required ]; then exit 2; fi
    say "going on without $purpose"
    return 1
}

# Without these nothing is built: the linker; clang for the programs of crates/probe that run in the
# kernel, and the libraries that load them; npm for the report's charts (unless the variable that
# crates/report reads says where their scripts already are).
need_build_packages() {
    local packages=()
    compiles_c || packages+=(gcc libc6-dev)
    have pkg-config || packages+=(pkg-config)
    have make || packages+=(make)
    have "${CLANG:-clang}" || packages+=(clang)
    have_header libelf.h || packages+=(libelf-dev)
    have_header zlib.h || packages+=(zlib1g-dev)
    if [ -z "${NICLAB_REPORT_SCRIPTS:-}" ]; then
        have node || packages+=(nodejs)
        have npm || packages+=(npm ca-certificates)
    fi
    install_packages required "the build" "${packages[@]}"
}

# Debian's libdpdk-dev brings the drivers net_null, net_ring and net_pcap with it.
want_dpdk() { have_dpdk || install_packages optional "the DPDK device" libdpdk-dev; }

# DPDK's own programs, which run on the driver net_niclab: testpmd and test-flow-perf. The package
# brings a service, which install_packages turns off.
want_dpdk_programs() {
    have dpdk-testpmd || install_packages optional "DPDK's programs on the driver net_niclab" dpdk
}

# download PACKAGE...: puts packages of Debian into the working directory, for which nobody need be
# root once apt knows them.
download() {
    apt-get download -qq "$@" ||
        { may_install && as_root apt-get update -qq && apt-get download -qq "$@"; }
}

# undo_unpacking DIRECTORY LOG: says why packages could not be unpacked, and removes what was.
undo_unpacking() {
    say "that failed; the end of $2:"
    tail -n 5 "$2" >&2
    rm -rf "$1"
}

# unpack_servers PACKAGE...: unpacks servers into a directory of their own, where niclab finds them.
# They are not installed: their packages start a service, now and at every boot. Libraries that they
# lack are installed.
unpack_servers() {
    local part=$servers.part log=$target/servers.log libraries=() linked
    [ $# -gt 0 ] || return 0
    say "missing for some experiments or tests: $*"
    if ! have apt-get || ! have dpkg-deb; then
        say "no apt-get here; install them by your system's own means"
        return 1
    fi
    say "unpacking them into $servers; they are not installed, and no service starts"
    rm -rf "$part"
    mkdir -p "$part/packages"
    if ! (
        cd "$part/packages"
        download "$@" || exit 1
        for package in *.deb; do dpkg-deb -x "$package" .. || exit 1; done
    ) >"$log" 2>&1 </dev/null; then
        undo_unpacking "$part" "$log"
        return 1
    fi
    # ldd fails where one of the files is a script.
    linked=$(ldd "$part"/usr/bin/* "$part"/usr/sbin/* 2>/dev/null || true)
    if [[ $linked == *'not found'* ]]; then
        mapfile -t libraries < <(for package in "$part"/packages/*.deb; do
            dpkg-deb -f "$package" Depends
        done | tr ',' '\n' | sed -n 's/^ *\(lib[^ |]*\).*/\1/p' | sort -u)
        if ! install_packages optional "servers of applications" "${libraries[@]}"; then
            rm -rf "$part"
            return 1
        fi
    fi
    rm -rf "$part/packages"
    mkdir -p "$servers"
    cp -a "$part/." "$servers"
    rm -rf "$part"
}

# What the experiments on applications ask, and what puts features into a path: real servers, and the
# kernel's own tools. What is missing there is "not supported" here.
want_applications() {
    local packages=() unpacked=()
    have_daemon memcached || unpacked+=(memcached)
    # Debian's redis-server is a link to a program of redis-tools.
    have_daemon redis-server || unpacked+=(redis-server redis-tools)
    unpack_servers "${unpacked[@]}" || say "going on without ${unpacked[*]}"
    have_daemon tc || packages+=(iproute2)
    have_daemon nft || packages+=(nftables)
    have_daemon ethtool || packages+=(ethtool)
    install_packages optional "some experiments on applications and features" "${packages[@]}" ||
        return 1
    want_function
}

# A program, in a directory of the administrator's, too.
have_daemon() { PATH=$PATH:/usr/sbin:/sbin have "$1"; }

# python_place NAME PURPOSE [OPTION...]: installs scripts/NAME.txt into $target/NAME, a Python
# environment of its own. Nothing of the system's Python is changed. Every file that pip fetches is a
# wheel pinned by hash, so that nothing of it runs while it is installed. OPTIONs are pip's.
python_place() {
    local name=$1 purpose=$2 place=$target/$1 pins=scripts/$1.txt log=$target/$1.log
    shift 2
    # The pins are copied last. A place without them is half made, one with others is out of date.
    if cmp -s "$pins" "$place/$name.txt" && "$place/bin/python" -c '' 2>/dev/null; then return 0; fi
    if ! { have python3 && python3 -c 'import ensurepip, venv' 2>/dev/null; }; then
        install_packages optional "$purpose" python3 python3-venv || return 1
    fi
    say "installing $pins into $place"
    mkdir -p "$target"
    rm -rf "$place"
    if python3 -m venv "$place" &&
        "$place/bin/pip" install --quiet --disable-pip-version-check --require-hashes \
            --only-binary :all: "$@" --requirement "$pins" &&
        cp "$pins" "$place/$name.txt"; then
        return 0
    fi >"$log" 2>&1
    say "that failed; perhaps $pins has no wheel for this Python; the end of $log:"
    tail -n 5 "$log" >&2
    say "going on without $purpose"
    rm -rf "$place"
    return 1
}

# The server of the experiment `function`.
want_function() { have functions-framework || python_place function "the experiment function"; }

# Who talks through the card and with `niclab kvs` in a test: the programs that everybody tries
# first.
want_talkers() {
    local packages=()
    have ping || packages+=(iputils-ping)
    have iperf3 || packages+=(iperf3)
    have curl || packages+=(curl)
    have python3 || packages+=(python3)
    # memcached's own test programs, as clients of `niclab kvs`.
    have memccapable || packages+=(libmemcached-tools)
    install_packages optional "tests with programs that everybody tries first" "${packages[@]}"
}

# A server of ssh for tests of devices on other hosts, which start it on loopback.
want_sshd() {
    have_daemon sshd || [ -x "$servers/usr/sbin/sshd" ] || unpack_servers openssh-server || return 1
    have ssh || install_packages optional "devices of other hosts" openssh-client
}

# Suricata, for tests of the partition of its rules. It is not installed, because its package starts a
# service; its libraries are. Debian 12 has it in its backports alone.
want_suricata() {
    local part=$target/suricata.part log=$target/suricata.log libraries
    ! have suricata && [ ! -d "$target/suricata" ] || return 0
    have apt-get && have dpkg-deb || return 1
    say "unpacking Suricata into $target/suricata for tests of its rules; it is not installed"
    rm -rf "$part" && mkdir -p "$part/packages"
    if ! (
        [ -n "$(apt-cache madison suricata)" ] || ask_debian bookworm-backports || exit 1
        cd "$part/packages" || exit 1
        download suricata libhtp2 || exit 1
        for package in *.deb; do dpkg-deb -x "$package" .. || exit 1; done
    ) >"$log" 2>&1 </dev/null; then
        undo_unpacking "$part" "$log"
        return 1
    fi
    mapfile -t libraries < <(dpkg-deb -f "$part"/packages/suricata_*.deb Depends | tr ',' '\n' |
        sed -n 's/^ *\(lib[^ |]*\).*/\1/p' | grep -vx libhtp2 | sort -u)
    if ! install_packages optional "tests with Suricata" "${libraries[@]}"; then
        rm -rf "$part"
        return 1
    fi
    rm -rf "$part/packages"
    mv "$part" "$target/suricata"
}

have_libhs() { have pkg-config && pkg-config --exists libhs; }

# The library libhs, by which the engine of niclab-ids can search patterns: Vectorscan. It excludes
# Hyperscan, an older form of it, which Suricata's libraries may have brought.
want_vectorscan() {
    local package=libvectorscan-dev
    ! have_libhs || return 0
    have apt-get || return 1
    [ -z "$(dpkg-query -W -f '${Version}' libhyperscan5 2>/dev/null)" ] || package=libhyperscan-dev
    install_packages optional "tests of the engine of rules with Vectorscan" "$package" pkg-config
    have_libhs
}

# ReFrame, which runs niclab on many hosts. Its pins lack a large package that it can do without.
want_reframe() { python_place reframe "tests with ReFrame" --no-deps; }

# The daemons of Slurm for scripts/slurm-cluster. They are not installed: no scheduler starts here.
want_slurm() {
    local packages=()
    have_daemon munged || [ -x "$servers/usr/sbin/munged" ] ||
        packages+=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge)
    unpack_servers "${packages[@]}" || say "going on without tests with Slurm"
}

# Files of a kernel's packages that scripts/guest needs: the kernel, and modules that network tests or
# the files of the host need. Debian 13 has the modules below usr/, and some modules in its kernel.
guest_files='^\./(boot/vmlinu|(usr/)?lib/modules/[^/]+/(vmlinu|modules\.|kernel/('
guest_files+='(arch|crypto|lib|net|drivers/virtio|drivers/net/(vxlan|wireguard))/'
guest_files+='|fs/(9p|fscache|netfs|overlayfs)/'
guest_files+='|drivers/(net/ethernet/intel/igb|dca|pps|ptp|i2c/algos)/'
guest_files+='|drivers/(net/[^/]+|char/virtio_console)\.ko)))'

# unpack_guest PACKAGE...: downloads Debian's kernel and a static busybox into $target/guest, for
# scripts/guest. They are not installed: an installed kernel would be the next that this host boots.
unpack_guest() {
    local part=$target/guest.part log=$target/guest.log package release image
    say "unpacking $* into $target/guest for tests in a virtual machine; they are not installed"
    rm -rf "$part"
    mkdir -p "$part/packages"
    if ! (
        cd "$part/packages" || exit 1
        download "$@" || exit 1
        dpkg-deb -x busybox-static_*.deb .. || exit 1
        for package in linux-*.deb; do
            dpkg-deb --fsys-tarfile "$package" >tar && tar -tf tar >files || exit 1
            # Of a package that has none of the files, grep finds none.
            grep -E "$guest_files" files >wanted || true
            tar -xf tar -C .. --no-recursion --files-from wanted || exit 1
        done
        cd .. || exit 1
        [ ! -d usr/lib/modules ] || { mkdir -p lib && mv usr/lib/modules lib/ || exit 1; }
        # The guest's own modprobe and depmod read no compressed modules.
        find lib/modules -name '*.ko.xz' -exec xz --decompress {} + || exit 1
        release=$(basename lib/modules/*)
        image=boot/vmlinuz-$release
        # After Debian 13 it lies beside the modules.
        [ -e "$image" ] || image=lib/modules/$release/vmlinuz
        unpack_kernel "$image" kernel || exit 1
        cp "$(find . -name busybox -type f -perm -100)" busybox &&
            ./busybox depmod -b . "$release" || exit 1
        printf '%s\n' packages/*.deb | sed 's,.*/,,' >packages.txt
        rm -rf "$image" boot packages usr bin
    ) >"$log" 2>&1 </dev/null; then
        undo_unpacking "$part" "$log"
        return 1
    fi
    rm -rf "$target/guest"
    mv "$part" "$target/guest"
}

# unpack_kernel FILE INTO: a kernel for PCs is compressed, and QEMU takes what is inside, too. An
# emulated CPU would need four seconds to unpack xz. It unpacks zstd, which Debian 13 uses, in one.
unpack_kernel() {
    local at
    at=$(LC_ALL=C grep -abom 1 $'\xfd7zXZ' "$1" | LC_ALL=C awk -F : 'NR == 1 { print $1 }')
    if [ -z "$at" ]; then
        cp "$1" "$2"
        return
    fi
    # Behind the stream is what unpacks it, of which xz complains.
    tail -c "+$((at + 1))" "$1" | xz --decompress --single-stream --stdout >"$2" || [ -s "$2" ]
}

# ask_debian [SUITE]: has apt know the packages of a suite of Debian alone, until this shell ends. The
# lists are in a directory of their own, and the keys are those of the system.
ask_debian() {
    local place suite=${1-bookworm} keys=/usr/share/keyrings/debian-archive-keyring.gpg
    place=$(realpath -m "$target/debian/$suite")
    mkdir -p "$place"/lists/partial "$place"/cache/archives/partial
    : >"$place/status"
    printf 'deb [signed-by=%s] http://deb.debian.org/debian %s main\n' "$keys" "$suite" \
        >"$place/sources"
    cat >"$place/apt.conf" <<END
Dir::Etc::SourceList "$place/sources";
Dir::Etc::SourceParts "-";
Dir::State::Lists "$place/lists";
Dir::State::Status "$place/status";
Dir::Cache "$place/cache";
APT::Sandbox::User "root";
END
    export APT_CONFIG=$place/apt.conf
    apt-get update -qq
}

# depends PACKAGE KIND: names of the packages linux-KIND-VERSION that a package depends on.
depends() { apt-cache depends "$1" | sed -nE "s/^ *Depends: (linux-$2-[0-9].*)/\1/p"; }

# The virtual machine of scripts/guest: QEMU and Debian's kernel; DPDK's programs for tests in it.
want_guest() {
    local purpose="tests in a virtual machine" packages=() emulator kernel
    case $(uname -m) in
        x86_64) emulator=qemu-system-x86 kernel=linux-image-amd64 ;;
        aarch64) emulator=qemu-system-arm kernel=linux-image-arm64 ;;
        *) return 0 ;;
    esac
    have "qemu-system-$(uname -m)" || packages+=("$emulator")
    have cpio || packages+=(cpio)
    have xz || packages+=(xz-utils)
    have dpdk-test-flow-perf || packages+=(dpdk dpdk-dev)
    on_debian || [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] ||
        packages+=(debian-archive-keyring)
    install_packages optional "$purpose" "${packages[@]}" || return 1
    # One that an older version unpacked may lack modules.
    [ -z "$(find "$target/guest" -name igb.ko 2>/dev/null)" ] || return 0
    if ! have apt-cache || ! have dpkg-deb; then
        say "no apt-get here; going on without $purpose"
        return 1
    fi
    (
        on_debian || ask_debian || exit 1
        # The package without a version in its name stands for the newest that apt offers.
        kernel=$(depends "$kernel" image)
        [ -n "$kernel" ] || exit 1
        # After Debian 13 the kernel and its modules have packages of their own.
        mapfile -t packages < <(depends "$kernel" '(base|binary|modules)')
        unpack_guest "$kernel" "${packages[@]}" busybox-static
    ) || {
        say "apt brings no kernel of Debian; going on without $purpose"
        return 1
    }
}

# A QEMU with cards that stamp frames (8.1 or newer), where the system has an older one: that of
# Debian's backports, unpacked beside it.
want_guest_cards() {
    local emulator part=$target/guest-qemu.part log=$target/guest-qemu.log
    emulator=qemu-system-$(uname -m)
    have "$emulator" || return 1
    [ -z "$("$emulator" -device igb,help 2>/dev/null)" ] || return 0
    [ ! -d "$target/guest-qemu" ] || return 0
    [ "$(uname -m)" = x86_64 ] && have apt-get && have dpkg-deb || return 1
    say "unpacking a newer QEMU into $target/guest-qemu for tests of time stamps; it is not installed"
    rm -rf "$part" && mkdir -p "$part/packages"
    if ! (
        ask_debian bookworm-backports || exit 1
        cd "$part/packages" || exit 1
        download qemu-system-x86 qemu-system-common qemu-system-data || exit 1
        for package in *.deb; do dpkg-deb -x "$package" .. || exit 1; done
    ) >"$log" 2>&1 </dev/null; then
        undo_unpacking "$part" "$log"
        return 1
    fi
    rm -rf "$part/packages"
    mv "$part" "$target/guest-qemu"
}

# HdrHistogram's own tools, which read latency.hlog in a test: its Python port, and its C library
# where the system has it.
want_histogram_tools() {
    local purpose="tests with HdrHistogram's own tools" status=0
    if ! have_header hdr/hdr_histogram_log.h && have apt-cache &&
        apt-cache show libhdr-histogram-dev >/dev/null 2>&1; then
        install_packages optional "$purpose" libhdr-histogram-dev || status=1
    fi
    # It names a package that only its build needs.
    python_place hdrhistogram "$purpose" --no-deps || status=1
    return "$status"
}

# What reads results of many hosts in tests: DuckDB, and promtool, which Debian has in the package of
# the server.
want_fleet_tools() {
    local status=0
    python_place duckdb "tests with DuckDB" --no-deps || status=1
    if ! have promtool && ! [ -x "$servers/usr/bin/promtool" ] && on_debian; then
        unpack_servers prometheus || status=1
    fi
    return "$status"
}

have_jdk() { [ "$(javac -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p')" -ge 17 ] 2>/dev/null; }

# Apache Storm, the peer of the analytics: a JDK, Maven, and Storm itself from Maven Central.
want_storm() {
    local packages=()
    have_jdk || packages+=(default-jdk-headless)
    have mvn || packages+=(maven)
    install_packages optional "Apache Storm" "${packages[@]}" || return 1
    if ! have_jdk; then
        say "Java 17 or newer is needed for Apache Storm, and javac is older; going on without"
        return 1
    fi
    benches/peers/storm/build OUT="$target/peers" || {
        say "going on without Apache Storm"
        return 1
    }
}

# On Ubuntu the package is a snap, which containers and CI machines cannot run.
want_chromium() {
    if have_chromium || ! on_debian; then return 0; fi
    install_packages optional "the tests of the report in a browser" chromium
}

# Members of the workspace that can be built here, as arguments of cargo: without libdpdk all but the
# program that links it, which is the device process for DPDK and lies beside niclab.
members() {
    printf -- '--workspace'
    have_dpdk || printf ' --exclude niclab-dpdk'
}

# cargo-deb makes the Debian package. No registry has a current binary; without optimisation it builds
# in a minute or two.
have_cargo_deb() {
    cargo deb --version >/dev/null 2>&1 ||
        CARGO_TARGET_DIR=$target/cargo-deb \
            cargo install --quiet --locked --debug cargo-deb --version 3.8.0
}
