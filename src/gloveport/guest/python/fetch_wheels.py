"""Fetches files for an environment, inside a sandbox whose only door is the index, and inspects the wheels among them.

    fetch_wheels.py LIST DIRECTORY MOST_BYTES MOST_FILES

``LIST`` is JSON: an array of ``{"url", "file", "sha256"}``. A file that is in ``DIRECTORY`` already is not fetched. An
entry without a digest is a page of the index, which may be missing. A wrong digest ends the run, and so does a wheel
that holds a link, a path outside of it, two names that differ by case alone, or too many bytes or files. The host
trusts none of this, and checks everything again.
"""

import concurrent.futures
import hashlib
import json
import os
import posixpath
import shutil
import stat
import sys
import urllib.error
import urllib.request
import zipfile

AT_ONCE = 8
SECONDS = 60
PAGES = "application/vnd.pypi.simple.v1+json"


def fetch_page(one, directory):
    """Fetch a page of an index, if it exists."""
    request = urllib.request.Request(one["url"], headers={"Accept": PAGES})
    try:
        answer = urllib.request.urlopen(request, timeout=SECONDS)
    except urllib.error.URLError as error:
        if getattr(error, "code", None) == 404 or one["url"].startswith("file:"):
            return
        raise
    with answer, open(os.path.join(directory, one["file"]), "xb") as file:
        shutil.copyfileobj(answer, file, 1 << 18)


def fetch(one, directory):
    """Fetch a file, if it is missing."""
    place = os.path.join(directory, one["file"])
    if not os.path.exists(place):
        with urllib.request.urlopen(one["url"], timeout=SECONDS) as answer, open(f"{place}.part", "wb") as file:
            shutil.copyfileobj(answer, file, 1 << 18)
        os.rename(f"{place}.part", place)
    with open(place, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != one["sha256"]:
        sys.exit(f"{one['file']}: its digest is {found}, the lock has {one['sha256']}")
    return place


def look(place, bounds):
    """Check the member list of a wheel; returns its bytes and files."""
    if not str(place).endswith(".whl"):
        return os.path.getsize(place), 1
    with zipfile.ZipFile(place) as archive:
        entries, folded = archive.infolist(), {}
    name = os.path.basename(place)
    total = sum(entry.file_size for entry in entries)
    if len(entries) > bounds[1] or total > bounds[0]:
        sys.exit(f"{name}: unpacks to {len(entries)} files of {total >> 20} MiB, which is too much")
    for entry in entries:
        path = entry.filename
        if stat.S_ISLNK(entry.external_attr >> 16):
            sys.exit(f"{name}: {path!a} is a link")
        if path != posixpath.normpath(path) + "/" * path.endswith("/") or path.startswith(("/", "..")) or "\\" in path:
            sys.exit(f"{name}: {path!a} does not lie in it")
        if folded.setdefault(path.casefold(), path) != path:
            sys.exit(f"{name}: {path!a} and {folded[path.casefold()]!a} differ by case alone")
    return total, len(entries)


def main():
    """See the module."""
    with open(sys.argv[1], encoding="utf-8") as file:
        wheels = json.load(file)
    directory, bounds = sys.argv[2], [int(number) for number in sys.argv[3:5]]
    for one in wheels:
        if one["sha256"] is None:
            fetch_page(one, directory)
    wheels = [one for one in wheels if one["sha256"] is not None]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        done = {pool.submit(fetch, one, directory): one for one in wheels}
        for number, one in enumerate(concurrent.futures.as_completed(done), 1):
            try:
                size, count = look(one.result(), bounds)
            except (OSError, zipfile.BadZipFile, ValueError) as error:
                sys.exit(f"{done[one]['file']}: {error}")
            bounds = [bounds[0] - size, bounds[1] - count]
            print(f"fetched {number} of {len(wheels)}", flush=True)


if __name__ == "__main__":
    main()
