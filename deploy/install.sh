#!/bin/sh
# Installs Checkvisor as two systemd services, or brings an installation up to date. Run as root from a checkout or an
# unpacked sdist; running it twice changes nothing.
#
#     deploy/install.sh [--wheel FILE] [--no-start]    install or upgrade
#     deploy/install.sh --rollback                     back to the release before
#     deploy/install.sh --uninstall [--purge]          remove; --purge takes configuration, database and users too
#
# What goes where:
#     /opt/checkvisor/releases/VERSION-SUM   one environment a release; `current` and `previous` point to two of them
#     /usr/local/bin/checkvisor              the command, which sees the service's configuration, secrets and database
#     /usr/local/lib/systemd/system          both units; your own changes belong in `systemctl edit`
#     /etc/checkvisor                        config.yaml (made once, never overwritten), checkvisor.env
#     /var/lib/checkvisor                    the database
set -eu

opt=/opt/checkvisor
units=/usr/local/lib/systemd/system
lib=/usr/local/lib
link=/usr/local/bin/checkvisor
services="checkvisor.service checkvisor-web.service"

say() { echo "install: $*"; }
fail() { echo "install: $*" >&2; exit 1; }
usage() { sed -n 's/^# \{0,1\}//; 2,8p' "$0"; exit "$1"; }

wheel=
start=yes
action=install
purge=
while [ $# -gt 0 ]; do
    case $1 in
        --wheel) [ $# -ge 2 ] || usage 2 >&2; wheel=$(cd "$(dirname "$2")" && pwd)/$(basename "$2"); shift ;;
        --no-start) start= ;;
        --rollback) action=rollback ;;
        --uninstall) action=uninstall ;;
        --purge) purge=yes ;;
        -h | --help) usage 0 ;;
        *) usage 2 >&2 ;;
    esac
    shift
done
[ "$(id -u)" = 0 ] || fail "this needs root: sudo deploy/install.sh"
[ -z "$purge" ] || [ "$action" = uninstall ] || fail "--purge goes with --uninstall"
# Only what belongs to the system: a Python below somebody's home directory is closed to the service's user.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
# Services read what is installed here, whatever root's own umask is.
umask 022
cd "$(dirname "$0")/.."
booted=
[ -d /run/systemd/system ] && booted=yes

