"""What is kept of a document: the sections the question is about, under their headings, with whole code blocks."""

import pytest

from tools.pruning import engine

TOPICS = ["Install", "Configure", "Deploy", "Monitor", "Upgrade", "Remove", "Translate", "Contribute"]


def manual(heading: str) -> list[str]:
    lines: list[str] = []
    for topic in TOPICS:
        lines += [line.format(topic) for line in heading.split("|")]
        lines += ["", *(f"To {topic.lower()} the product, read step {n} with care." for n in range(15)), ""]
    return lines


def kept_of(lines: list[str], question: str, *, ratio: float = 0.7) -> list[str]:
    selection = engine.prune("\n".join(lines), question, source_type="docs", max_prune_ratio=ratio, min_keep_lines=0)
    return [lines[number - 1] for number in selection.kept()]


@pytest.mark.parametrize(("heading", "first"), [("## {}", "## Monitor"), ("{}\n|=========", "Monitor")])
def test_a_kept_paragraph_has_its_heading(heading: str, first: str) -> None:
    lines = "\n".join(manual(heading)).split("\n")
    at = lines.index("To monitor the product, read step 9 with care.")
    lines[at] = "The watchdog listens on port 9100."
    kept = kept_of(lines, "which port does the watchdog use?")
    assert "The watchdog listens on port 9100." in kept
    assert first in kept


@pytest.mark.parametrize("sections", [20, 60, 200])
def test_titles_stay_as_far_as_their_share_goes(sections: int) -> None:
    """Where one section has all that is asked for, its readers still see what the others are about."""
    steps = [f"Read step {n} of this part with care." for n in range(15)]
    about = [f"The watchdog listens on port {9100 + n}, where no other program may." for n in range(6 * sections)]
    titles = [f"## Part {number}" for number in range(sections)]
    lines = [line for n, title in enumerate(titles) for line in (title, "", *(about if n == 7 else steps), "")]
    kept = kept_of(lines, "which port does the watchdog listen on?")
    assert "## Part 7" in kept
    assert sum(line in titles for line in kept) > 0.45 * sections


def test_a_hash_inside_a_code_block_is_no_heading() -> None:
    lines = manual("## {}")
    at = lines.index("To monitor the product, read step 9 with care.")
    block = ["```sh", "# watchdog", "start --port 9100", "```"]
    lines[at:at] = block
    kept = kept_of(lines, "watchdog port")
    assert [line for line in kept if line in block] == block
    assert "## Monitor" in kept


def test_a_code_block_that_never_closes_is_one_block() -> None:
    lines = [*manual("## {}"), "```", *(f"output {n}" for n in range(30))]
    kept = kept_of(lines, "install")
    assert sum(line.startswith("output ") for line in kept) in (0, 30)


def test_a_line_answers_for_all_the_headings_above_it() -> None:
    steps = [f"Read step {n} of this part with care." for n in range(10)]
    lines: list[str] = []
    # On four lines, a word is not rare; a rare one is kept wherever it is.
    for language in ("Ruby", "Python", "Lua", "Go"):
        lines += [f"# {language}", "", *steps, "", "## Reference", "", *steps, "", "### Options", ""]
        lines += [f"The timeout is {len(language)} seconds.", "", "### Errors", "", *steps, *steps, ""]
    kept = kept_of(lines, "what is the timeout for Python?", ratio=0.96)
    assert [line for line in kept if "timeout" in line] == ["The timeout is 6 seconds."]


def test_a_section_that_is_asked_for_is_kept_to_its_end_and_the_heading_after_it() -> None:
    steps = [f"Read step {n} of this part with care." for n in range(30)]
    programs = [f"- Program {n}, of many uses" for n in range(40)]
    lines: list[str] = []
    for topic in TOPICS[:4]:
        lines += [f"## {topic}", "", *steps, ""]
    listed = ["## Projects", "", *programs, "", f"## {TOPICS[4]}"]
    lines += listed
    for topic in TOPICS[5:]:
        lines += ["", *steps, "", f"## {topic}"]
    kept = kept_of(lines, "Add gardener to the list of projects", ratio=0.9)
    assert "\n".join(listed) in "\n".join(kept)


@pytest.mark.parametrize("ratio", [0.7, 0.9, 0.98])
def test_an_answer_in_two_sections_is_kept_in_both(ratio: float) -> None:
    lines = manual("## {}")
    answers = {topic: f"The watchdog must be stopped by hand to {topic}." for topic in ("install", "upgrade")}
    for topic, answer in answers.items():
        lines[lines.index(f"To {topic} the product, read step 7 with care.")] = answer
    kept = kept_of(lines, "when must the watchdog be stopped?", ratio=ratio)
    assert [line for line in kept if "watchdog" in line] == list(answers.values())


def test_prose_is_kept_before_an_example_that_says_the_same() -> None:
    lines: list[str] = []
    for topic in TOPICS:
        lines += [f"## {topic}", "", *(f"The watchdog has a rule {n} for this." for n in range(6)), ""]
        lines += ["```", *(f"watchdog --rule {n} --for this now" for n in range(6)), "```", ""]
    kept = kept_of(lines, "watchdog rule", ratio=0.8)
    assert any(line.startswith("The watchdog") for line in kept)
    assert not any(line.startswith("watchdog") for line in kept)
