#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the image of the autograder. The zip file that you upload holds
# this file, run_autograder, and the course in a folder `course`. Choose a base image with Python 3.11 to 3.13.
set -eu

apt-get -qq update
apt-get -qq -y install python3-venv bubblewrap util-linux fontconfig
cd /autograder/source/course
python3 -m venv .venv
.venv/bin/pip install -q -c constraints.txt -e ".[instructor]" # .[instructor,qwen3] for the chapters with torch
