"""A project as an undo promises to restore it, and small projects with everything in them that is hard."""

from __future__ import annotations

import os
import random
import stat
import subprocess
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from tools.journal.git_index import index_digest, is_index

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
}


def snapshot(root: Path) -> dict[str, Any]:
    """Everything that an undo puts back, by path. Nothing of the product is asked but what an index of git says."""
    found: dict[str, Any] = {}
    for folder, folders, files in os.walk(root):
        for name in [*folders, *files, "."]:
            path = os.path.normpath(os.path.join(folder, name))
            relative = os.path.relpath(path, root)
            if ".git/" in relative and "/objects/" in f"/{relative}" and not relative.endswith("objects"):
                # New objects stay.
                continue
            status = os.lstat(path)
            content: Any = None
            if stat.S_ISREG(status.st_mode):
                data = Path(path).read_bytes()
                digest = index_digest(data).hex() if is_index(relative) else sha256(data).hexdigest()
                attributes = tuple((each, os.getxattr(path, each)) for each in sorted(os.listxattr(path)))
                content = (digest, status.st_nlink, attributes)
            elif stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            has_own_times = relative.endswith(".git/objects") or is_index(relative)
            times = 0 if has_own_times else status.st_mtime_ns
            found[relative] = (status.st_mode, status.st_uid, status.st_gid, times, content)
    return found


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {
        path: (before.get(path), after.get(path))
        for path in before.keys() | after.keys()
        if before.get(path) != after.get(path)
    }


def run(command: str, folder: Path) -> None:
    subprocess.run(["sh", "-c", command], cwd=folder, env=ENVIRONMENT, capture_output=True, stdin=subprocess.DEVNULL)


def make_project(root: Path, rng: random.Random) -> None:
    root.mkdir(parents=True)
    for number in range(60):
        path = root / rng.choice(["src", "src/a", "src/a/b", "docs", "."]) / f"f{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"line {rng.randrange(1000)}\n" for _ in range(rng.randrange(40))))
    (root / "empty/deep").mkdir(parents=True)
    (root / "link").symlink_to("docs")
    (root / ".gitignore").write_text(".env\n*.log\n")
    (root / ".env").write_text("SECRET=1\n")
    os.link(root / ".env", root / "docs/env-again")
    Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9")).write_text("latin")
    os.setxattr(root / ".env", "user.k", b"v")
    (root / ".env").chmod(0o600)
    (root / "sub").mkdir()
    for where in (root, root / "sub"):
        (where / "tracked").write_text("t")
        run("git init -q -b master . && git add -A . && git commit -qm one", where)


def random_command(root: Path, rng: random.Random) -> str:
    """One to five of fifty kinds of commands, about files that are there."""
    every = [path for path in root.rglob("*") if ".git" not in path.parts and not path.is_symlink()]
    files = [str(path.relative_to(root)) for path in every if path.is_file()]
    files = [path for path in files if path.isascii()] or ["new"]
    folders = [str(path.relative_to(root)) for path in every if path.is_dir()] or ["."]
    f, g, d, e, n = rng.choice(files), rng.choice(files), rng.choice(folders), rng.choice(folders), rng.randrange(1000)
    kinds: Sequence[str] = [
        f"sed -i 's/line/LINE/' {f}",
        "sed -i s/1/2/ $(find . -name '*.txt' -not -path './.git/*')",
        f"echo {n} >> {f}",
        f"echo {n} > {f}",
        f"truncate -s {n} {f}",
        f"rm -f {f}",
        f"rm -rf {d}",
        f"mv {f} {d}/moved{n}",
        f"mv {d} {e}/dir{n}",
        f"mv -f {f} {g}",
        f"cp {f} {d}/copy{n}",
        f"cp -a {d} copy{n}",
        f"ln {f} hard{n}",
        f"ln -sf {f} soft{n}",
        f"ln -sfn {d} link",
        f"[ -f {f} ] && chmod {rng.choice(['600', '755', '444', 'u+s'])} {f}",
        f"chmod 700 {d}",
        f"touch -d @{n} {f}",
        f"touch {f}",
        f"mkdir -p {d}/x{n}/y/z",
        f"rm -rf {d} && echo file > {d}",
        f"rm -f {f} && mkdir -p {f}/now/folder",
        f"rm -f {f} && ln -s nowhere {f}",
        f"mkfifo {d}/fifo{n}",
        f"printf x | dd of={f} bs=1 conv=notrunc status=none",
        f"python3 -c \"import os; os.setxattr('{f}', 'user.a', b'{n}')\"",
        f"chown {n}:{n} {f}",
        f"python3 -c \"import mmap, os; h = os.open('{f}', 2); os.ftruncate(h, 100); m = mmap.mmap(h, 100); "
        f'os.close(h); m[0] = {n % 256}; m.close()"',
        f"cp -p {f} keep{n}; printf same > {f}; touch -r keep{n} {f}; rm keep{n}",
        f"tar cf t{n}.tar {d}; tar xf t{n}.tar",
        f"touch $(printf 'n\\351{n}')",
        "rm -f caf*",
        "git add -A",
        "git status",
        f"git add -A; git commit -qm c{n}",
        "git stash -q",
        "git stash pop -q",
        f"git checkout -q -b b{n}",
        "git checkout -q master",
        "git checkout -q .",
        "git reset -q --hard",
        "git clean -fdq",
        "git -C sub commit --allow-empty -qm x",
        "rm -rf .git/refs",
        "rm -rf sub",
        "git gc -q --prune=now",
        "rm -rf .git",
        f"for i in $(seq {n}); do echo $i > {d}/many$i; done",
        f"mkdir -p {d}/t; echo a > {d}/t/f; rm -rf {d}/t",
        f"mv {d} tmp{n}; mv tmp{n} {d}",
        f"echo {n} > .env",
        "rm -f .env",
        "rm -rf ./* ./.env ./.gitignore",
        f"mv {f} swap{n}; mv {g} {f}; mv swap{n} {g}",
        "true",
        "ls -la >/dev/null",
    ]
    return "; ".join(rng.choice(kinds) for _ in range(rng.choice([1, 1, 2, 3, 5])))
