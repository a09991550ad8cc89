# takes: exec and vfork: programs started as fast as they can be
begun=$(date +%s); limit=$((${SIEGE_SECONDS%.*} - 1))
for number in $(seq 20); do
    while [ $(($(date +%s) - begun)) -lt "$limit" ]; do for _ in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done; done &
done
sleep "$limit"
echo done
