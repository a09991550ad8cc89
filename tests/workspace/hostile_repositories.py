"""Checkouts that want git to start a program, each in another way.

Each function gets a repository with one commit of ``a.txt``, plain ``git`` in it, and a command that leaves a mark.
"""


def fsmonitor(_root, git, command):
    git("config", "core.fsmonitor", command)


def fsmonitor_of_an_included_file(root, git, command):
    (root / "more").write_text(f'[core]\n\tfsmonitor = "{command}"\n')
    git("config", "include.path", "../more")


def external_diff(_root, git, command):
    git("config", "diff.external", command)


def external_diff_of_an_attribute(root, git, command):
    (root / ".gitattributes").write_text("* diff=evil\n")
    git("config", "diff.evil.command", command)


def textconv(root, git, command):
    (root / ".git/info/attributes").write_text("* diff=evil\n")
    git("config", "diff.evil.textconv", command)
    git("config", "diff.evil.cachetextconv", "true")


def textconv_of_a_file_of_attributes(root, git, command):
    (root / "attributes").write_text("* diff=evil\n")
    git("config", "core.attributesFile", "attributes")
    git("config", "diff.evil.textconv", command)


def clean_filter(root, git, command):
    (root / ".gitattributes").write_text("* filter=evil\n")
    git("config", "filter.evil.clean", command)
    git("config", "filter.evil.smudge", command)


def required_filter(root, git, command):
    clean_filter(root, git, command)
    git("config", "filter.evil.required", "true")


def process_filter(root, git, command):
    (root / ".gitattributes").write_text("* filter=evil=x\n")
    git("config", "filter.evil=x.process", command)
    git("config", "filter.evil=x.required", "true")


def large_files(root, git, command):
    (root / ".gitattributes").write_text("* filter=lfs diff=lfs merge=lfs -text\n")
    for name in ("clean", "smudge", "process"):
        git("config", f"filter.lfs.{name}", command)
    git("config", "filter.lfs.required", "true")


def pager(_root, git, command):
    for key in ("core.pager", "pager.status", "pager.diff", "pager.log", "pager.show", "pager.blame"):
        git("config", key, command)


def alias(_root, git, command):
    for name in ("status", "diff", "log", "show", "blame", "ls-files"):
        git("config", f"alias.{name}", f"!{command}")


def signatures(root, git, command):
    (root / "evil").write_text(f"#!/bin/sh\n{command}\n")
    (root / "evil").chmod(0o755)
    for key in ("gpg.program", "gpg.ssh.program", "gpg.x509.program"):
        git("config", key, "./evil")
    git("config", "log.showSignature", "true")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n"
    (root / "commit").write_text(git("cat-file", "commit", "HEAD").replace("\n\n", f"\n{signature}", 1))
    git("update-ref", "HEAD", git("hash-object", "-t", "commit", "-w", "commit"))


def hooks(root, git, command):
    folder = root / "hooks"
    folder.mkdir()
    for name in ("post-index-change", "fsmonitor-watchman", "pre-auto-gc", "reference-transaction"):
        (folder / name).write_text(f"#!/bin/sh\n{command}\n")
        (folder / name).chmod(0o755)
    git("config", "core.hooksPath", "hooks")


def another_work_tree(root, git, command):
    (root / "other").mkdir()
    git("config", "core.fsmonitor", command)
    git("config", "core.worktree", "/tmp")


def a_directory_of_git_elsewhere(root, git, command):
    git("config", "core.fsmonitor", command)
    (root / ".git").rename(root / "elsewhere")
    (root / ".git").write_text("gitdir: elsewhere\n")


def partial_clone(root, git, command):
    git("config", "extensions.partialClone", "origin")
    git("config", "remote.origin.promisor", "true")
    git("config", "remote.origin.partialCloneFilter", "blob:none")
    git("config", "remote.origin.url", "ssh://example.com/x")
    git("config", "core.sshCommand", command)
    git("config", "credential.helper", f"!{command}")
    blob = git("rev-parse", "HEAD:a.txt")
    (root / ".git/objects" / blob[:2] / blob[2:]).unlink()


def submodule(root, git, command):
    git("init", "-q", "sub")
    git("-C", "sub", "commit", "-q", "--allow-empty", "-m", "sub")
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "./sub", "sub")
    (root / "sub/new").write_text("new")
    git("-C", "sub", "config", "core.fsmonitor", command)
    git("config", "diff.submodule", "diff")
    git("config", "status.submoduleSummary", "true")
    git("config", "submodule.sub.update", f"!{command}")


WAYS = (
    *(fsmonitor, fsmonitor_of_an_included_file, external_diff, external_diff_of_an_attribute, textconv),
    *(textconv_of_a_file_of_attributes, clean_filter, required_filter, process_filter, large_files, pager, alias),
    *(signatures, hooks, another_work_tree, a_directory_of_git_elsewhere, partial_clone, submodule),
)

FILTERS = (clean_filter, required_filter, process_filter, large_files)
"""What no switch of git's own turns off."""

IN_VAIN = (pager, alias, hooks)
"""What these commands never come to: no terminal, no word that is not git's own, nothing written."""
