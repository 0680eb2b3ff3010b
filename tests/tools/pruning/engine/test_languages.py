"""A task for each language: the line that answers is kept with what it hangs on, and most of the rest goes."""

import pytest

from tools.pruning import engine
from tools.pruning.engine.api import parse_text

# Per language: the opening of block n, a line in it, its closing; the block with the answer, and the answer.
LANGUAGES: dict[str, tuple[str, str, str]] = {
    "go": ("func step{n}(pool *Pool) error {{", "\tpool.Take({k})", "}"),
    "java": ("    public int step{n}(Pool pool) {{", "        pool.take({k});", "    }"),
    "typescript": ("export function step{n}(pool: Pool): number {{", "  pool.take({k});", "}"),
    "c": ("static int step{n}(struct pool *pool) {{", "    take(pool, {k});", "}"),
    "c, brace below": ("int\nstep{n} (struct pool *pool)\n{{", "  take (pool, {k});", "}"),
    "c, parameters below": ("int step{n}(struct pool *pool,\n          int count)\n{{", "\ttake(pool, {k});", "}"),
    "c++, members below": ("Pool::Step{n}(int count)\n    : count_(count)\n{{", "    pool.take({k});", "}"),
    "c++, brace after parameters": ("int Step{n}(const Pool& pool,\n       int count) {{", "    pool.take({k});", "}"),
    "c#, brace below": ("    public override int Step{n}(Pool pool)\n    {{", "        pool.Take({k});", "    }"),
    "c#, default access": ("    int Step{n}(Pool pool)\n    {{", "        pool.Take({k});", "    }"),
    "typescript arrow": ("export const step{n} = async (pool: Pool): Promise<void> => {{", "  pool.take({k});", "};"),
    "java annotation": ("    @Override int step{n}(Pool pool) {{", "        pool.take({k});", "    }"),
    "rust lifetime": ("impl<'a> Step{n}<'a> for Pool<'a> {{", "    const TAKE_{k}: u32 = {k};", "}"),
    "perl": ("sub step{n} {{", "    take({k});", "}"),
    "lua": ("local function step{n}(pool)", "  pool:take({k})", "end"),
    "javascript method": ("  step{n}(\n    pool,\n  ) {{", "    pool.take({k});", "  }"),
    "c++": ("int Pool::step{n}(const Pool& pool) {{", "    pool.take({k});", "}"),
    "c#": ("    public int Step{n}(Pool pool) {{", "        pool.Take({k});", "    }"),
    "rust": ("impl Step for Step{n} {{", "    const TAKE_{k}: u32 = {k};", "}"),
    "rust enum": ("pub enum Step{n} {{", "    Take{k}(u32),", "}"),
    "rust macro": ("macro_rules! step{n} {{", "    take!({k});", "}"),
    "ruby": ("  def step{n}(pool)", "    pool.take({k})", "  end"),
    "php": ("function step{n}(Pool $pool) {{", "    $pool->take({k});", "}"),
    "shell": ("step{n}() {{", "    take {k}", "}"),
    "sql": ("CREATE TABLE step{n} (", "    take_{k} INTEGER,", ");"),
    "yaml": ("step{n}:", "  take_{k}: 1", ""),
    "toml": ("[step{n}]", "take_{k} = 1", ""),
    "terraform": ('resource "pool" "step{n}" {{', "  take_{k} = 1", "}"),
    "dockerfile": ("FROM image{n} AS step{n}", "RUN take {k}", ""),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_answer_is_kept_with_the_block_that_it_is_in(language: str) -> None:
    opening, inner, closing = LANGUAGES[language]
    lines: list[str] = []
    for n in range(30):
        body = [inner.format(k=f"{n}{k}") for k in range(40)]
        if n == 17:
            body[20] = body[20].replace("take", "backoff").replace("Take", "Backoff").replace("TAKE", "BACKOFF")
        lines += [*opening.format(n=n).split("\n"), *body, closing, ""]
    answer = next(line for line in lines if "backoff" in line.lower())
    header = next(line for line in opening.format(n=17).split("\n") if "step17" in line.lower())
    selection = engine.prune(
        "\n".join(lines), "where is the backoff?", source_type="code", max_prune_ratio=0.97, min_keep_lines=0
    )
    kept = [lines[number - 1] for number in selection.kept()]
    assert answer in kept
    assert header in kept
    assert len(kept) < 0.1 * len(lines)


def test_a_function_in_c_reaches_to_its_closing_brace() -> None:
    function = ["static int step(struct pool *pool)", "{", "    take(pool);", "#ifdef DEBUG", "    log_step(pool);"]
    function += ["#endif", "    return 0;", "fail:", "    release(pool);", "}"]
    scope = parse_text("\n".join([*function, "int after;", *function]), "code").structure.scope.tolist()
    assert scope == [*[0] * 10, -1, *[11] * 10]


def test_a_comment_reaches_to_its_end() -> None:
    parsed = parse_text(
        "/* A pool of\n   connections. */\nint size;\n// int next;\nint last; /* text\n   text */\n", "code"
    )
    assert parsed.structure.is_comment.tolist() == [True, True, False, True, False, False, False]


def test_a_statement_that_begins_with_a_star_is_no_comment() -> None:
    parsed = parse_text("/*\n * text\n */\nint f(int *p)\n{\n    *p = 0;\n#define N 3\n}\n", "code")
    assert parsed.structure.is_comment.tolist() == [True, True, True, *[False] * 6]
