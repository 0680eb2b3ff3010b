"""A task for each language: the line that answers is kept with what it hangs on, and most of the rest goes."""

import pytest

from tools.pruning import engine

# Per language: the opening of block n, a line in it, its closing; the block with the answer, and the answer.
LANGUAGES: dict[str, tuple[str, str, str]] = {
    "go": ("func step{n}(pool *Pool) error {{", "\tpool.Take({k})", "}"),
    "java": ("    public int step{n}(Pool pool) {{", "        pool.take({k});", "    }"),
    "typescript": ("export function step{n}(pool: Pool): number {{", "  pool.take({k});", "}"),
    "c": ("static int step{n}(struct pool *pool) {{", "    take(pool, {k});", "}"),
    "c++": ("int Pool::step{n}(const Pool& pool) {{", "    pool.take({k});", "}"),
    "c#": ("    public int Step{n}(Pool pool) {{", "        pool.Take({k});", "    }"),
    "rust": ("impl Step for Step{n} {{", "    const TAKE_{k}: u32 = {k};", "}"),
    "rust enum": ("pub enum Step{n} {{", "    Take{k}(u32),", "}"),
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
        body = [inner.format(k=f"{n}{k}") for k in range(12)]
        if n == 17:
            body[6] = body[6].replace("take", "backoff").replace("Take", "Backoff").replace("TAKE", "BACKOFF")
        lines += [opening.format(n=n), *body, closing, ""]
    answer = next(line for line in lines if "backoff" in line.lower())
    header = opening.format(n=17)
    selection = engine.prune(
        "\n".join(lines), "where is the backoff?", source_type="code", max_prune_ratio=0.9, min_keep_lines=0
    )
    kept = [lines[number - 1] for number in selection.kept()]
    assert answer in kept
    assert header in kept
    assert len(kept) < 0.25 * len(lines)
