"""Packages that are built from source: what their code may try while it runs, and what may come of it."""

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.environments.index import YOUNG, Index, make_wheel, serve
from tests.environments.test_environments import opened

from gloveport.environments.source_distributions import find_source, read_build_requirements, read_built
from gloveport.errors import Denied
from gloveport.model.packages import LockedPackage

_PROBE = """
    import subprocess, zipfile
    said = [sorted(os.listdir("/opt/environment"))]
    url = "http://index0.test:PORT/told"
    proxies = {name: text for name, text in os.environ.items() if "proxy" in name.lower()}
    for opener in (urllib.request.build_opener(), urllib.request.build_opener(urllib.request.ProxyHandler({}))):
        try:
            said.append(opener.open(url, timeout=5).read().decode())
        except OSError as error:
            said.append("refused")
    try:
        socket.create_connection(("127.0.0.1", PORT), timeout=5)
        said.append("connected")
    except OSError:
        said.append("refused")
    said.append(os.path.exists("STATE"))
    with open("/opt/environment/uv.toml", "w") as file:
        file.write("poisoned")
    os.makedirs("/opt/environment/built/helper")
    import io
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(wheel)) as honest, zipfile.ZipFile(packed, "w") as archive:
        for name in honest.namelist():
            archive.writestr(name, f"SAID = {said!r}" if name == "probe.py" else honest.read(name))
    wheel = packed.getvalue()
"""

pytestmark = pytest.mark.anyio


async def test_a_source_is_built_without_a_door_with_what_it_requires(tmp_path):
    """P49: nothing of it runs where anybody could be reached, and nothing that it leaves is seen by what is."""
    with serve(Index()) as index:
        index.add("helper")
        probe = _PROBE.replace("PORT", str(index.port)).replace("STATE", str(tmp_path))
        index.add_source("probe", build=probe, wheel=make_wheel("probe", requires=["helper"]))
        uses = """
            import probe, helper
            assert os.path.getsize("/opt/environment/uv.toml") == 0, "nothing of the former build is here"
        """
        index.add_source("second", build=uses, requires='["probe", "helper>=1"]')
        named = {
            "one": {"python": ["second", "probe"], "build": ["Probe==1", "second==1.0"]},
            "narrow": {"python": ["second"], "build": ["probe==1.0", "second==1.0"], "allow": ["second", "probe"]},
        }
        async with opened(tmp_path / "state", index, environments=named) as world:
            result = await world.run("python", "import probe, second; [probe.SAID, second.VERSION]", environment="one")
            assert result.status == "ok", result
            listed, *tried = result.value[0]
            assert tried == ["refused", "refused", "refused", False]
            assert "built" not in listed
            assert not any("told" in path for path in index.asked)
            installed = [one.fields["packages"] for one in world.records("install.admitted")]
            assert installed == [
                ["probe==1.0"],
                ["helper==1.0", "probe==1.0", "second==1.0"],
                ["helper==1.0", "probe==1.0", "second==1.0"],
            ]
            [tree] = world.engine.environments.store.list_trees()
            lock = world.engine.environments.find_built("one")[0][0]
            source = index.files["probe"]["probe-1.0.tar.gz"]
            assert hashlib.sha256(source).hexdigest() in lock.text
            assert {one.name: one.uploaded[:4] for one in tree.packages} == dict.fromkeys(
                ("helper", "probe", "second"), "2020"
            )
            refused = await world.run("python", "1", environment="narrow")
            assert refused.error.type == "package_not_allowed", "what a build needs has to be allowed, too"
            world.engine.environments.store.remove(tree)
            for place in ("wheels", "unpacked"):
                for path in (world.engine.environments.store.root / place).iterdir():
                    path.unlink()
        async with opened(tmp_path / "state", index, environments=named) as world:
            gone = await world.run("python", "1", environment="one")
            assert "gloveport env lock" in gone.hint, gone


