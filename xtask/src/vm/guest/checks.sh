# The checks that run in the guest. Prints a line `CHECK <place> <what> ok|FAILED <detail>` for each check.
#
# The load is small: an emulated processor is about fifty times slower. Figures are meaningless here, so exit code
# 3 (measured but invalid) counts as success, like 0.
groups=/sys/fs/cgroup

mkdir -p /job/www
for n in 1 2 3 4; do head -c "${n}000" /dev/urandom >"/job/www/$n.html"; done

report() { # PLACE WHAT RESULT DETAIL
    printf 'CHECK %s %s %s %s\n' "$1" "$2" "$3" "$4"
}

# Prints the last lines that a program wrote, joined to one line.
words() { tail -n 3 "$1" | tr '\n' ' ' | cut -c1-300; }

# check PLACE WHAT SECONDS CODES COMMAND...: runs a command, which must exit with one of the codes and must not
# report that a limit did not hold. If the host of the guest is busy, measurements are invalid and are repeated
# until the time limit: a command that is interrupted after it has measured passes too.
check() {
    local place="$1" what="$2" seconds="$3" codes="$4" code=0 from=$SECONDS
    local bad="the host's limit\|stopped receiving\|device refused"
    shift 4
    timeout -s INT -k 60 "$seconds" "$@" >/job/out 2>&1 || code=$?
    if grep -q "$bad" /job/out; then
        report "$place" "$what" FAILED "$(grep -m1 "$bad" /job/out)"
    elif [[ " $codes " == *" $code "* ]]; then
        report "$place" "$what" ok "exit code $code after $((SECONDS - from)) s"
    elif grep -q "interrupted: .* had been \(measured\|made\)" /job/out; then
        report "$place" "$what" ok "measured until it was interrupted after $((SECONDS - from)) s"
    else
        report "$place" "$what" FAILED "exit code $code: $(words /job/out)"
    fi
}

# Observes the limits from outside while a trial runs: writes each value as a line `FILE VALUE`.
watch_limits() {
    while :; do
        for file in cpu.max memory.max io.max cpuset.cpus; do
            find $groups -path "*/fathometer-*-server/$file" -exec cat {} + 2>/dev/null | sed "s/^/$file /"
        done
        find $groups -type d -name 'fathometer-*-server' | sed "s/^/group /"
        sleep 0.3
    done >/job/seen
}

seen() { # PLACE FILE PATTERN
    if grep -q "^$2 $3" /job/seen; then
        report "$1" "$2" ok "$(grep -m1 "^$2 $3" /job/seen)"
    else
        report "$1" "$2" FAILED "never $3: $(grep "^$2" /job/seen | sort | uniq -c | tr '\n' ' ')"
    fi
}

# The controllers that each group delegates to its children.
handed_down() { find $groups -name cgroup.subtree_control -exec grep -H . {} + | sort; }

# nothing_left PLACE BEFORE: checks that no group and no process is left, and that controllers are as before.
nothing_left() {
    local left now
    left="$(find $groups -name 'fathometer-*' | tr '\n' ' ')"
    for process in /proc/[0-9]*; do
        if grep -q '^host-receive$' "$process/comm" 2>/dev/null; then left+="$process "; fi
    done
    now="$(handed_down)"
    if [ -n "$left" ]; then
        report "$1" clean FAILED "left: $left"
    elif [ "$now" != "$2" ]; then
        report "$1" clean FAILED "controllers: $(diff <(echo "$2") <(echo "$now") | tr '\n' ' ')"
    else
        report "$1" clean ok "no group, no process, controllers as before"
    fi
}

doctor() { # PLACE [COMMAND...]: prints what doctor says, for the program that started the guest
    local place="$1" code=0
    shift
    "$@" fathometer doctor --json >/job/doctor 2>&1 || code=$?
    echo "DOCTOR $place $code begin"
    cat /job/doctor
    echo "DOCTOR $place end"
}

# Varies two resources of a host that has all limits, under a load of few requests: one user on a path with a long
# delay.
printf 'name = "far"\nsource = "none"\n[both]\npropagation = "200ms"\n' >/job/far.toml
bottleneck=(fathometer bottleneck --site /job/www --path /job/far.toml --cold -c 1 -d 1s --warmup 300ms --replicates 2)
limits=(--cpu 0.5 --memory 64M --workers 4)
# These limits are not available to a user: systemd does not delegate the controllers, and the kernel shows the
# backlog setting only in root's namespaces.
rooted=(--disk 200ops --cores 1 --backlog 16)
varied=(--only memory --only backlog)
if [ "$brief" = yes ]; then varied=(--only memory); fi

