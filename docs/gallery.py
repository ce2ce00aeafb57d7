"""The pages of the worked examples, made from the programs in `examples/gallery`.

The docstring of a program is the beginning of its page: a title, a sentence, and paragraphs. A line
`# %% Heading` begins a section: comments below it are text, and what follows them is code.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

PROGRAMS = Path(__file__).parents[1] / "examples" / "gallery"
#: In the order of the menu.
NAMES = (
    "gpt", "resnet", "diffusion", "ppo", "graph_attention", "pinn", "neural_ode", "maml",
    "dp_sgd", "fine_tuning",
)  # fmt: skip


def parts(name: str) -> tuple[str, str, str, str]:
    """The title of a program, its sentence, the paragraphs below, and the code."""
    source = (PROGRAMS / f"{name}.py").read_text(encoding="utf-8")
    doc = ast.get_docstring(ast.parse(source)) or ""
    title, sentence, text = re.fullmatch(r"(.+?): (.+)\n((?s:.+))", doc).groups()
    return title, sentence, text, source.split('"""', 2)[2]


def page(name: str) -> str:
    """The page of a program."""
    title, sentence, text, code = parts(name)
    blocks = "```sh\n" + "\n".join(re.findall(r"^ {4}(.+)", text, re.MULTILINE))
    text = re.sub(r"^ {4}.+\n", "", text, flags=re.MULTILINE)
    lines = [
        f"# {title}\n",
        f"{sentence[0].upper()}{sentence[1:]}\n",
        f"{text.strip()}\n",
        f"![What `--plot` draws](../images/gallery/{name}.png)\n",
        f"{blocks}\n```\n",
    ]
    beginning, *sections = re.split(r"^# %%", code, flags=re.MULTILINE)
    lines.append(fenced(beginning))
    for section in sections:
        heading, rest = section.split("\n", 1)
        prose = re.match(r"(?:# .*\n)*", rest)[0]
        lines.append(f"## {heading.strip() or 'The program'}\n")
        lines.append(re.sub(r"^# ", "", prose, flags=re.MULTILINE))
        lines.append(fenced(rest[len(prose) :]))
    lines.append(f"All of it is `examples/gallery/{name}.py`.\n")
    return "\n".join(lines)


def fenced(code: str) -> str:
    """A block of Python."""
    return f"```python\n{code.strip()}\n```\n"


def pages() -> dict[str, str]:
    """The page of every program by its path under docs."""
    return {f"gallery/{name}.md": page(name) for name in NAMES}
