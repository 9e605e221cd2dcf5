# SPDX-License-Identifier: Apache-2.0
"""The C++ compiler: flags, one translation unit with an entry, libraries kept by the content of what made them."""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ms_custom_ops.ascendc import diagnostics, rewrite
from ms_custom_ops.config import config
from ms_custom_ops.engine import native
from ms_custom_ops.errors import AscendcBuildError, describe

FLAGS = (
    "-std=c++17",
    "-O2",
    "-g1",  # lines of a division by zero or a wild pointer
    "-gdwarf-4",  # of version 5 the binutils of today name the wrong file in clones of a function
    "-fstack-clash-protection",  # a large frame does not step over the page behind the stack
    "-fPIC",
    "-pthread",
    "-fno-strict-aliasing",  # kernels read bits through reinterpret_cast
    "-ffp-contract=off",  # a fused multiply-add rounds once where the chip rounds twice
    "-fvisibility=hidden",
    "-w",
    "-Wno-narrowing",
    "-DASCENDC_CPU_DEBUG=1",  # what sources ask for a CPU build
    "-D__CCE_KT_TEST__=1",
)
_LINK = ("-shared", "-Wl,-Bsymbolic-functions")  # a kernel's assert and abort are faults of that kernel
_VARIANTS = 8  # libraries kept of one unit, for texts that change back and forth
_CORES = ("CUBE", "VEC")
_ADDRESS = re.compile(r"(?:invalid cast|reinterpret_cast) from (?:type )?.?(?:'|‘)?mco_asc::Address<")
_UNKNOWN = re.compile(r"error: [‘'](\w+)[’'] was not declared in this scope")
_AMBIGUOUS = re.compile(r"error: reference to [‘'](\w+)[’'] is ambiguous")
_STREAM = re.compile(r"‘(?:cout|cerr|endl)’ is not a member of ‘std’")
_TEMPLATE = re.compile(r"\b(?:inline|constexpr) [^\n;={}]*?\b([A-Z]\w+)\(|^MCO_ASC_[A-Z0-9_]+\(([A-Z]\w+)[,)]", re.M)
# Entries that the C library has a function of the same name for.
_LIBRARY = frozenset(
    "abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh div erf erfc exp exp2 expm1 fabs fdim "
    "floor fma fmax fmin fmod frexp gamma hypot index ldexp lgamma log log10 log1p log2 logb modf pow remainder remove "
    "rename rint round scalb select significand sin sinh sqrt tan tanh tgamma time trunc".split()
)


@dataclass(frozen=True)
class Unit:
    """What is compiled into one library, or two: where ``twice``, one for each kind of core."""

    entry: str
    source: Path
    others: tuple[Path, ...]
    prologue: str
    folders: tuple[Path, ...]
    flags: tuple[str, ...]
    twice: bool = False


def include_folder() -> Path:
    """Folder of the headers that kernels include."""
    return Path(__file__).parent / "include"


def host_include_folder() -> Path:
    """Folder of the headers that host code includes: op_host sources, programs that ask for a tiling or the chip."""
    return Path(__file__).parent / "include_host"


def cflags() -> list[str]:
    """Flags for a user's own build, with the include folders."""
    flags = [flag for flag in FLAGS if flag not in ("-w", "-fvisibility=hidden")]
    return [*flags, f"-I{include_folder()}", f"-I{host_include_folder()}"]


def libs() -> list[str]:
    """What a user's own program is linked with."""
    engine = native.library_path()
    return [str(engine), f"-Wl,-rpath,{engine.parent}", "-Wl,--unresolved-symbols=ignore-in-shared-libs", "-pthread"]


@functools.cache
def compiler() -> str:
    """Path of the C++ compiler; AscendcBuildError when there is none."""
    wanted = config().cxx
    for name in [wanted] if wanted else ["g++", "c++", "clang++"]:
        if path := shutil.which(name):
            return path
    raise AscendcBuildError(
        describe(
            "ascendc.build", "C++ compiler", wanted or "missing", "g++ 10 or later, or clang; see MS_CUSTOM_OPS_CXX"
        )
    )


@functools.cache
def _identity() -> str:
    """Of compiler, headers, engine, and what rewrites sources: a change of one of them makes every library stale."""
    found = hashlib.sha256()
    for module in (__file__, rewrite.__file__):
        found.update(Path(module).read_bytes())
    stat = os.stat(os.path.realpath(compiler()))
    found.update(f"{os.path.realpath(compiler())} {stat.st_size} {stat.st_mtime_ns}".encode())
    engine = native.library_path()
    stat = engine.stat()
    found.update(f"{engine} {stat.st_size} {stat.st_mtime_ns}".encode())
    for path in sorted([*include_folder().rglob("*"), *host_include_folder().rglob("*.h")]):
        if path.is_file():
            found.update(path.read_bytes())
    return found.hexdigest()


