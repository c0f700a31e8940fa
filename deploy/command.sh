#!/bin/sh
# /usr/local/bin/checkvisor: the command of the installed release, with the surroundings that the service has, so that
# `checkvisor check ID` sees the same secrets and `checkvisor backup` the same database. Made by install.sh.
: "${STATE_DIRECTORY:=/var/lib/checkvisor}" "${RUNTIME_DIRECTORY:=/run/checkvisor}" "${CHECKVISOR_CONFIG:=/etc/checkvisor/config.yaml}"
export STATE_DIRECTORY RUNTIME_DIRECTORY CHECKVISOR_CONFIG

# The service's secrets, for who may read them (root). NAME=value lines as in EnvironmentFile=; nothing is evaluated, and
# what is set already wins.
if [ -r /etc/checkvisor/checkvisor.env ]; then
    while IFS= read -r line || [ -n "$line" ]; do
        name=${line%%=*}
        value=${line#*=}
        case $name in '' | "$line" | [0-9]* | *[!A-Za-z0-9_]*) continue ;; esac
        case $value in
            \"*\") value=${value#\"} value=${value%\"} ;;
            \'*\') value=${value#\'} value=${value%\'} ;;
        esac
        printenv "$name" > /dev/null || export "$name=$value"
    done < /etc/checkvisor/checkvisor.env
fi
exec /opt/checkvisor/current/bin/checkvisor "$@"
