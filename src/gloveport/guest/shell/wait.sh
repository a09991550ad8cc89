# Sourced, as BASH_ENV, by a bash that was started ahead of its program: says that it waits, and does until a line comes.
# By then the program is where bash will look for it next. It finds the same as if nobody had waited.
printf R
read -r
exec 0</dev/null
unset BASH_ENV REPLY
SECONDS=0
: "$BASH" # for $_
