# Sourced, as BASH_ENV, by a bash that was started ahead of its program: says that it is ready, and waits for a line.
# By then the program is where bash will look for it next, and finds the same state as without the wait.
printf R
read -r
exec 0</dev/null
unset BASH_ENV REPLY
SECONDS=0
: "$BASH" # for $_