async def test_what_a_source_may_try_builds_nothing(tmp_path):
    """P49."""
    nested = """
        place = "d" * 200
        os.chdir("/opt/environment")
        for _ in range(1200):
            os.mkdir(place)
            os.chdir(place)
        open("hidden", "wb").write(bytes(1 << 20))
        os.chmod(".", 0)
    """
    unnamed = """
        file = os.open("/opt/environment/file", os.O_WRONLY | os.O_CREAT)
        os.unlink("/opt/environment/file")
        while True:
            os.write(file, bytes(1 << 20))
    """
    attacks = {
        "nested": {"build": nested},
        "unnamed": {"build": unnamed},
        "renamed": {"build": "place = 'helper-1.0-py3-none-any.whl'"},
        "bomb": {"wheel": make_wheel("bomb", files={"bomb.txt": "0" * (3 << 20)})},
        "flood": {"build": "open('/opt/environment/flood', 'wb').write(bytes(9 << 20))"},
        "endless": {"build": "while True: pass"},
        "fetching": {"requires": '["helper @ file:///etc/passwd"]'},
        "lying": {},
        "young": {},
    }
    said = {
        "nested": "can't be measured",
        "unnamed": "There is no room",
        "renamed": "declares name helper",
        "bomb": "too much",
        "flood": "unpacks to more than",
        "endless": "can't be built",
        "fetching": "says where to get the package",
        "lying": "the lock has",
        "young": "lets nothing in",
    }
    with serve(Index()) as index:
        for name, how in attacks.items():
            index.add_source(name, **how)
        index.digests["lying-1.0.tar.gz"] = "0" * 64
        index.uploaded["young-1.0.tar.gz"] = YOUNG
        named = {name: {"python": [name], "build": [f"{name}==1.0"]} for name in attacks}
        async with opened(tmp_path / "state", index, environments=named, environment_bytes=2 << 20) as world:
            packages = world.engine.environments.ecosystems[0]
            host = packages.builder.uv.host
            short = replace(host, limits=host.limits.model_copy(update={"cpu_seconds": 0.8}))
            spared_bytes = shutil.disk_usage(tmp_path).free - (64 << 20)
            hosts = {"endless": short, "unnamed": replace(host, spared_bytes=spared_bytes)}
            told = {}
            for name in named:
                limited = replace(packages.builder.uv, host=hosts.get(name, host))
                packages.builder = replace(packages.builder, uv=limited)
                result = await world.run("python", "1", environment=name)
                assert result.status == "denied", (name, result)
                told[name] = result.error.message
            store = world.engine.environments.store
            assert store.list_trees() == []
            assert not list((store.root / "work").glob("build-*"))
    assert {name: text for name, text in told.items() if said[name] not in text} == {}


_EXTENSION = """
    import io, subprocess, sysconfig, zipfile
    with open("answer.c", "w") as file:
        file.write('''
            #include <HEADER>
            static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "answer", 0, -1, 0};
            PyMODINIT_FUNC PyInit_answer(void) {
                PyObject *made = PyModule_Create(&module);
                PyModule_AddIntConstant(made, "ANSWER", 42);
                return made;
            }
        ''')
    include, built = sysconfig.get_path("platinclude"), "answer" + sysconfig.get_config_var("EXT_SUFFIX")
    subprocess.run(["COMPILER", "-shared", "-fPIC", f"-I{include}", "answer.c", "-o", built], check=True)
    packed = io.BytesIO(wheel)
    with zipfile.ZipFile(packed, "a") as archive:
        archive.write(built)
    wheel = packed.getvalue()
"""


async def test_a_module_in_c_is_compiled_and_what_is_not_there_for_it_is_named(tmp_path):
    """E8."""
    with serve(Index()) as index:
        named = {}
        for name, (header, compiler) in {
            "answer": ("Python.h", "gcc"),
            "headless": ("nowhere/Python.h", "gcc"),
            "bare": ("Python.h", "/usr/bin/no-such-gcc"),
        }.items():
            build = _EXTENSION.replace("HEADER>", f"{header}>").replace("COMPILER", compiler)
            index.add_source(name, build=build, wheel=make_wheel(name, files={}))
            named[name] = {"python": [name], "build": [f"{name}==1.0"]}
        async with opened(tmp_path / "state", index, environments=named) as world:
            python = world.engine.system.python
            asked = [python, "-c", "import sysconfig; print(sysconfig.get_path('platinclude'))"]
            headers = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
            no_headers, no_compiler = "(Debian: python3-dev)", "a compiler (gcc)"
            lacking = {"headless": no_headers, "bare": no_compiler}
            if shutil.which("gcc") is None:
                lacking = dict.fromkeys(named, no_compiler)
            elif not Path(headers, "Python.h").exists():
                lacking["answer"] = no_headers
            for name in named:
                result = await world.run("python", "import answer; answer.ANSWER", environment=name)
                if name in lacking:
                    assert lacking[name] in result.hint, (name, result)
                else:
                    assert result.value == 42, result


