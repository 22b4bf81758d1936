#!/bin/bash
# An instance of the rig: its namespaces are made before this. Arguments: the folder of its layer, its name, its private
# and its public address, a Python 3.10, the wheels, uv, what images of SkyPilot have, an environment with PyTorch, and the
# address of the cloud.
set -e
D=$1 NAME=$2 PRIVATE=$3 PUBLIC=$4 PYTHON=$5 WHEELS=$6 UV=$7 RUNTIME=$8 PYTORCH=$9 CLOUD=${10}
mount --make-rprivate /
mount -t tmpfs -o mode=755,size=6g tmpfs "$D"
mkdir "$D/upper" "$D/work" "$D/root"
cp "$D.keys" "$D/upper/.keys"
cp "${0%/*}/boot.sh" "$D/upper/.boot"
mount -t overlay overlay -o "lowerdir=/,upperdir=$D/upper,workdir=$D/work" "$D/root"
cd "$D/root"
mount --rbind /dev dev
mount -t tmpfs -o mode=1777,size=2g tmpfs dev/shm
for path in tmp run; do mount -t tmpfs -o mode=1777 tmpfs $path; done
mkdir -p opt/wheels-of-the-rig
mount --bind "$WHEELS" opt/wheels-of-the-rig
mkdir -p opt/pytorch-of-the-rig
mount --bind "$PYTORCH" opt/pytorch-of-the-rig
mount -o remount,bind,ro opt/pytorch-of-the-rig
mkdir -p home/ubuntu/skypilot-runtime "$D/runtime" "$D/runtime.work"
mount -t overlay overlay -o "lowerdir=$RUNTIME,upperdir=$D/runtime,workdir=$D/runtime.work" home/ubuntu/skypilot-runtime
chown 4242:4242 home/ubuntu home/ubuntu/skypilot-runtime
mount -t proc proc proc
mount -t sysfs sysfs sys 2> /dev/null || true
hostname "$NAME"
ip link set lo up
until ip link show eth0 > /dev/null 2>&1; do sleep 0.05; done
ip address add "$PRIVATE/16" dev eth0
ip address add "$PUBLIC/32" dev eth0
ip link set eth0 up
ip route add 54.0.0.0/8 dev eth0 src "$PRIVATE"
exec chroot . /bin/bash /.boot "$NAME" "$PRIVATE" "$PYTHON" "$UV" "$CLOUD"
