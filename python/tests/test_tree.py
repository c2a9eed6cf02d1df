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


def test_folders_of_transforms_include_only_those_below(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sharding is below Search: Search may include it, and not the other way round, by whichever name."""
    monkeypatch.setattr(tree, "ROOT", tmp_path)
    sources = {"Search/Search.cpp": '#include "Sharding/Sharding.h"\n', "Sharding/Sharding.cpp": '#include "autopar/Transforms/Search.h"\n'}
    files = [pathlib.Path("lib/Transforms") / name for name in sources]
    for path, text in zip(files, sources.values()):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text)
    assert list(tree.check_transforms(files)) == [
        "lib/Transforms/Sharding/Sharding.cpp:1: Sharding may not include Search, which is above it"]
