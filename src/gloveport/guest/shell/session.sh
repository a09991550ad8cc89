# Sourced by the bash of a session before its first call; see session/shell.py.

BASH_ARGV0=bash # for $0

# Prints the state of this shell as commands that restore it. The last line has the number of the call, and proves that
# the state is whole.
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

# Ends a call. Arguments: its number, status, where to report them; its number in this shell, where to save the state.
# The -e, -u, -v and -x that it set end with it, or the first failure of the next call would end this shell.
__gloveport_end() {
  builtin printf '%d %d %q\n' "$1" "$2" "$PWD" >"$3"
  builtin set +euvx
  __gloveport_save "$4" >|"$5"
}
