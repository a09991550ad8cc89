# expect: value "blocked"
# proves: T2, N1, E9
# tries: reach the host by bash's /dev/tcp and /dev/udp, by python, perl and openssl: no list of command names would do
fail() { wrong="$wrong $1"; }
refused() { # NAME PATTERN COMMAND…
  name=$1 pattern=$2
  shift 2
  if out=$("$@" 2>&1 </dev/null); then fail "ESCAPED($name:$out)"; return; fi
  printf '%s' "$out" | grep -Eqi "$pattern" || fail "$name($out)"
}
for address in 127.0.0.1/@tcp@ @gateway@/80 169.254.169.254/80 1.1.1.1/53 example.com/80; do
  refused "tcp:$address" "refused|unreachable|not known|resolution|denied|Invalid|Network" timeout 5 bash -c "exec 3<>/dev/tcp/$address"
done
refused udp "unreachable|Network|denied" timeout 5 bash -c "echo x >/dev/udp/1.1.1.1/@udp@"
command -v perl >/dev/null && refused perl "refused|unreachable" perl -MIO::Socket::INET -e 'IO::Socket::INET->new("127.0.0.1:@tcp@") or die "$@"'
command -v openssl >/dev/null && refused openssl "refused|errno|unreachable" openssl s_client -connect 127.0.0.1:@tcp@
command -v curl >/dev/null && refused curl "refused|connect|resolve" curl -m 3 http://127.0.0.1:@tcp@/
true
printf '%s' "${wrong:-blocked}" | python3 -I -c 'import json, sys; print(json.dumps(sys.stdin.read()))'
