# What a hostile program would try first. Every line fails.
cat /etc/shadow
ls /root /home
cat /proc/1/environ
unshare --user --map-root-user id
mount -t tmpfs none /usr
echo 7 > /proc/sys/kernel/printk_ratelimit
exec 3<>/dev/tcp/192.0.2.1/80
mknod /tmp/disk b 8 0
touch /usr/bin/planted
