#!/bin/busybox sh
# All that runs in the guest: it watches its events, approves a reboot, and shuts down when asked to.
/bin/busybox --install -s /bin
export PATH=/bin
mkdir -p /proc /sys
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
for module in /modules/*; do insmod "$module"; done
ip link set lo up
ip addr add 169.254.169.15/24 dev eth0
ip link set eth0 up

say() { echo "guest: [$(cut -d. -f1 /proc/uptime) s] $*"; }

say "booted, boot id $(cat /proc/sys/kernel/random/boot_id)"

# What libvirt asks a guest agent: are you there, and shut down.
obey() {
    while read -r order; do
        case $order in
            *guest-sync*) echo "$order" | sed 's/.*"id": *\([0-9]*\).*/{"return":\1}/' >&3 ;;
            *guest-shutdown*)
                say "asked to shut down, and does"
                poweroff -f
                ;;
        esac
    done
}
port=$(grep -l org.qemu.guest_agent.0 /sys/class/virtio-ports/*/name)
port=/dev/$(basename "$(dirname "$port")")
grep -q deaf /proc/cmdline || obey 0<> "$port" 3>&0 &

url="http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01"
ask() { timeout 20 wget -q -O - --header Metadata:true "$@" "$url" 2> /dev/null; }

last=
ticks=0
while :; do
    seen=$(ask) || seen="no answer"
    [ "$seen" = "$last" ] || say "sees $seen"
    last=$seen
    case $seen in
        *'"EventStatus":"Scheduled","EventType":"Reboot"'*)
            id=$(echo "$seen" | sed 's/.*"EventId":"\([^"]*\)".*/\1/')
            ask --post-data "{\"StartRequests\":[{\"EventId\":\"$id\"}]}" && say "approved $id"
            ;;
    esac
    ticks=$((ticks + 1))
    ! grep -q ticks /proc/cmdline || say "tick $ticks"
    sleep 1
done