release_id() {
    version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' supervisor/__init__.py)
    sum=$({
        if [ -n "$wheel" ]; then cat "$wheel"; else find supervisor webui -type f ! -name '*.pyc' | LC_ALL=C sort | xargs cat; fi
        cat deploy/* docs/*.md setup.cfg pyproject.toml
    } 2> /dev/null | cksum | cut -d ' ' -f 1)
    echo "$version-$sum"
}

make_release() {
    release=$opt/releases/$(release_id)
    [ ! -f "$release/.complete" ] || return 0
    say "making $release"
    rm -rf "$release"
    mkdir -p "$opt/releases"
    # compiled below, on all cores; the service's user may not write there
    PIP_NO_COMPILE=1 VENV=$release WHEEL=$wheel sh deploy/mkvenv.sh service
    mkdir -p "$release/share/doc/checkvisor" "$release/share/checkvisor"
    cp docs/*.md "$release/share/doc/checkvisor/"
    cp deploy/*.service deploy/*.conf deploy/*.sh deploy/alerts.yml "$release/share/checkvisor/"
    "$release/bin/python" -m compileall -q -j 0 "$release/lib" > /dev/null || true
    # both services must import whole, before anything is switched
    { "$release/bin/checkvisor" version && (cd / && "$release/bin/python" -c 'import supervisor.run, webui; webui.create_app()'); } > /dev/null ||
        fail "$release does not run (see above); nothing was changed"
    touch "$release/.complete"
}

users_and_places() {
    from=$1
    install -D -m 644 "$from/checkvisor.sysusers.conf" $lib/sysusers.d/checkvisor.conf
    install -D -m 644 "$from/checkvisor.tmpfiles.conf" $lib/tmpfiles.d/checkvisor.conf
    systemd-sysusers $lib/sysusers.d/checkvisor.conf
    systemd-tmpfiles --create $lib/tmpfiles.d/checkvisor.conf
    runuser -u checkvisor -- "$2/bin/checkvisor" version > /dev/null ||
        fail "the user checkvisor can't run $2/bin/checkvisor: are $opt and the Python behind it readable for all?"
}

sample() {
    [ ! -e /etc/checkvisor/config.yaml ] || return 0
    # StateDirectory= is the default place of the database; the sample's own line would put it beside the file
    sed '/^  dataDir:/d' config.yaml > /etc/checkvisor/config.yaml.new
    chown root:checkvisor /etc/checkvisor/config.yaml.new
    chmod 0640 /etc/checkvisor/config.yaml.new
    mv /etc/checkvisor/config.yaml.new /etc/checkvisor/config.yaml
    say "/etc/checkvisor/config.yaml is a working sample"
}

# A release that does not accept the configuration is not switched to.
validate() {
    [ -n "$booted" ] || return 0
    systemd-run --quiet --collect --wait --pipe -p User=checkvisor -p EnvironmentFile=-/etc/checkvisor/checkvisor.env \
        -p StateDirectory=checkvisor -p StateDirectoryMode=0750 \
        "$1/bin/checkvisor" validate /etc/checkvisor/config.yaml > /run/checkvisor-validate.log 2>&1 || {
        cat /run/checkvisor-validate.log >&2
        rm -f /run/checkvisor-validate.log
        fail "the configuration does not load (see above); nothing was changed"
    }
    rm -f /run/checkvisor-validate.log
}

points() { readlink "$opt/$1" 2> /dev/null || true; }

point() { # point NAME RELEASE, in one step
    ln -sfn "$2" "$opt/$1.new"
    mv -T "$opt/$1.new" "$opt/$1"
}

activate() {
    release=$1
    changed=
    if [ "$(points current)" != "$release" ]; then
        [ -z "$(points current)" ] || point previous "$(points current)"
        point current "$release"
        changed=yes
    fi
    for unit in $services; do
        cmp -s "$release/share/checkvisor/$unit" "$units/$unit" && continue
        install -D -m 644 "$release/share/checkvisor/$unit" "$units/$unit"
        changed=yes
    done
    cmp -s "$release/share/checkvisor/command.sh" $link || install -D -m 755 "$release/share/checkvisor/command.sh" $link
    [ -n "$booted" ] || { say "systemd is not running here: the services start with the next boot"; systemctl enable $services 2> /dev/null || true; return 0; }
    systemctl daemon-reload
    systemctl enable --quiet $services
    [ -n "$start" ] || return 0
    if [ -n "$changed" ]; then
        systemctl restart $services || trouble
    else
        systemctl start $services || trouble
    fi
    say "$release runs; the page is on http://127.0.0.1:8080/ if checkvisor-web.service was not told otherwise"
}

trouble() {
    journalctl -u checkvisor -u checkvisor-web -n 30 --no-pager -o cat >&2 || true
    fail "a service did not start (see above). Back to the release before: deploy/install.sh --rollback"
}

# Only the two that are in use stay.
tidy() {
    for release in "$opt"/releases/*; do
        case $release in "$(points current)" | "$(points previous)") ;; *) rm -rf "$release" ;; esac
    done
}

uninstall() {
    [ -z "$booted" ] || systemctl disable --quiet --now $services 2> /dev/null || true
    for unit in $services; do rm -f "$units/$unit" "/etc/systemd/system/multi-user.target.wants/$unit"; done
    rm -rf $opt $lib/sysusers.d/checkvisor.conf $lib/tmpfiles.d/checkvisor.conf
    rm -f $link
    [ -z "$booted" ] || { systemctl daemon-reload; systemctl reset-failed $services 2> /dev/null || true; }
    rm -rf /run/checkvisor
    if [ -n "$purge" ]; then
        rm -rf /etc/checkvisor /var/lib/checkvisor /etc/systemd/system/checkvisor.service.d /etc/systemd/system/checkvisor-web.service.d
        for name in checkvisor-web checkvisor; do
            if getent passwd $name > /dev/null; then userdel $name; fi
            if getent group $name > /dev/null; then groupdel $name; fi
        done
        say "removed, with configuration, database and users"
    else
        say "removed; /etc/checkvisor, /var/lib/checkvisor and the users stay (--purge takes them too)"
    fi
}

case $action in
    install)
        make_release
        users_and_places deploy "$release"
        sample
        validate "$release"
        activate "$release"
        tidy
        ;;
    rollback)
        release=$(points previous)
        [ -n "$release" ] && [ -f "$release/.complete" ] || fail "there is no release before this one"
        validate "$release"
        activate "$release"
        ;;
    uninstall) uninstall ;;
esac
