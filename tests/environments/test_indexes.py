"""Whose index is asked: the configuration's, or what uv and pip of the user are configured with."""

from gloveport.environments.indexes import PUBLIC, Indexes, find_indexes


def test_the_indexes_of_the_users_own_tools_are_taken_over_without_their_passwords(tmp_path, monkeypatch):
    home = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_CONFIG_DIRS": str(tmp_path / "none")}
    assert find_indexes(("https://a.test/simple",), {"PIP_INDEX_URL": "https://b.test"}).urls == (
        "https://a.test/simple",
    )
    pip = find_indexes((), {**home, "PIP_INDEX_URL": "https://me:hunter2@b.test:8443/simple/"})
    assert pip.urls == ("https://b.test:8443/simple",)
    assert "hunter2" not in str(pip)
    assert "[api.NAME]" in pip.warnings[0]
    uv = find_indexes((), {**home, "UV_INDEX": "own=https://c.test/simple", "PIP_INDEX_URL": "https://b.test"})
    assert uv.urls == ("https://c.test/simple", PUBLIC)
    public = Indexes(urls=(PUBLIC,), origin="").hosts
    assert len(public) == 2, "that of the index, and that of its files"
    assert uv.hosts == ("c.test", *public)
    (tmp_path / "config/pip").mkdir(parents=True)
    settings = "[global]\nindex-url = https://d.test/simple\nextra-index-url = file:///x https://e.test/simple\n"
    (tmp_path / "config/pip/pip.conf").write_text(settings)
    assert find_indexes((), home).urls == ("https://e.test/simple", "https://d.test/simple")
    (tmp_path / "config/uv").mkdir()
    (tmp_path / "config/uv/uv.toml").write_text('[[index]]\nurl = "https://f.test/simple"\ndefault = true\n')
    assert find_indexes((), home).urls == ("https://f.test/simple",)
    (tmp_path / "config").rename(tmp_path / ".config")
    of_home = {"HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path / "none")}
    assert find_indexes((), of_home).urls == ("https://f.test/simple",)
    assert find_indexes((), {"XDG_CONFIG_DIRS": str(tmp_path / "none")}).urls  # a user without a home
    (tmp_path / "config/pip").mkdir(parents=True)
    (tmp_path / "config/pip/pip.conf").write_text("[global]\nindex-url = https://g.test/simple\n")
    monkeypatch.chdir(tmp_path / "config")
    for listed in ("", ":/none", "."):
        urls = find_indexes((), {"XDG_CONFIG_DIRS": listed}).urls
        assert urls != ("https://g.test/simple",), "a file in the current directory is a project's"
