# SPDX-License-Identifier: Apache-2.0
"""`scripts/check-tree`: the rules that keep the tree findable and its rooms apart. Looks at every file that git does not ignore.

Rules (each a function below): passes are found by name in a source and a test; operations are described; file names say
what is inside; files open with a licence line and a paragraph; rooms include only what they may; links in the documents
lead somewhere; C++ is formatted. Files that are large for their kind are printed and never fail the check.
"""

import pathlib
import re
import shutil
import subprocess
import sys
from typing import Dict, Iterable, List, Sequence, Set

from .building import ROOT

CPP = (".h", ".cpp")
#: Lines at which a file of this kind is worth a look.
LARGE = {".cpp": 500, ".h": 200, ".td": 300, ".py": 500, ".mlir": 150}
BANNED_WORDS = {"util", "utils", "helper", "helpers", "common", "misc"}
FORMAT_VERSION = "14"

#: Rooms in plain C++: these never see the compiler's libraries.
PLAIN_ROOMS = {"Base", "Cost", "VirtualTime", "Plan", "Planner", "Report", "Artifact", "CpuMath", "Runtime"}
COMPILER_HEADERS = re.compile(r'#include\s+[<"](mlir|llvm|onnx|google/protobuf)/')
#: What each room may include besides itself and Base; rooms that are not named here are free.
LEAF = {"Cost", "VirtualTime", "Plan"}
ABOVE_TRANSFORMS = {"Transforms", "Planner", "Dialect", "Interfaces", "Artifact"} | LEAF
MAY_INCLUDE = {
    "Base": set(),
    "Cost": LEAF,
    "VirtualTime": LEAF,
    "Plan": LEAF,
    "Planner": LEAF,
    "Report": LEAF,
    "Artifact": LEAF,
    "CpuMath": {"Artifact"},  # what the runtime computes on CPUs; the compiler plans its memory with it
    "Runtime": LEAF | {"Artifact", "CpuMath"},
    "Interfaces": LEAF | {"Dialect"},
    "Dialect": LEAF | {"Interfaces", "Artifact"},  # an op of the exec dialect is an instruction of the artifact
    "Transforms": LEAF | {"Planner", "Dialect", "Interfaces"},
    "Import": ABOVE_TRANSFORMS,
    "Training": ABOVE_TRANSFORMS,
    "Target": ABOVE_TRANSFORMS,
    "Conversion": ABOVE_TRANSFORMS | {"CpuMath"},
}

#: Folders of lib/Transforms, lowest first: each includes only itself and those before it.
TRANSFORMS = ["Sharding", "Stages", "Library", "Fusion", "Cost", "Prepare", "FormGroups", "Search", "Apply"]


def tracked_files() -> List[pathlib.Path]:
    """Files that git tracks or would add, relative to the root."""
    listing = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT,
                             capture_output=True, text=True, check=True).stdout
    return [pathlib.Path(name) for name in listing.split("\0") if name and (ROOT / name).is_file()]


def text_of(path: pathlib.Path) -> str:
    """The file's text; undecodable bytes are replaced."""
    return (ROOT / path).read_text(errors="replace")


