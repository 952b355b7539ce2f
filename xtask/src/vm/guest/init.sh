#!/bin/bash
# First process of the guest: mounts control groups v2 only, then runs the commands on the second disk.
export PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs run /run
mount -t cgroup2 -o nsdelegate none /sys/fs/cgroup
for module in tun tcp_diag inet_diag; do modprobe "$module"; done
ip link set lo up
dmesg -n 1
echo "GUEST up $(cut -d' ' -f1 /proc/uptime) s, kernel $(uname -r), controllers $(cat /sys/fs/cgroup/cgroup.controllers)"
cd /job || exit 1
dd if=/dev/vdb bs=64k 2>/dev/null | tr -d '\000' >/job/checks.sh
bash /job/checks.sh
echo "GUEST done $(cut -d' ' -f1 /proc/uptime) s"
sync
echo o >/proc/sysrq-trigger
sleep 20
