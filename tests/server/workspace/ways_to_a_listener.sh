cat > n.py <<'END'
import socket, sys
socket.create_connection((sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1", PORT), 1)
print("GOT python")
END
sed -i s/PORT/$PORT/ n.py
got() { echo "GOT $1"; }
python3 n.py
python3 < n.py
cat n.py | python3 -
/usr/bin/python3.11 n.py
python3 -Ic "$(cat n.py)"
bash -c "$(printf '\145xec 3<>/dev/tcp/127.0.0.1/%s' $PORT)" && got tcp
bash -c "exec 3<>/dev/udp/127.0.0.1/$PORT; echo GOT-DATAGRAM >&3"
c''url -s -m 1 http://127.0.0.1:$PORT && got curl
wget -q -T 1 -t 1 -O- http://127.0.0.1:$PORT && got wget
openssl s_client -connect 127.0.0.1:$PORT </dev/null && got openssl
git ls-remote git://127.0.0.1:$PORT/x && got git
git ls-remote http://127.0.0.1:$PORT/x && got git
busybox nc 127.0.0.1 $PORT </dev/null && got busybox
node --print "require('net').connect($PORT, '127.0.0.1', () => console.log('GOT node'))"
perl -MIO::Socket::INET -E "say 'GOT perl' if IO::Socket::INET->new('127.0.0.1:$PORT')"
SHELL=/usr/bin/python3 timeout 2 env python3 n.py
find . -maxdepth 1 -name n.py -exec python3 {} \;
for host in localhost ::1 $HOST 0.0.0.0 169.254.169.254 10.0.2.2 172.17.0.1; do timeout 2 python3 n.py $host; done
