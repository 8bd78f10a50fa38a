#!/bin/sh
# The first process of the sandbox (podman.py). It covers the folders that Podman always uses with
# copies in memory, so that nothing of the system's own Podman is changed.
# $1 is an empty folder for those copies.
set -eu
mount -t tmpfs tmpfs "$1"
for folder in run var/lib; do
    mkdir -p "$1/$folder/changes" "$1/$folder/work"
    mount -t overlay -o "lowerdir=/$folder,upperdir=$1/$folder/changes,workdir=$1/$folder/work" \
        overlay "/$folder"
done
mount -t tmpfs tmpfs /dev/shm
# crun refuses to start on a system that mounts cgroup versions 1 and 2 side by side.
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up
echo ready
# Reaps orphaned processes.
exec catatonit -P
