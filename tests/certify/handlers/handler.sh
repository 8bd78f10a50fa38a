#!/bin/bash
# A handler in plain bash, without curl and jq. It is correct except for the flaw that $1 names.
flaw=$1
host=169.254.169.254
events="scheduledevents?api-version=2020-07-01"
declare -A seen approved

# ask PATH [BODY]: print the body of the answer, if it is 200.
ask() {
    local answer end=$'\r\n\r\n' verb=GET
    [[ -n $2 ]] && verb=POST
    answer=$({
        printf '%s /metadata/%s HTTP/1.0\r\nHost: %s\r\nMetadata: true\r\nContent-Length: %d\r\n\r\n%s' \
            "$verb" "$1" "$host" "${#2}" "$2" >&3
        timeout 10 cat <&3
    } 3<>"/dev/tcp/$host/80" 2>/dev/null)
    [[ $answer == "HTTP/1.1 200"* ]] && printf '%s' "${answer#*"$end"}"
}

# concerns_me EVENT: whether it is scheduled for this machine alone.
concerns_me() {
    case $flaw in
    "matches part of the name") [[ $1 == *"$name"* ]] ;;
    "approves every event") true ;;
    *) [[ $1 == *"\"Resources\":[\"$name\"]"* ]] ;;
    esac && [[ $1 == *'"EventStatus":"Scheduled"'* ]]
}

handle() {
    local id
    concerns_me "$1" || return
    id=$(sed 's/.*"EventId":"\([^"]*\)".*/\1/' <<<"$1")
    [[ -n ${seen[$id]} ]] || { seen[$id]=$SECONDS && echo "preparing for $id"; }
    [[ $flaw == "never approves" || -n ${approved[$id]} ]] && return
    if ((SECONDS - seen[$id] >= 2)) && ask "$events" "{\"StartRequests\":[{\"EventId\":\"$id\"}]}"; then
        approved[$id]=yes
    fi
}

until name=$(ask "instance/compute/name?api-version=2021-02-01&format=text") && [[ -n $name ]]; do
    sleep 1
done
while true; do
    document=$(ask "$events")
    if [[ $document == *"]}" ]]; then # a whole document
        while read -r event; do
            [[ -n $event ]] && handle "$event"
        done <<<"$(sed 's/.*"Events":\[//; s/\]}$//; s/},{/}\n{/g' <<<"$document")"
    elif [[ $flaw == "gives up" ]]; then
        echo "no document" && exit 4
    fi
    sleep 1
done
