# expect: value "blocked"
# proves: E9
# tries: find a socket of the host or the fork server in the shell, its children or the init
sockets=$(ls -l /proc/self/fd /proc/$$/fd /proc/$PPID/fd 2>/dev/null | grep -c "socket:\|memfd:.*control\|anon_inode")
printf '%s' "$([ "$sockets" = 0 ] && echo blocked || echo "ESCAPED($sockets sockets)")" | python3 -I -c 'import json, sys; print(json.dumps(sys.stdin.read()))'