trials() { # PLACE LIMITS...: bottleneck with these limits, seen from outside
    local place="$1" watcher
    shift
    : >/job/seen
    watch_limits &
    watcher=$!
    check "$place" bottleneck 90 "0 3 4" "${bottleneck[@]}" "$@" "${varied[@]}"
    kill $watcher
    wait $watcher 2>/dev/null
    seen "$place" cpu.max '5000 10000'
    seen "$place" memory.max 67108864
}

# --- the root group, as in a separate container or with init=/bin/bash
before="$(handed_down)"
doctor root
trials root "${limits[@]}" "${rooted[@]}"
seen root io.max '.*riops=2'
seen root cpuset.cpus '[0-9]'
if [ "$brief" = no ]; then
    check root study 200 "0 3" fathometer study /job/study.toml --quick --quiet --output /job/run
    # At least one record of each cell; attempts that noise made invalid are recorded too.
    check root records 10 0 test "$(wc -l </job/run/replicates.ndjson)" -ge 3
    check root held 10 1 grep -o "the host's limit[^\"]*\|stopped receiving[^\"]*" /job/run/replicates.ndjson
    check root page 300 "0 3" fathometer study nielsen97 --quick --quiet --only path=lan \
        --only policy=h1.1 --only server=embedded-apache --only visit=first --era today --replicates 1 \
        --output /job/page
fi
nothing_left root "$before"

# --- a session, as systemd creates it
mkdir -p $groups/init.scope
while read -r pid; do echo "$pid" >$groups/init.scope/cgroup.procs; done <$groups/cgroup.procs 2>/dev/null
echo "+cpuset +cpu +io +memory +pids" >$groups/cgroup.subtree_control
slice=$groups/user.slice/user-0.slice
mkdir -p $slice/session-1.scope
echo "+cpu +memory +pids" >$groups/user.slice/cgroup.subtree_control
echo "+cpu +memory +pids" >$slice/cgroup.subtree_control
echo $$ >$slice/session-1.scope/cgroup.procs
before="$(handed_down)"
doctor session
trials session "${limits[@]}" "${rooted[@]}"
seen session io.max '.*riops=2'
if [ "$brief" = no ]; then
    check session unlimited 90 "0 3 4" "${bottleneck[@]}" --cpu none --backlog 16 --only backlog
fi
nothing_left session "$before"

# inside PLACE GROUP COMMAND...: doctor and trials in a group that already has processes
inside() {
    local place="$1" group="$2" watcher
    shift 2
    (
        echo $BASHPID >"$group/cgroup.procs"
        doctor "$place" "$@"
        : >/job/seen
        watch_limits &
        watcher=$!
        # The watcher must not be among the processes of the group.
        echo $watcher >$groups/init.scope/cgroup.procs
        check "$place" bottleneck 90 "0 3 4" "$@" "${bottleneck[@]}" "${limits[@]}" --only memory
        kill $watcher
        wait $watcher 2>/dev/null
        seen "$place" cpu.max '5000 10000'
        seen "$place" memory.max 67108864
    )
}

# Programs that busybox also contains are called by their full path; otherwise busybox would run its own.

# --- a user's scope with Delegate=yes
user=$groups/user.slice/user-1000.slice
service=$user/user@1000.service
scope=$service/app.slice/run-2.scope
mkdir -p $scope /job/tmp
setfattr -n user.delegate -v 1 $scope
echo "+cpu +memory +pids" >$user/cgroup.subtree_control
for group in $service $service/app.slice $scope; do
    chown 1000 $group $group/cgroup.procs $group/cgroup.subtree_control $group/cgroup.threads
done
echo "+cpu +memory +pids" >$service/cgroup.subtree_control
echo "+cpu +memory +pids" >$service/app.slice/cgroup.subtree_control
chown 1000 /job/tmp
chmod 666 /dev/net/tun
before="$(handed_down)"
inside delegated $scope env TMPDIR=/job/tmp /bin/setpriv --reuid 1000 --regid 1000 --clear-groups
# Groups above the scope are systemd's.
seen delegated group "$scope/fathometer"
nothing_left delegated "$before"

# --- a container: its root group has processes, and no group above it is visible
mkdir -p $groups/container
printf '#!/bin/bash\numount %s\nmount -t cgroup2 none %s || exit 99\nexec "$@"\n' $groups $groups >/job/contained
printf '#!/bin/bash\numount %s\nmount -t cgroup2 -o ro none %s || exit 99\nexec "$@"\n' $groups $groups >/job/contained-ro
chmod 755 /job/contained /job/contained-ro
before="$(handed_down)"
inside container $groups/container /bin/unshare --cgroup --mount /job/contained
nothing_left container "$before"
(
    echo $BASHPID >$groups/container/cgroup.procs
    /bin/unshare --cgroup --mount /job/contained-ro fathometer doctor >/job/out 2>&1
)
cp /job/out /job/doctor
check read-only advice 10 0 grep "no  cpu limit.*mounted read-only.*--privileged" /job/doctor
