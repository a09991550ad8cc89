"""Writes a lock of npm packages, inside a sandbox: what Deno has resolved, and when each package was uploaded.

    write_npm_lock.py DENO_LOCK CACHE LOCK

``CACHE`` is Deno's, with the registry's answer about each package; times are left out if the registry does not tell
them. The host trusts none of this, and checks everything again.
"""

import glob
import json
import os
import re
import sys

NAME = re.compile(r"(@[^/@]+/)?[^/@]+")
"""A package's name, at the start of its key in ``deno.lock``: ``NAME@VERSION_PEERS``."""


def read_times(cache, name):
    """When each version was uploaded, as the registry of this package says."""
    found = glob.glob(os.path.join(glob.escape(cache), "npm", "*", name, "registry.json"))
    if len(found) != 1:
        return {}
    with open(found[0], encoding="utf-8") as file:
        return json.load(file).get("time") or {}


def main():
    """See the module."""
    deno_lock, cache, place = sys.argv[1:]
    with open(deno_lock, encoding="utf-8") as file:
        lock = json.load(file)
    uploaded, times = {}, {}
    for one in lock.get("npm", {}):
        name = NAME.match(one)[0]
        version = one[len(name) + 1 :].partition("_")[0]
        if name not in times:
            times[name] = read_times(cache, name)
        if version in times[name]:
            uploaded[f"{name}@{version}"] = times[name][version]
    with open(place, "x", encoding="utf-8") as file:
        json.dump({"lock": lock, "uploaded": uploaded}, file, indent=1, sort_keys=True)


if __name__ == "__main__":
    main()
