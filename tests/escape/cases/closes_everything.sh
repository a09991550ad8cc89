# expect: value null
# proves: E2, E5
# tries: close every descriptor at once and go on
exec 0<&- 1>&- 2>&-
for n in 3 4 5 6 7 8 9 10; do eval "exec $n>&-"; done
true
