#!/bin/sh
# The steps of the Containerfile that are Checkvisor's own: environment, user, /data, sample configuration. Run as root in a
# plain Debian with python3-venv; `tests/systemd` does that without a container engine.
set -eu
cd "$(dirname "$0")/.."
PYTHON=/usr/bin/python3 VENV=/opt/checkvisor sh deploy/mkvenv.sh service
useradd --system --user-group --home-dir /data --no-create-home --shell /usr/sbin/nologin checkvisor
install -d -o checkvisor -g checkvisor -m 0750 /data
install -d -m 0755 /etc/checkvisor
# /data is the default place of the database here; the sample's own line would put it beside the file
sed '/^  dataDir:/d' config.yaml > /etc/checkvisor/config.yaml
chmod 0644 /etc/checkvisor/config.yaml
rm -rf /src /root/.cache
