# SPDX-License-Identifier: Apache-2.0
"""`scripts/check-tree` finds links of documents that lead nowhere, and operations that nobody described."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from checks import tree  # noqa: E402

PAGE = """# Title

## Two words, and `code`

```
# no heading
```

## Again

## Again
"""


@pytest.mark.parametrize("link, problem", [
    ("page.md", ""),
    ("page.md#two-words-and-code", ""),
    ("page.md#again-1", ""),
    ("#own", ""),
    ("none.md", "link to none.md, which does not exist"),
    ("page.md#no-heading", "link to page.md#no-heading, where no heading is called so"),
    ("#page", "link to #page, where no heading is called so"),
])
def test_links_lead_to_files_and_headings(link: str, problem: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text(PAGE)
    (tmp_path / "reader.md").write_text(f"# Own\n\n[link]({link})\n")
    assert list(tree.check_links([pathlib.Path("reader.md")])) == ([f"reader.md: {problem}"] if problem else [])


def test_operations_are_described(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "ROOT", tmp_path)
    described = 'def A_GoodOp : A_Op<"good"> {\n  let summary = "s";\n  let description = "d";\n}\n'
    (tmp_path / "SomeOps.td").write_text(described + 'def A_BareOp : A_Op<"bare"> {\n  let summary = "s";\n}\n')
    assert list(tree.check_operations([pathlib.Path("SomeOps.td")])) == ["SomeOps.td: A_BareOp needs a summary and a description"]
