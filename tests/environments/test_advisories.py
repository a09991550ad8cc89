"""What is known about packages: from a service of the test's own, to `gloveport env audit` and to builds."""

import contextlib
import json

import pytest
from tests import shared_host
from tests.egress.world import World
from tests.environments.http_stand_in import WholeAnswers, answering
from tests.environments.index import Index, serve

from gloveport.config import Config
from gloveport.errors import Denied
from gloveport.guard import Guard
from gloveport.model import Grant
from gloveport.model.packages import LockedPackage
from gloveport.model.reading import read_value

pytestmark = pytest.mark.anyio


@contextlib.contextmanager
def advisories(known, asked):
    """A service with OSV's interface. ``known``: ids by ecosystem and name; ``asked`` gets what it is asked."""

    class Handler(WholeAnswers):
        def do_POST(self) -> None:  # noqa: N802 - as http.server calls it
            queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
            asked.extend(queries)
            results = []
            for query in queries:
                ids = known.get((query["package"]["ecosystem"], query["package"]["name"]), [])
                page = "page_token" in query  # the last is always on a page of its own
                told = ids[-1:] if page else ids[:-1]
                results.append(
                    {"vulns": [{"id": one} for one in told], **({"next_page_token": "2"} if ids and not page else {})}
                )
            self.answer(json.dumps({"results": results}).encode())

        def do_GET(self) -> None:  # noqa: N802 - as http.server calls it
            name = self.path.rpartition("/")[2]
            self.answer(
                json.dumps({"id": name, "summary": f"About {name}\x1b[31m", "aliases": [f"CVE-{name}"]}).encode()
            )

    with answering(Handler) as port:
        yield port


async def test_what_is_known_about_packages_is_told_and_malware_is_not_installed(tmp_path):
    asked = []
    known = {("PyPI", "weak"): ["GHSA-1", "PYSEC-2"], ("PyPI", "evil"): ["MAL-1"], ("npm", "weak"): ["GHSA-3"]}
    with serve(Index()) as index, advisories(known, asked) as port:
        index.add("weak")
        index.add("evil")
        config = {
            "policy": {"languages": ["python"]},
            "pool": {"forked": 0, "booted": 0},
            "environments": {name: {"python": [name]} for name in ("weak", "evil")},
            "packages": {
                "indexes": [f"http://index.test:{index.port}/simple"],
                "advisories": f"http://osv.test:{port}",
                "npm_scopes": {"@acme": "https://npm.acme.test"},
            },
            "api": {
                "index": {"hosts": [f"http://index.test:{index.port}"], "addresses": ["127.0.0.1"]},
                "osv": {"hosts": [f"http://osv.test:{port}"], "addresses": ["127.0.0.1"]},
            },
        }
        state = {"GLOVEPORT_STATE": str(tmp_path / "state")}
        async with shared_host.assemble(read_value(Config, config), state) as engine:
            world = World(engine, tmp_path / "state")
            assert await world.value("python", "import weak; weak.VERSION", environment="weak") == "1.0"
            refused = await world.run("python", "1", environment="evil")
            assert (refused.status, refused.error.type) == ("denied", "package_malicious"), refused
            assert not any("/files/evil/evil" in path for path in index.asked if not path.endswith(".metadata"))
            guard = Guard(grant=Grant(), audit=engine.audit, caller="tester", run_id="run-1")
            packages = [
                LockedPackage(name=name, version="1.0") for name in ("weak", "npm:weak", "fine", "npm:@acme/own")
            ]
            found = await engine.environments.audit(packages, guard)
            assert [(one.name, [known.id for known in some]) for one, some in found] == [
                ("weak", ["GHSA-1", "PYSEC-2"]),
                ("npm:weak", ["GHSA-3"]),
            ]
            assert "acme" not in str(asked), "what is the operator's own is told nobody"
            assert {one.fields["path"] for one in world.records("fetch.admitted", run="run-1")} == {
                "/v1/querybatch",
                "/v1/vulns/GHSA-1",
                "/v1/vulns/GHSA-3",
                "/v1/vulns/PYSEC-2",
            }
            known["PyPI", "fine"] = [{"not": "an id"}]
            with pytest.raises(Denied, match="does not tell"):
                await engine.environments.audit(packages, guard)