@functools.cache
def store() -> Path:
    """The cache folder of libraries, or one that goes when the process ends."""
    base = config().cache_dir
    if base is not None:
        return base / "ascendc"
    folder = tempfile.mkdtemp(prefix="ms_custom_ops_ascendc_")
    atexit.register(shutil.rmtree, folder, True)
    return Path(folder)


def compiled(unit: Unit) -> tuple[list[Path], bool]:
    """Libraries of a unit, and whether they were there already. AscendcBuildError where the compiler refuses it."""
    key = hashlib.sha256(repr((unit, FLAGS, _identity())).encode()).hexdigest()[:32]
    folder = store() / key
    for record in _records(folder):
        libraries = [folder / name for name in record["libraries"]]
        if all(_digest(path) == digest for path, digest in record["files"].items()) and all(
            library.is_file() for library in libraries
        ):
            return libraries, True
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, str] = {}
    cores = _cores(unit)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = [_compile(unit, core, Path(scratch), files) for core in cores]
        name = hashlib.sha256(json.dumps(sorted(files.items())).encode()).hexdigest()[:16]
        libraries = [folder / f"{name}{core.lower()}.so" for core in cores]
        for temporary, library in zip(made, libraries, strict=True):
            os.replace(temporary, library)
    _record(folder, {"files": files, "libraries": [library.name for library in libraries]})
    return libraries, False


def _cores(unit: Unit) -> list[str]:
    """Kinds of cores that a library is made for: where the source asks for the kind, those it has the entry for."""
    if not unit.twice:
        return [""]
    name = re.sub(r"<.*>$", "", unit.entry, flags=re.S).split("::")[-1].strip()
    there = []
    for core in _CORES:
        flags = [*unit.flags, f"-D__DAV_C220_{core}__", *(f"-I{f}" for f in (include_folder(), *unit.folders))]
        command = [compiler(), "-std=c++17", "-E", "-P", *flags, "-x", "c++", str(unit.source)]
        told = subprocess.run(command, capture_output=True, text=True, errors="replace")
        if told.returncode or re.search(rf"\b{name}\b", told.stdout):  # what is wrong is told by compiling it
            there.append(core)
    return there or list(_CORES)


def _records(folder: Path) -> list[dict]:
    try:
        return json.loads((folder / "builds.json").read_text())
    except (OSError, ValueError):
        return []


def _record(folder: Path, record: dict) -> None:
    kept = [record, *(old for old in _records(folder) if old["libraries"] != record["libraries"])]
    temporary = folder / f"builds.{os.getpid()}.json"
    temporary.write_text(json.dumps(kept[:_VARIANTS]))
    os.replace(temporary, folder / "builds.json")
    for old in kept[_VARIANTS:]:
        for name in old["libraries"]:
            (folder / name).unlink(missing_ok=True)


