"""Which keys of git's configuration commands may write."""

import shlex

from gloveport.policy.decisions.git_config_keys import ConfigKey, Repository, may_write, resolve_address

HOSTILE = (
    *("core.hooksPath h", "core.fsmonitor 'touch x'", "core.sshCommand x", "core.pager x", "core.editor x"),
    *("core.worktree /", "core.attributesFile x", "core.askPass x", "core.gitProxy x", "core.alternateRefsCommand x"),
    *(
        "include.path x",
        "includeIf.gitdir:/.path x",
        "alias.status '!touch x'",
        "filter.x.clean x",
        "filter.x.process x",
    ),
    *("diff.external x", "diff.x.textconv x", "diff.x.command x", "merge.x.driver x", "mergetool.x.cmd x"),
    *("credential.helper '!x'", "credential.https://git.example.helper x", "gpg.program x", "gpg.ssh.program x"),
    *("url.https://evil.example/.insteadOf https://git.example/", "url.x.pushInsteadOf https://git.example/"),
    *("http.proxy http://evil.example", "http.sslVerify false", "protocol.ext.allow always", "remote.origin.url x"),
    *("remote.origin.pushurl x", "remote.origin.fetch +refs/heads/*:refs/heads/*", "remote.origin.uploadpack x"),
    *("remote.origin.vcs x", "remote.origin.mirror true", "remote.pushDefault x", "push.default matching"),
    *("branch.main.remote https://evil.example", "branch.main.remote ../x", "branch.main.pushRemote origin"),
    *("branch.main.merge refs/tags/x", "branch.main.merge refs/heads/../x", "branch.main.mergeOptions x"),
    *("branch.main.rebase interactive", "submodule.x.update '!touch x'", "submodule.x.url https://evil.example"),
    *("submodule.recurse true", "extensions.worktreeConfig true", "extensions.objectFormat x", "sequence.editor x"),
    *("user.signingKey x", "commit.gpgSign false", "commit.template x", "tag.gpgSign false", "init.templateDir x"),
    *("gc.auto 0", "pack.packSizeLimit 1", "uploadpack.packObjectsHook x", "receive.denyCurrentBranch ignore"),
    *("interactive.diffFilter x", "pager.log x", "log.showSignature true", "man.x.cmd x", "browser.x.cmd x"),
    *("sendemail.smtpServer x", "guitool.x.cmd x", "trailer.x.command x", "web.browser x", "lfs.url x"),
)
"""Settings by which git runs something, reads something else, or talks to somebody else."""

REPOSITORY = Repository(remotes={"origin"}, submodules={"lib": {"https://git.example/lib.git"}})


def key_of(name):
    """The key that git takes a name for."""
    section, _, rest = name.partition(".")
    subsection, _, last = rest.rpartition(".")
    return ConfigKey(section.lower(), subsection or None, last.lower())


def test_nothing_that_could_run_or_lead_elsewhere_may_be_written():
    """W4, CT-E5"""
    for setting in HOSTILE:
        name, value = shlex.split(setting)
        assert not may_write(key_of(name), [value], REPOSITORY), setting


def test_what_does_no_harm_may_be_written_and_removed():
    """W4"""
    for name, value in (
        ("user.name", "Ann O'Neill #1; ü"),
        ("user.email", "<a+b@example.org>"),
        ("branch.feat/x-1.remote", "origin"),
        ("branch.x.remote", "."),
        ("branch.x.merge", "refs/heads/feat/x"),
        ("branch.x.rebase", "true"),
        ("pull.rebase", "false"),
        ("pull.ff", "only"),
        ("submodule.lib.url", "https://git.example/lib.git"),
        ("submodule.lib.active", "true"),
    ):
        assert may_write(key_of(name), [value], REPOSITORY), name
        assert may_write(key_of(name), [], REPOSITORY), name
        assert not may_write(key_of(name), [value, value], REPOSITORY), name
        assert not may_write(key_of(name), [None], REPOSITORY), name
        for hidden in ("\n", "\0", "\x1b", "\u202e", "\u200b", "\udc80", "x" * 300):
            assert not may_write(key_of(name), [value + hidden], REPOSITORY), (name, hidden)


def test_a_subsection_is_the_name_of_a_branch():
    """W4: it holds nothing that would end it."""
    for name in ('a"', "a\\", "a]\n[core", "-x", "a b", "a..b", "\u202e", ""):
        assert not may_write(ConfigKey("branch", name, "remote"), ["origin"], REPOSITORY), name


def test_the_address_of_a_submodule_is_relative_to_that_of_the_remote_as_in_git():
    """W4"""
    for address, base, resolved in (
        ("../lib.git", "https://h.example/o/p.git", "https://h.example/o/lib.git"),
        ("./lib", "https://h.example/o/p/", "https://h.example/o/p/lib"),
        ("../../x/lib", "git@h.example:o/p", "git@h.example:x/lib"),
        ("https://h.example/lib", "https://g.example/p", "https://h.example/lib"),
    ):
        assert resolve_address(address, base) == resolved
