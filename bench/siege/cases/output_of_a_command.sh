# takes: the server: output that nobody reads, as fast as it can be written
# tool: exec_command
timeout "$SIEGE_SECONDS" yes 0123456789abcdef & timeout "$SIEGE_SECONDS" yes >&2 & timeout "$SIEGE_SECONDS" yes ''
wait
echo done
