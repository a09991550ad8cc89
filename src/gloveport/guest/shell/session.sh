# Sourced by the bash of a session before its first call; see session/shell.py.

BASH_ARGV0=bash # for $0

# The state of this shell as commands that bring it back, after which call of it: only with that line it is all there.
__gloveport_save() {
  builtin printf 'builtin cd -- %q\n' "$PWD"
  builtin umask -p
  builtin shopt -p
  builtin declare -p
  builtin declare -f
  builtin declare -Fx
  builtin alias -p
  builtin trap -p
  builtin set +o
  builtin printf '%s\n' 'builtin set +euvx' "# whole $1"
}

# A call is over: its number, its status, where to say so; which of the shell it is, where to save the state. What it has
# set of -e, -u, -v and -x counts for itself alone, or the first failure of the next one would end this shell.
__gloveport_end() {
  builtin printf '%d %d %q\n' "$1" "$2" "$PWD" >"$3"
  builtin set +euvx
  __gloveport_save "$4" >|"$5"
}
