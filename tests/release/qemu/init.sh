#!/bin/busybox sh
# The only program of the guest: polls its events, approves a reboot, and shuts down on request.
/bin/busybox --install -s /bin
export PATH=/bin
mkdir -p /proc /sys
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
# Twice: in some kernels virtio needs virtio_ring, in others virtio_ring needs virtio.
for pass in 1 2; do
    for module in /modules/*; do insmod "$module" 2>/dev/null; done
done
ip link set lo up
ip addr add 169.254.169.15/24 dev eth0
ip link set eth0 up

report() { echo "guest: [$(cut -d. -f1 /proc/uptime) s] $*"; }

report "booted, boot id $(cat /proc/sys/kernel/random/boot_id)"

# A guest agent with the two commands that libvirt needs: sync and shutdown.
run_agent() {
    while :; do
        read -r command || { sleep 0.1; continue; } # libvirt connects some time after the guest
        case $command in
            *guest-sync*) echo "$command" | sed 's/.*"id": *\([0-9]*\).*/{"return":\1}/' >&3 ;;
            *guest-shutdown*)
                report "shutting down on request"
                poweroff -f
                ;;
        esac
    done
}
# The name of a port comes from the host, some time after its driver.
until port=$(grep -ls org.qemu.guest_agent.0 /sys/class/virtio-ports/*/name); do sleep 0.1; done
port=/dev/$(basename "$(dirname "$port")")
until [ -c "$port" ]; do sleep 0.1; done # to open it before would make a file of this name
grep -q no_agent /proc/cmdline || run_agent 0<> "$port" 3>&0 &

url="http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01"
request() { timeout 20 wget -q -O - --header Metadata:true "$@" "$url" 2> /dev/null; }

last=
ticks=0
while :; do
    seen=$(request) || seen="no answer"
    [ "$seen" = "$last" ] || report "sees $seen"
    last=$seen
    case $seen in
        *'"EventStatus":"Scheduled","EventType":"Reboot"'*)
            id=$(echo "$seen" | sed 's/.*"EventId":"\([^"]*\)".*/\1/')
            request --post-data "{\"StartRequests\":[{\"EventId\":\"$id\"}]}" && report "approved $id"
            ;;
    esac
    ticks=$((ticks + 1))
    ! grep -q ticks /proc/cmdline || report "tick $ticks"
    sleep 1
done