def _digest(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return ""


def readable(source: Path, scratch: Path) -> Path:
    """The source, or a copy that plain C++ can read and whose lines are those of the source."""
    given = source.read_text(errors="replace")
    text = rewrite.ended_statements(rewrite.plain_launches(rewrite.kernel_part(given)))
    if text == given and source.suffix in (".cpp", ".cc", ".cxx", ".cce"):
        return source
    copy = scratch / f"{source.stem}_{hashlib.sha256(str(source).encode()).hexdigest()[:8]}.cpp"
    launches = '#include "mco/launch.h"\n' if text != given else ""
    copy.write_text(f'{launches}#line 1 "{source}"\n{text}')
    return copy


def _renamed(unit: Unit) -> str:
    names = [unit.entry, *rewrite.global_functions(unit.source.read_text(errors="replace"))]
    return "".join(f"#define {name} mco_kernel_{name}\n" for name in sorted(set(names) & _LIBRARY))


def _compile(unit: Unit, core: str, scratch: Path, files: dict[str, str]) -> Path:
    """One library; adds what it was made of to ``files``."""
    main, library = scratch / f"entry{core}.cpp", scratch / f"kernel{core}.so"
    others = [readable(path, scratch) for path in unit.others]
    main.write_text(
        f'#include "kernel_operator.h"\n{_renamed(unit)}{unit.prologue}#include "{readable(unit.source, scratch)}"\n'
        f'#line 1 "{unit.source}"\n#include "mco/entry.h"\nMCO_ASC_ENTRY({unit.entry})\n'
    )
    flags = [*FLAGS, *unit.flags, *([f"-D__DAV_C220_{core}__"] if core else [])]
    includes = [f"-I{folder}" for folder in (include_folder(), *unit.folders, host_include_folder())]
    command = [compiler(), *flags, *includes, "-MMD", "-x", "c++"]
    objects = []
    for number, source in enumerate([main, *others]):
        made = scratch / f"{number}{core}.o"
        _compile_source([*command, "-c", str(source), "-o", str(made)], unit, scratch)
        objects.append(str(made))
        for path in dependencies(made.with_suffix(".d")):
            if not {scratch, include_folder(), host_include_folder()} & set(path.parents):
                files[str(path)] = _digest(str(path))
    for path in (unit.source, *unit.others):
        files[str(path)] = _digest(str(path))
    run([compiler(), *_LINK, *objects, str(native.library_path()), "-pthread", "-o", str(library)], unit)
    return library


def _compile_source(command: list[str], unit: Unit, scratch: Path) -> None:
    """Compiles a source; again where it says what plain g++ does not read and `_means` knows."""
    result = subprocess.run(command, capture_output=True, text=True, errors="replace")
    used: list[str] = []
    while result.returncode and (more := [flag for flag in _means(result.stderr, scratch) if flag not in used]):
        used += more
        again = subprocess.run([*command, *used], capture_output=True, text=True, errors="replace")
        if any(f"function for call to ‘{name}" in again.stderr for name in _UNKNOWN.findall(result.stderr)):
            break  # one left without a match: what was said first is what is wrong
        result = again
    _raise_of(result, unit)


def _means(errors: str, scratch: Path) -> list[str]:
    """Flags with which the headers read a source that made these errors.

    `Exp<float, false>(x, ...)` without a namespace: C++20, and clang in C++17, look among the functions of the
    namespace of ``x``; g++ in C++17 wants to know first that ``Exp`` is a template. `reinterpret_cast` of an address
    on the chip, which is a class here, since it is both number and pointer to kernels. A class of the kernel's own with
    the name of one of our functions (of another chip or a later version) beside `using namespace AscendC`: the function
    steps aside. `std::cout` of a source that prints in a CPU build: the vendor's headers bring it along.
    """
    names = sorted(set(_UNKNOWN.findall(errors)) & _templates())
    flags = [f"-DMCO_ASC_TEMPLATES={''.join(f'MCO_ASC_TEMPLATE({name});' for name in names)}"] if names else []
    if own := sorted(set(_AMBIGUOUS.findall(errors)) & (_templates() | _refused())):
        aside = scratch / f"without_{'_'.join(own)[:64]}.h"
        moved = [f"#define {name} mco_asc_not_{name}\n" for name in own]
        back = [f"#undef {name}\n" for name in own]
        aside.write_text("".join([*moved, '#include "kernel_operator.h"\n', *back]))
        flags.append(f"-include{aside}")
    flags += ["-includeiostream"] if _STREAM.search(errors) else []
    return [*flags, "-DMCO_ASC_REINTERPRET"] if _ADDRESS.search(errors) else flags


@functools.cache
def _templates() -> frozenset[str]:
    """Names of the functions that the headers declare in the namespace AscendC."""
    text = "\n".join(path.read_text() for path in sorted((include_folder() / "mco").glob("*.h")))
    return frozenset(name for pair in _TEMPLATE.findall(text) for name in pair if name)


@functools.cache
def _refused() -> frozenset[str]:
    """Names that the headers declare to refuse them."""
    text = (include_folder() / "mco" / "absent.h").read_text()
    return frozenset(re.findall(r"MCO_ASC_(?:ON_950|NOT_YET|NEWER)\((\w+)", text))


def dependencies(rule: Path) -> list[Path]:
    text = rule.read_text().replace("\\\n", " ")
    names = re.split(r"(?<!\\)\s+", text.partition(": ")[2].strip())
    paths = [Path(name.replace("\\ ", " ")) for name in names if name]
    return [path for path in paths if not str(path).startswith(("/usr/include", "/usr/lib"))]


def run(command: list[str], unit: Unit) -> None:
    _raise_of(subprocess.run(command, capture_output=True, text=True, errors="replace"), unit)


def _raise_of(result: subprocess.CompletedProcess, unit: Unit) -> None:
    if result.returncode:
        own = [unit.source, *unit.others, *unit.folders]
        raise AscendcBuildError(diagnostics.readable(result.stderr, own, include_folder().parent))