def test_only_one_wheel_of_the_right_name_is_taken_from_a_build(tmp_path):
    package, wheel = LockedPackage(name="good-one", version="1.0"), make_wheel("good_one")
    out = tmp_path / "out"
    out.mkdir()
    right = out / "good_one-1.0-py3-none-any.whl"
    right.write_bytes(wheel)
    assert read_built(out, package, 1 << 20).sha256 == hashlib.sha256(wheel).hexdigest()

    def refuse(directory=out, most=1 << 20) -> None:
        with pytest.raises(Denied, match="has not left one wheel"):
            read_built(directory, package, most)

    refuse(most=10)
    (tmp_path / "link").symlink_to(out)
    refuse(tmp_path / "link")
    for name in ("good_one-1.0-1-py3-none-any.whl", "good_one-1.1-py3-none-any.whl"):
        (out / name).write_bytes(wheel)
        refuse()
        (out / name).unlink()
    right.unlink()
    refuse()
    right.symlink_to("/etc/passwd")
    refuse()
    right.unlink()
    right.mkdir()
    refuse()
    for name in ("good_one-1.1-py3-none-any.whl", 'good_one-1.0-1"><a-py3-none-any.whl', "other-1.0-py3-none-any.whl"):
        right.rmdir() if right.exists() else None
        (out / name).write_bytes(wheel)
        refuse()
        (out / name).unlink()


def test_a_page_names_the_source_of_one_version():
    """And no place on this host's disk, which has no cooldown."""
    url, digest = "https://index.test/simple/a-b/", {"sha256": "0" * 64}

    def find(file="a_b-1.0.tar.gz", place="../a_b-1.0.tar.gz", hashes=digest):
        page = {"files": [None, {}, {"filename": file, "url": place, "hashes": hashes, "upload-time": "2020-01-01"}]}
        return find_source(json.dumps(page).encode(), url, "a-b==1")

    package, source = find()
    assert (package.name, package.version, source.url) == ("a-b", "1.0", "https://index.test/simple/a_b-1.0.tar.gz")
    assert (package.uploaded, source.file) == ("", "a-b-1.0.tar.gz"), "a time without a zone is none"
    for how in (
        {"file": "a_b-1.1.tar.gz"},
        {"file": "c-1.0.tar.gz"},
        {"file": "a_b-1.0-py3-none-any.whl"},
        {"place": "file:///opt/environment/a_b-1.0.tar.gz"},
        {"place": "https://index.test/a b"},
        {"place": "//["},
        {"hashes": {"sha256": "0"}},
        {"hashes": None},
    ):
        assert find(**how) is None, how
    assert find_source(b"<a href='a_b-1.0.tar.gz'>", url, "a-b==1") is None
    link = f"<a href='a_b-1.0.tar.gz#sha256={'0' * 64}'>".encode()
    assert (
        find_source(link, "file:///opt/index/0/a-b/index.html", "a-b==1")[1].url
        == "file:///opt/index/0/a-b/a_b-1.0.tar.gz"
    )


def test_what_a_source_requires_is_a_list_of_packages():
    assert read_build_requirements(b"") == ("setuptools>=40.8.0",)
    assert read_build_requirements(b"[build-system]\nrequires = ['Flit_core >=3']") == ("flit-core>=3",)
    named = ("-r /etc/passwd", "x @ file:///x", "a\n--index-url=http://x", r"a; os_name>'\x22\nb\n#'", 1)
    for text in (
        "[",
        "build-system = 1",
        f"{'a.' * 1000}a = 1",
        f"# {'x' * (256 * 1024)}",
        "build-system.requires = 'x'",
        *map("build-system.requires = [{!r}]".format, named),
    ):
        with pytest.raises(Denied, match="can't be read"):
            read_build_requirements(text.encode())
