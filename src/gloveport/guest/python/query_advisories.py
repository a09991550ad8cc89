"""Queries advisories about packages, inside a sandbox whose only door is the advisory service (OSV's interface).

    query_advisories.py URL LIST RESULT

``LIST`` is JSON: an array of ``{"name", "version", "ecosystem"}``. ``RESULT`` gets an array of the same length: for
each package an array of ``{"id", "summary", "aliases"}``. The host trusts none of this, and checks it again.
"""

import concurrent.futures
import json
import sys
import urllib.error
import urllib.request

AT_ONCE = 8
SECONDS = 60
BATCH = 500
MOST_BYTES = 16 << 20
MOST_PAGES = 20


def ask(url, body=None):
    """The answer to a request; a body is posted."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", "Accept": "application/json"})
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        return json.loads(answer.read(MOST_BYTES))


def find_ids(url, packages):
    """The ids of the advisories for each package."""
    found = [[] for _ in packages]
    pending = [
        (number, {"package": {"name": one["name"], "ecosystem": one["ecosystem"]}, "version": one["version"]})
        for number, one in enumerate(packages)
    ]
    for _ in range(MOST_PAGES):
        batch, pending = pending[:BATCH], pending[BATCH:]
        if not batch:
            return found
        results = ask(f"{url}/v1/querybatch", {"queries": [query for _, query in batch]})["results"]
        if len(results) != len(batch):
            sys.exit("the service has answered other questions than those that it was asked")
        for (number, query), result in zip(batch, results, strict=True):
            found[number] += [one["id"] for one in (result or {}).get("vulns") or ()]
            if (result or {}).get("next_page_token"):
                pending.append((number, {**query, "page_token": result["next_page_token"]}))
    sys.exit("there are more advisories than can be read")


def describe(url, name):
    """What an advisory says, in short."""
    advisory = ask(f"{url}/v1/vulns/{urllib.request.quote(name, safe='')}")
    return {"id": name, "summary": advisory.get("summary") or "", "aliases": advisory.get("aliases") or []}


def main():
    """See the module."""
    url, listed, place = sys.argv[1:]
    with open(listed, encoding="utf-8") as file:
        packages = json.load(file)
    try:
        ids = find_ids(url, packages)
        names = sorted({name for some in ids for name in some})
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            advisories = dict(zip(names, pool.map(lambda name: describe(url, name), names), strict=True))
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"{error}")
    with open(place, "x", encoding="utf-8") as file:
        json.dump([[advisories[name] for name in some] for some in ids], file)


if __name__ == "__main__":
    main()
