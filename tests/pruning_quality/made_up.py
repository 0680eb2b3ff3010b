"""Made-up tasks: programs in five languages, a manual and logs of an invented service. Nothing is of a real project.

Every text is put together from the same twelve topics, so that a question about one of them has eleven wrong places to
look at, some of which mention its words. The texts are the same at every run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from tests.pruning_quality.tasks import Task, make_task
from tools.pruning.engine import SourceType

# A topic: what is done to what, a detail, and a question about the detail that does not quote it.
_TOPICS = (
    ("open", "connection", "idle_timeout", "Connections should be closed sooner when they sit idle"),
    ("parse", "header", "max_length", "Reject a header whose length is over the maximum"),
    ("render", "invoice", "tax_rate", "The tax rate on invoices is wrong"),
    ("resize", "image", "jpeg_quality", "Resized images have poor JPEG quality"),
    ("rotate", "certificate", "expiry_days", "Warn some days before a certificate expires"),
    ("retry", "delivery", "backoff_factor", "Use a smaller backoff when a delivery is retried"),
    ("index", "document", "stop_words", "Stop words of documents must not be indexed"),
    ("encrypt", "backup", "key_size", "Encrypt backups with a larger key"),
    ("merge", "calendar", "time_zone", "Merged calendars ignore the time zone"),
    ("throttle", "upload", "burst_limit", "Allow a larger burst before uploads are throttled"),
    ("translate", "label", "fallback_locale", "Labels without a translation should use the fallback locale"),
    ("schedule", "reminder", "quiet_hours", "Do not send scheduled reminders in quiet hours"),
)
_STEPS = ("load", "check", "prepare", "copy", "count", "sort", "store", "report", "close")


def made_up_tasks() -> list[Task]:
    """All of them: 20 of code, 12 of documents, 12 of logs."""
    writers: tuple[Callable[[str, str, str], list[str]], ...] = (_python, _go, _javascript, _rust, _java)
    tasks: list[Task] = []
    for number, writer in enumerate(writers):
        mark = "#" if writer is _python else "//"
        blocks = [[*_mentions(at, mark), *writer(*topic[:3])] for at, topic in enumerate(_TOPICS)]
        for at in range(number % 3, len(_TOPICS), 3):
            tasks.append(_task(f"{writer.__name__[1:]}-{at}", "code", blocks, at))
    manual = [[*_section(*topic[:3]), "", *_mentions(at, "")] for at, topic in enumerate(_TOPICS)]
    tasks += [_task(f"manual-{at}", "docs", manual, at) for at in range(len(_TOPICS))]
    return [*tasks, *_logs()]


def _task(name: str, kind: SourceType, blocks: list[list[str]], at: int) -> Task:
    """A text of these blocks, with a question about one of them; the lines with its detail are needed."""
    detail, question = _TOPICS[at][2:]
    lines = [line for block in blocks for line in [*block, ""]]
    first = sum(len(block) + 1 for block in blocks[:at])
    spellings = (detail, _camel(detail), _pascal(detail), detail.replace("_", " "))
    block = enumerate(blocks[at], start=first + 1)
    needed = [number for number, line in block if any(spelling in line for spelling in spellings)]
    return make_task(name, kind, question, "\n".join(lines), needed)


def _mentions(at: int, mark: str) -> list[str]:
    """Lines about other topics, which a question about those should not find first."""
    mentions: list[str] = []
    for other in (at + 4, at + 7, at + 9):
        _, thing, detail, _ = _TOPICS[other % len(_TOPICS)]
        mentions.append(f"{mark} Unlike a {thing}, this has no {detail.split('_')[-1]} to think of.".strip())
    return mentions


def _python(action: str, thing: str, detail: str) -> list[str]:
    return [
        f"class {thing.title()}Service:",
        f"    def __init__(self, store, {detail}):",
        "        self.store = store",
        f"        self.{detail} = {detail}",
        "",
        f"    def {action}_{thing}(self, request):",
        *(f"        {step} = self.store.{step}(request, {n})" for n, step in enumerate(_STEPS)),
        f"        if request.size > self.{detail}:",
        "            raise ValueError(request)",
        f"        return self.finish_{thing}({_STEPS[0]})",
        "",
        f"    def finish_{thing}(self, result):",
        *(f"        self.store.{step}_after(result)" for step in _STEPS),
        "        return result",
    ]


def _go(action: str, thing: str, detail: str) -> list[str]:
    return [
        f"func {_pascal(action)}{_pascal(thing)}(ctx context.Context, req *Request) error {{",
        *(
            line
            for step in _STEPS
            for line in (f"\tif err := {step}(ctx, req); err != nil {{", "\t\treturn err", "\t}")
        ),
        f"\tif req.Size > config.{_pascal(detail)} {{",
        f'\t\treturn fmt.Errorf("{thing}: too large")',
        "\t}",
        "\treturn nil",
        "}",
    ]


def _javascript(action: str, thing: str, detail: str) -> list[str]:
    return [
        f"async function {action}{_pascal(thing)}(request, options) {{",
        *(f"  const {step}Result = await {step}(request, {n});" for n, step in enumerate(_STEPS)),
        f"  const {_camel(detail)} = options.{_camel(detail)};",
        f"  if (request.size > {_camel(detail)}) {{",
        "    throw new RangeError(request.id);",
        "  }",
        *(f"  request.emit('{step}', {step}Result);" for step in _STEPS),
        f"  return {_STEPS[0]}Result;",
        "}",
    ]


def _rust(action: str, thing: str, detail: str) -> list[str]:
    return [
        f"pub fn {action}_{thing}(request: &Request, config: &Config) -> Result<Outcome, Error> {{",
        *(f"    let {step} = {step}_step(request, {n})?;" for n, step in enumerate(_STEPS)),
        f"    if request.size > config.{detail} {{",
        "        return Err(Error::TooLarge);",
        "    }",
        *(f"    request.record({step});" for step in _STEPS),
        "    Ok(Outcome::new(request))",
        "}",
    ]


def _java(action: str, thing: str, detail: str) -> list[str]:
    return [
        f"public final class {_pascal(thing)}Handler {{",
        f"    private final int {_camel(detail)};",
        "",
        f"    public Outcome {action}{_pascal(thing)}(Request request) {{",
        *(f"        Step {step} = steps.{step}(request, {n});" for n, step in enumerate(_STEPS)),
        f"        if (request.size() > {_camel(detail)}) {{",
        "            throw new IllegalArgumentException(request.id());",
        "        }",
        f"        return finish({_STEPS[0]});",
        "    }",
        "}",
    ]


def _section(action: str, thing: str, detail: str) -> list[str]:
    spoken = detail.replace("_", " ")
    return [
        f"## {action.title()} a {thing}",
        "",
        f"This part is about one {thing} at a time.",
        *(f"The service will {step} the request before the next step begins." for step in _STEPS),
        "",
        f"The {spoken} can be set for each tenant. A change takes effect at the next start.",
        "",
        "```sh",
        f"service {action} {thing} --tenant demo",
        "```",
        "",
        *(f"An operator can {step} it by hand if the service is down." for step in _STEPS),
    ]


def _logs() -> Iterator[Task]:
    for number, (action, thing, detail, _) in enumerate(_TOPICS):
        chance = random.Random(number)
        lines = [
            f"2031-03-04 08:{n // 60:02}:{n % 60:02} INFO worker-{chance.randrange(8)} {chance.choice(_STEPS)} request"
            f" {chance.getrandbits(32):08x} done in {chance.randrange(90)} ms"
            for n in range(300)
        ]
        at = chance.randrange(40, 260)
        lines[at : at + 3] = [
            f"2031-03-04 08:09:00 ERROR worker-1 cannot {action} {thing}: bad {detail.replace('_', ' ')}",
            f'  File "/srv/app/{thing}.py", line {at}, in {action}_{thing}',
            f"    raise ValueError({detail})",
        ]
        yield make_task(f"log-{number}", "logs", f"Why did the {thing} fail?", "\n".join(lines), range(at + 1, at + 4))


def _pascal(name: str) -> str:
    return "".join(part.title() for part in name.split("_"))


def _camel(name: str) -> str:
    return name[0] + _pascal(name)[1:]