def kebab(name: str) -> str:
    """InsertReshards -> insert-reshards; AutoPar is one word."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name.replace("AutoPar", "Autopar")).lower()


def check_passes(files: Sequence[pathlib.Path]) -> Iterable[str]:
    """Every pass `def XxxPass : Pass<"autopar-xxx"` has Xxx.cpp in lib/ and a test that runs it: test/**/xxx*.mlir, or
    a folder test/**/Xxx."""
    sources = {path.stem for path in files if path.parts[0] == "lib" and path.suffix == ".cpp"}
    tests = {path: text_of(path) for path in files if path.parts[0] == "test" and path.suffix == ".mlir"}
    for table in (path for path in files if path.name.endswith("Passes.td")):
        for match in re.finditer(r'^def (\w+) : (?:Interface)?Pass<"([^"]+)"[^{]*\{(.*?)^\}', text_of(table), re.M | re.S):
            record, flag, body = match.groups()
            name = record[:-4] if record.endswith("Pass") else record
            expected = kebab(name) if name.startswith("AutoPar") else "autopar-" + kebab(name)
            if not record.endswith("Pass") or flag != expected:
                yield f"{table}: {record} has the flag {flag}, expected {expected}"
            if "let summary" not in body or "let description" not in body:
                yield f"{table}: {record} needs a summary and a description"
            if name not in sources:
                yield f"{table}: {record} has no source lib/**/{name}.cpp"
            test = kebab(name)
            named = [text for path, text in tests.items()
                     if path.stem == test or path.stem.startswith(test + "-") or path.parent.name == name]
            if not named:
                yield f"{table}: {record} has no test test/**/{test}.mlir or test/**/{name}/*.mlir"
            elif not any(flag in text for text in named):
                yield f"{table}: no test named after {record} runs {flag}"


def check_operations(files: Sequence[pathlib.Path]) -> Iterable[str]:
    """Every operation has a summary and a description, from which its reference is made."""
    for path in (path for path in files if path.name.endswith("Ops.td")):
        for match in re.finditer(r"^def (\w+Op) : .*?^\}", text_of(path), re.M | re.S):
            if "let summary" not in match[0] or "let description" not in match[0]:
                yield f"{path}: {match[1]} needs a summary and a description"


def check_names(files: Sequence[pathlib.Path]) -> Iterable[str]:
    """No file is named after having many purposes."""
    for path in files:
        words = re.split(r"[^a-z]+", kebab(path.stem))
        for word in BANNED_WORDS.intersection(words):
            yield f"{path}: '{word}' in a file name does not say what is inside"


def check_openings(files: Sequence[pathlib.Path]) -> Iterable[str]:
    """Sources open with the licence line, followed by a comment or docstring that says what the file is."""
    for path in files:
        script = path.parts[0] in ("scripts", ".ci") and not path.suffix
        if path.suffix not in CPP + (".td", ".py", ".fbs") and not script:
            continue
        lines = text_of(path).splitlines()
        lines = lines[1:] if lines and lines[0].startswith("#!") else lines
        if not lines or "SPDX-License-Identifier: Apache-2.0" not in lines[0]:
            yield f"{path}: the first line must hold SPDX-License-Identifier: Apache-2.0"
        elif len(lines) < 2 or not re.match(r'\s*(//|\*|#|"""|r""")', next(filter(str.strip, lines[1:]), "")):
            yield f"{path}: after the licence line, say in a sentence what this file is"


def room_of(path: pathlib.Path) -> str:
    """The room a C++ file belongs to, empty when none."""
    if path.parts[0] == "lib" and len(path.parts) > 2:
        return path.parts[1]
    return path.parts[2] if path.parts[:2] == ("include", "autopar") and len(path.parts) > 3 else ""


def check_includes(files: Sequence[pathlib.Path]) -> Iterable[str]:
    """Rooms include only rooms to their right, and plain rooms never a compiler header."""
    for path in files:
        room = room_of(path)
        if path.suffix not in CPP or not room:
            continue
        for number, line in enumerate(text_of(path).splitlines(), 1):
            if room in PLAIN_ROOMS and COMPILER_HEADERS.match(line):
                yield f"{path}:{number}: room {room} is plain C++ and may not include compiler headers"
            seen = re.match(r'#include\s+"autopar/(\w+)/', line)
            if seen and room in MAY_INCLUDE and seen[1] not in MAY_INCLUDE[room] | {room, "Base"}:
                yield f"{path}:{number}: room {room} may not include room {seen[1]}"


def check_transforms(files: Sequence[pathlib.Path]) -> Iterable[str]:
    """Folders of lib/Transforms include only folders below them; a public header belongs where its source is."""
    inside = [path for path in files if path.parts[:2] == ("lib", "Transforms") and len(path.parts) == 4 and path.suffix in CPP]
    folder_of = {path.stem: path.parts[2] for path in inside}
    for path in inside:
        folder = path.parts[2]
        if folder not in TRANSFORMS:
            yield f"{path}: {folder} is not in the order of folders (TRANSFORMS in scripts/checks/tree.py)"
            continue
        for number, line in enumerate(text_of(path).splitlines(), 1):
            seen = re.match(r'#include\s+"(?:autopar/Transforms/|\w+/)?(\w+)\.h"', line)
            if seen and seen[1] in folder_of and TRANSFORMS.index(folder_of[seen[1]]) > TRANSFORMS.index(folder):
                yield f"{path}:{number}: {folder} may not include {folder_of[seen[1]]}, which is above it"


def check_leftovers(files: Sequence[pathlib.Path]) -> Iterable[str]:
    """Nothing unfinished and no path of one machine is left behind."""
    unfinished, own_path = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b"), str(ROOT.parent) + "/"
    for path in files:
        for number, line in enumerate(text_of(path).splitlines(), 1):
            if unfinished.search(line):
                yield f"{path}:{number}: unfinished: {line.strip()[:80]}"
            if len(own_path) > 3 and own_path != "/tmp/" and own_path in line:
                yield f"{path}:{number}: path of this machine: {line.strip()[:80]}"


def without_fences(text: str) -> str:
    """A document without its blocks of code."""
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def anchors_of(path: pathlib.Path) -> Set[str]:
    """What `#...` may name in a document: its headings as GitHub spells them."""
    anchors: Set[str] = set()
    for heading in re.findall(r"^#+ +(.*?)\s*$", without_fences(text_of(path)), re.M):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        repeated = sum(re.fullmatch(re.escape(anchor) + r"(-\d+)?", known) is not None for known in anchors)
        anchors.add(f"{anchor}-{repeated}" if repeated else anchor)
    return anchors


def check_links(files: Sequence[pathlib.Path]) -> Iterable[str]:
    """Relative links of the documents lead to files, and their anchors to headings."""
    for path in (file for file in files if file.suffix == ".md"):
        for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)", without_fences(text_of(path))):
            aim = (path.parent / target) if target else path
            if not (ROOT / aim).exists():
                yield f"{path}: link to {target}, which does not exist"
            elif anchor and aim.suffix == ".md" and anchor not in anchors_of(aim):
                yield f"{path}: link to {target}#{anchor}, where no heading is called so"


def check_python(files: Sequence[pathlib.Path]) -> Iterable[str]:
    """Python files compile."""
    for path in (file for file in files if file.suffix == ".py"):
        try:
            compile(text_of(path), str(path), "exec")
        except SyntaxError as error:
            yield f"{path}:{error.lineno}: {error.msg}"


def check_format(files: Sequence[pathlib.Path]) -> Iterable[str]:
    """clang-format has nothing to change."""
    tool = shutil.which(f"clang-format-{FORMAT_VERSION}") or shutil.which("clang-format")
    if not tool:
        yield "clang-format is missing; run scripts/install-packages"
        return
    version = re.search(r"version (\d+)", subprocess.run([tool, "--version"], capture_output=True, text=True).stdout)
    if not version or version[1] != FORMAT_VERSION:
        yield f"{tool} is not version {FORMAT_VERSION}, which the tree is formatted with"
        return
    cpp = [path for path in files if path.suffix in CPP]
    for start in range(0, len(cpp), 50):
        result = subprocess.run([tool, "--dry-run", "-Werror", "--ferror-limit=1", *cpp[start:start + 50]], cwd=ROOT,
                                capture_output=True, text=True)
        for name in sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", result.stderr, re.M))):
            yield f"{name}: not formatted; run {pathlib.Path(tool).name} -i on it"


def print_large(files: Sequence[pathlib.Path]) -> None:
    """Prints files that are long for their kind; for the reader, not a failure."""
    sizes: Dict[pathlib.Path, int] = {path: text_of(path).count("\n") for path in files if path.suffix in LARGE}
    large = sorted(((lines, path) for path, lines in sizes.items() if lines > LARGE[path.suffix]), reverse=True)
    for lines, path in large[:15]:
        print(f"large: {path} has {lines} lines; is there a second idea in it?")


RULES = (check_passes, check_operations, check_names, check_openings, check_includes, check_transforms, check_leftovers,
         check_links, check_python, check_format)


def main() -> int:
    """Applies every rule; exit status 1 when one is broken."""
    files = tracked_files()
    print_large(files)
    broken = [message for rule in RULES for message in rule(files)]
    for message in broken:
        print(f"error: {message}")
    print(f"check-tree: {len(files)} files, {len(RULES)} rules, {len(broken)} errors")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
