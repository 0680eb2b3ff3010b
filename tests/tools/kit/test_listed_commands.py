"""Commands that run without a question: only those of which every part is on the list, and can be read."""

from __future__ import annotations

import pytest

from tools.kit.listed_commands import HARMLESS, ListedCommands

_LIST = ListedCommands((*HARMLESS, "make test"))


@pytest.mark.parametrize(
    "command",
    [
        "ls",
        "ls -la src | wc -l",
        "cd src && git status --short",
        "git log --oneline -5; git diff HEAD~1",
        "find . -name '*.py' -newer setup.py",
        "grep -rn 'a$b' src || echo none",
        'echo "two words" it\\\'s',
        "sed -n '10,20p' file.py",
        "sort -k2 names | uniq -c",
        "make test",
        "cat src/*.py",
    ],
)
def test_what_only_looks_is_on_the_list(command: str) -> None:
    assert _LIST.has(command)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "rm -rf build",
        "ls; rm -rf build",
        "ls && rm x",
        "ls | sh",
        "ls |& sh",
        "ls & rm x",
        "ls\nrm x",
        "ls\r\nrm x",
        "ls > out",
        "ls >> out",
        "ls 2>err",
        "cat < /dev/null",
        "diff <(ls) <(rm x)",
        "echo $(rm x)",
        "echo `rm x`",
        'echo "$(rm x)"',
        'echo "`rm x`"',
        "echo $HOME",
        "echo ${IFS}",
        "echo $'a'",
        "(rm x)",
        "{ rm x; }",
        "ls {a,b}",
        "! ls",
        "ls # comment",
        "FOO=1 ls",
        "PATH=/tmp ls",
        "env ls",
        "sudo ls",
        "xargs ls",
        "command ls",
        "/tmp/ls",
        "./ls",
        "l*",
        "'ls' 'unclosed",
        "ls \\",
        "ls;; ls",
        "| ls",
        "make test -B",
        "make",
        "find . -delete",
        "find . -exec rm {} +",
        "find . -execdir sh -c x ;",
        "find . -fprintf out x",
        "find . -ok rm x",
        "find *",
        "find . -del*",
        "sort -o out in",
        "sort -uo out in",
        "sort --output=out in",
        "sort --outp out in",
        "sort --compress-program=sh in",
        "sort *",
        "uniq in out",
        "tree -o out",
        "date -s tomorrow",
        "date --set=tomorrow",
        "file -C -m magic",
        "rg --pre sh x",
        "rg -z x",
        "rg --hostname-bin=x y",
        "diff -l a b",
        "git push",
        "git -c core.pager=sh log",
        "git diff --output=out",
        "git log --outp=out",
        "git diff --ext-diff",
        "git show --textconv x",
        "git --exec-path=/tmp status",
        "git status*",
        "sed -i s/a/b/ file",
        "sed -n 'w out' file",
        "sed -n '1p;w out' file",
        "sed -n 1p -i file",
        "sed -n '1e rm x' file",
        "awk 1 file",
    ],
)
def test_what_writes_runs_or_cannot_be_read_is_not(command: str) -> None:
    assert not _LIST.has(command)
