# expect: value "blocked"
# proves: E4
# limits: scratch_bytes=8MiB memory_bytes=256MiB
# tries: fill every writable place and write where it is full
for place in /tmp /dev/shm /run/gloveport; do
  head -c 40M /dev/zero > $place/fill 2>/dev/null && echo "ESCAPED: $place"
  size=$(stat -c %s $place/fill)
  rm $place/fill
  [ "$size" -gt 0 ] && [ "$size" -le 8388608 ] || echo "$place holds $size"
done
echo '"blocked"'
