# takes: as fork_storm, with the processes that a command may have, and programs that are started
# tool: exec_command
begun=$(date +%s); limit=$((${SIEGE_SECONDS%.*} - 1))
for number in $(seq 100); do
    while [ $(($(date +%s) - begun)) -lt "$limit" ]; do /bin/true; /bin/true & wait; done &
done
sleep "$limit"
echo done
