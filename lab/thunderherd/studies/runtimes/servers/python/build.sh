#!/bin/sh
# Makes a virtual environment with the locked packages: build.sh FOLDER.
set -e
python3 -m venv "$1/venv"
"$1/venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
