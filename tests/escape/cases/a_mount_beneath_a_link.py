# expect: refused
# proves: E9, T3
# mounts: beneath
# tries: let bubblewrap make a directory on the host through a link in a mounted directory (CVE-2026-87766)
"ESCAPED: a sandbox was built with a mount beneath another"
